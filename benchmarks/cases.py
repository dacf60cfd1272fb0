"""What every benchmark shares: the case, its model, and Practicum's side of it.

A `Case` says what is measured. Every side of a benchmark gets the same one, so all have the same
weights, adapter and tokens. Practicum's own objects are constructed here and nowhere else.
"""

import argparse
import copy
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

# Before torch: importing it says how long OpenMP's workers wait actively.
import practicum  # noqa: F401  # isort: skip
import torch
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, Qwen2Config

from practicum.engine.compute_thread import computed
from practicum.engine.decoder.attention import ATTENTION, register_attention
from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.models.loading import LoadedModel, load_model, locate_model
from practicum.engine.models.lora import attach_adapter
from practicum.engine.policy import TorchPolicy

__all__ = [
    "LR",
    "MODELS",
    "Case",
    "ModelSize",
    "Series",
    "arguments",
    "model_config",
    "peer_model",
    "policy_of",
]

LR = 1e-5

SETTINGS = LearnerSettings(lr=LR, max_logprob_gap=1e9, max_grad_norm=1e9)
"""Nothing is refused or clipped, so that gradients can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """LoRA on every linear layer of the decoder; what `attach_adapter` reads of a config."""

    r: int = 16
    alpha: int = 32
    dropout: float = 0.0
    start: str = ""
    targets: tuple[str, ...] = (
        "q_proj",
        "k_proj",
        "v_proj",
        "o_proj",
        "gate_proj",
        "up_proj",
        "down_proj",
    )


ADAPTER: Any = Adapter()

SHAPES: dict[str, Any] = {
    "llama-6m": LlamaConfig(
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=49152,
        tie_word_embeddings=True,
        max_position_embeddings=8192,
    ),
    "smollm2-135m": LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49152,
        tie_word_embeddings=True,
        max_position_embeddings=8192,
    ),
    "qwen2.5-0.5b": Qwen2Config(
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        vocab_size=151936,
        tie_word_embeddings=True,
        max_position_embeddings=32768,
    ),
    "qwen2.5-7b": Qwen2Config(
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        vocab_size=152064,
        tie_word_embeddings=False,
        max_position_embeddings=32768,
    ),
}
"""Shapes that can have random weights; speed does not depend on what the weights are."""

WITH_WEIGHTS = ("tiny", "smollm2-135m")
"""Models whose own weights can be had anywhere."""

MODELS = ("tiny", *SHAPES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is measured, on what, and how often."""

    model: str = "smollm2-135m"
    random_weights: bool = False
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 2
    prompts: int = 1
    prompt: int = 489
    completion: int = 128
    group: int = 8
    turns: int = 1
    history: Literal["single", "growing"] = "single"
    micro_batch_tokens: int = 2048
    peer_batch: int = 0
    merged_peers: bool = False
    trl_paged: bool = False
    repeats: int = 3
    without: tuple[str, ...] = ()
    separate: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Case":
        """The case that the command line describes."""
        known = {field.name for field in dataclasses.fields(cls)}
        given = {key: value for key, value in vars(args).items() if key in known}
        return cls(**{**given, "without": tuple(args.without)})

    @property
    def episodes(self) -> int:
        """Completions of one turn that are under way together."""
        return self.prompts * self.group

    @property
    def has_own_weights(self) -> bool:
        """Whether the model is loaded rather than filled with random numbers."""
        return self.model in WITH_WEIGHTS and not self.random_weights

    @property
    def uses_cuda(self) -> bool:
        """Whether times need the device to be waited for."""
        return self.device.startswith("cuda")


def arguments(title: str) -> argparse.ArgumentParser:
    """What every benchmark can be told."""
    parser = argparse.ArgumentParser(description=title)
    add = parser.add_argument
    add("--model", choices=MODELS, default="smollm2-135m")
    add("--random-weights", action="store_true", help="only the shape of smollm2-135m")
    add("--prompts", type=int, default=1, help="distinct prompts, each with a group of its own")
    add("--prompt", type=int, default=489, help="tokens of a prompt")
    add("--completion", type=int, default=128, help="tokens sampled in a turn")
    add("--group", type=int, default=8, help="episodes of a prompt")
    add("--repeats", type=int, default=3, help="rounds that count; one more warms up")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    add("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    add("--threads", type=int, default=2)
    add("--without", nargs="+", default=[], action="extend", help="sides to leave out")
    add("--no-trl", dest="without", action="append_const", const="trl", help="leave TRL out")
    add("--separate", action="store_true", help="one side after the other; the first is freed")
    add("--json", action="store_true", help="print one JSON object")
    return parser


class Series(NamedTuple):
    """A field of a case and the values it takes in turn."""

    field: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, text: str) -> "Series":
        """From `field=value,value`, such as `prompt=128,512`."""
        name, _, values = text.partition("=")
        kinds = {field.name: field.type for field in dataclasses.fields(Case)}
        if name not in kinds or not values:
            raise argparse.ArgumentTypeError(f"{text!r} is not like prompt=128,512")
        read = int if kinds[name] is int else str
        return cls(name, tuple(read(value) for value in values.split(",")))

    def cases(self, case: Case) -> Iterable[tuple[Any, Case]]:
        """Each value, and the case with it."""
        for value in self.values:
            yield value, dataclasses.replace(case, **{self.field: value})


def model_config(case: Case) -> Any:
    """The `transformers` config of the case's model."""
    if not case.has_own_weights:
        return SHAPES[case.model]
    folder = locate_model(case.model, lambda *_: None)
    if folder is not None:
        return AutoConfig.from_pretrained(folder)
    from practicum.engine.models.tiny import build_tiny_model

    return build_tiny_model().config


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSize:
    """What a model's time and memory follow from."""

    decoder: int
    """Parameters of the linear layers inside the decoder; the output layer is not among them."""
    head: int
    """Parameters of the output layer."""
    kv_numbers: int
    """Numbers that the cache holds for one token."""
    bytes_a_number: int

    @classmethod
    def of(cls, case: Case) -> "ModelSize":
        """From the case's config, without the weights."""
        config = model_config(case)
        hidden, heads = config.hidden_size, config.num_attention_heads
        width = getattr(config, "head_dim", None) or hidden // heads
        queries, keys = heads * width, config.num_key_value_heads * width
        layer = 2 * hidden * (queries + keys) + 3 * hidden * config.intermediate_size
        return cls(
            decoder=config.num_hidden_layers * layer,
            head=hidden * config.vocab_size,
            kv_numbers=config.num_hidden_layers * 2 * keys,
            bytes_a_number=getattr(torch, case.dtype).itemsize,
        )


@computed
def load_case(case: Case, attention: str = ATTENTION) -> LoadedModel:
    register_attention()
    if case.has_own_weights:
        loaded = load_model(
            case.model,
            dtype=case.dtype,  # type: ignore[arg-type]
            device=case.device,
            attn_implementation=attention,
        )
        return dataclasses.replace(loaded, codec=NoEnd())  # type: ignore[arg-type]
    torch.manual_seed(0)
    with torch.device(case.device):
        model = AutoModelForCausalLM.from_config(
            copy.deepcopy(SHAPES[case.model]),  # it is told the attention, which sides differ in
            dtype=getattr(torch, case.dtype),
            attn_implementation=attention,
        )
    return LoadedModel(
        module=model.eval().requires_grad_(False),
        tokenizer=None,
        codec=NoEnd(),  # type: ignore[arg-type]
        name=case.model,
        folder=None,
        fingerprint="random",
    )


class NoEnd:
    """A codec for which no token ends a turn, so that every completion has its full length."""

    turn_end_id = -1
    end_of_turn_ids: frozenset[int] = frozenset()

    def decode(self, token_ids: Any) -> str:
        """Text is not what is measured."""
        return ""


@computed
def _fill_adapter(model: Any) -> None:
    """Give the adapter's second half the same small numbers every time; it starts as zeros."""
    torch.manual_seed(1)
    for key, parameter in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(parameter, std=0.01)


def peer_model(case: Case) -> Any:
    """The same model with the same adapter, as the peers use it."""
    model = attach_adapter(load_case(case, "sdpa").module, ADAPTER, 0, case.model)
    _fill_adapter(model)
    return model.eval()


def policy_of(case: Case) -> TorchPolicy:
    """Practicum's sampler and learner on one model, connected as a run has them."""
    policy = TorchPolicy.build(load_case(case), ADAPTER, SETTINGS, seed=0)
    _fill_adapter(policy.model)
    policy.sampler.forget()
    return policy
