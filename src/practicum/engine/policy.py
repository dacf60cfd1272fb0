"""One module in memory that samples and learns."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from practicum.core.interfaces import Learner
from practicum.core.sampling import Actions, Completion
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.compute_thread import computed
from practicum.engine.decoder.attention import ATTENTION, register_attention
from practicum.engine.decoder.decoders import Decoder, decoder_of
from practicum.engine.learning.learner import LearnerSettings, TorchLearner
from practicum.engine.learning.process_group import Peers
from practicum.engine.models.catalog import known_base
from practicum.engine.models.loading import DTypeName, LoadedModel, load_model
from practicum.engine.models.lora import (
    attach_adapter,
    describe_adapter,
    policy_fingerprint,
    read_adapter,
    trainable_share,
)
from practicum.engine.sampling.sampling_engine import TorchEngine

if TYPE_CHECKING:
    from practicum.core.config.config_sections import LoraConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchPolicy:
    """A base model with an adapter. Sampler and learner hold the same tensors."""

    model: Any
    decoder: Decoder
    sampler: TorchEngine
    learner: Learner
    """A `TorchLearner`, or that of several processes of which this one has a replica."""
    codec: TemplateCodec
    tokenizer: Any
    name: str

    @classmethod
    @computed
    def build(
        cls,
        loaded: LoadedModel,
        lora: "LoraConfig",
        settings: LearnerSettings,
        seed: int,
        *,
        max_slots: int = 65_536,
        checkpointed: bool = False,
        adapter_bin: bool = False,
        peers: Peers | None = None,
    ) -> "TorchPolicy":
        """Attach a fresh adapter to a model loaded with our attention.

        With `peers` its learner takes a part in what they learn together.
        """
        model = attach_adapter(loaded.module, lora, seed, known_base(loaded.name)[0])
        model.eval()
        torch.manual_seed(seed)  # dropout draws from torch's own generator, and nothing else does

        def read() -> str:
            return policy_fingerprint(model, loaded.fingerprint)

        published = [read()]
        decoder = decoder_of(model.get_base_model())
        sampler = TorchEngine(
            model.get_base_model(),
            decoder,
            loaded.tokenizer,
            loaded.codec,
            fingerprint=lambda: published[0],
            max_slots=max_slots,
        )
        learner = TorchLearner(
            model,
            decoder,
            settings,
            fingerprint=read,
            publish=lambda version: published.__setitem__(0, version),
            describe=partial(describe_adapter, loaded.name, loaded.tokenizer, as_bin=adapter_bin),
            checkpointed=checkpointed,
            peers=peers,
        )
        return cls(
            model=model,
            decoder=decoder,
            sampler=sampler,
            learner=learner,
            codec=loaded.codec,
            tokenizer=loaded.tokenizer,
            name=loaded.name,
        )

    @property
    def max_positions(self) -> int:
        """How many tokens the model can tell the places of."""
        return int(self.model.get_base_model().config.max_position_embeddings)

    def spell(self, text: str, actions: Actions) -> Completion:
        """A turn as if it had been sampled; see `TorchEngine.spell`."""
        return self.sampler.spell(text, actions)

    @property
    def trainable_share(self) -> tuple[int, int]:
        """Trainable parameters, and the base model's."""
        return trainable_share(self.model)


@computed
def load_for_policy(
    name: str, dtype: DTypeName, device: str, chat_template: str = ""
) -> LoadedModel:
    """Load a model with our attention in it, and compute on its device from now on."""
    register_attention()
    if torch.device(device).index is not None:
        torch.cuda.set_device(device)  # kernels and graphs are launched on the current device
    return load_model(
        name,
        dtype=dtype,
        device=device,
        attn_implementation=ATTENTION,
        chat_template=chat_template,
    )


@computed
def load_adapted_sampler(loaded: LoadedModel, adapter: Path | None) -> TorchEngine:
    """A sampler of a model, with the adapter in a checkpoint folder if one is given."""
    causal_lm, fingerprint = loaded.module, loaded.fingerprint
    if adapter is not None:
        model = read_adapter(causal_lm, adapter)
        causal_lm = model.get_base_model()
        fingerprint = policy_fingerprint(model, loaded.fingerprint)
    return TorchEngine(
        causal_lm,
        decoder_of(causal_lm),
        loaded.tokenizer,
        loaded.codec,
        fingerprint=lambda: fingerprint,
    )
