"""Another model, here, that says how likely it finds what the policy sampled."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from practicum.core.errors import ConfigError
from practicum.core.interfaces import ChatCodec
from practicum.core.sample import Batch, Floats, Sample
from practicum.core.trace import Message
from practicum.policy.batch_tensors import BatchTensors
from practicum.policy.decoder import decoder_of
from practicum.policy.head import Head
from practicum.policy.models import LoadedModel
from practicum.policy.threads import computed

__all__ = ["TorchTeacher"]

PROBE = Message(
    role="assistant",
    content="Solve 3x + 7 = 16, then list the files in /srv: `ls -l`. <|im_end|> é 漢",
)
"""A text that two tokenizers read alike only if they are the same."""


class TorchTeacher:
    """Log-probabilities of a model that does not learn.

    Args:
        loaded: The teacher, loaded with our attention.
        pupil: The codec of the policy, whose tokens the teacher is to judge.
        lay_out: Samples to prefix trees that fit through the model.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        pupil: ChatCodec,
        *,
        lay_out: Callable[[Sequence[Sample]], list[Batch]],
    ) -> None:
        if loaded.codec.write(PROBE) != pupil.write(PROBE):
            raise ConfigError(
                f"algorithm.teacher = {loaded.name!r} cannot be used: it does not read text as the "
                "same tokens as the model that learns; choose a larger model of the same family"
            )
        self._decoder = decoder_of(loaded.module)
        self._head = Head(loaded.module)
        self._device = next(loaded.module.parameters()).device
        self._lay_out = lay_out

    @computed
    @torch.no_grad()
    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """For each sample, the log-probabilities of its loss tokens, in their order."""
        found: dict[str, Floats] = {}
        for batch in self._lay_out(samples):
            terms = self._terms(batch)
            for number, key in enumerate(batch.sample_ids):
                found[key] = terms[batch.term_sample == number]
        return [found.get(sample.id, np.zeros(0, np.float32)) for sample in samples]

    def _terms(self, batch: Batch) -> Floats:
        tensors = BatchTensors.of(batch, self._device)
        states = self._decoder.learn(
            tensors.token_ids, tensors.position, tensors.end, checkpointed=False
        )
        said = self._head.predict(
            states[tensors.predictor], tensors.target, tensors.temperature, tensors.choice_ids
        )
        array: Floats = said.logprobs[tensors.term_decision].float().cpu().numpy()
        return array
