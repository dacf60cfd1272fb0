"""What torch's own allocator hands out while a small model learns."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import peft
import torch
import transformers

from practicum.core.config.config_sections import LoraConfig
from practicum.engine.decoder.attention import ATTENTION, register_attention
from practicum.engine.decoder.decoders import decoder_of
from practicum.engine.decoder.head import Head
from practicum.engine.planning.model_shapes import ModelShape

SIZES = {
    "vocab_size": 512,
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class Model(NamedTuple):
    wrapped: Any
    causal_lm: Any
    decoder: Any
    shape: ModelShape


class Held(NamedTuple):
    kept: int
    """Bytes still there when the measured function is done."""
    peak: int
    """Bytes that were there at once."""


def build(family: str, layers: int, lora: LoraConfig) -> Model:
    """A model with an adapter, as the learner would have it."""
    register_attention()
    config = getattr(transformers, f"{family}Config")(**SIZES, num_hidden_layers=layers)
    model = getattr(transformers, f"{family}ForCausalLM")(config).requires_grad_(False)
    model.set_attn_implementation(ATTENTION)
    settings = peft.LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
    )
    wrapped = peft.get_peft_model(model, settings)
    wrapped.train(lora.dropout > 0)
    shape = ModelShape.from_config(config.to_dict())
    return Model(wrapped, model, decoder_of(model), shape)


def learn(model: Model, tokens: int, *, checkpointed: bool) -> torch.Tensor:
    """Hidden states of one path."""
    index = torch.arange(tokens)
    end = torch.full((tokens,), tokens)
    return model.decoder.learn(index % 64, index, end, checkpointed=checkpointed)


def gradients(model: Model, tokens: int, *, checkpointed: bool) -> tuple[Any, ...]:
    """Of the log-probabilities of every token, beside the sum of those of earlier batches."""
    parameters = [p for p in model.wrapped.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p) for p in parameters]
    states = learn(model, tokens, checkpointed=checkpointed)
    index = torch.arange(tokens)
    found = Head(model.causal_lm).predict(
        states[index], index % 64, torch.ones(tokens), torch.zeros((tokens, 0), dtype=torch.int64)
    )
    del states
    new = torch.autograd.grad(found.logprobs.sum(), parameters)
    return tuple(total.add_(grad) for total, grad in zip(sums, new, strict=True))


def measure(work: Callable[[], Any], folder: Path) -> Held:
    """From the profiler's record of every allocation."""
    work()  # what is made only once is not counted
    activity = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activity, profile_memory=True) as profile:
        result = work()
    file = folder / "trace.json"
    profile.export_chrome_trace(str(file))
    events = [e for e in json.loads(file.read_text())["traceEvents"] if e["name"] == "[memory]"]
    total = peak = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        total += event["args"]["Bytes"]
        peak = max(peak, total)
    del result
    return Held(total, peak)
