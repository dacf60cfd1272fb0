"""Models, tokens and batches that every benchmark shares, so that all sides get the same ones."""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

from practicum.core.config import LoraConfig
from practicum.core.sample import Sample
from practicum.policy.attention import ATTENTION, register_attention
from practicum.policy.lora import attach_adapter
from practicum.policy.models import load_model

__all__ = [
    "Conversation",
    "adapted_model",
    "arguments",
    "conversations",
    "median_seconds",
    "ours",
    "samples_of",
]

LORA = LoraConfig(preset="full")

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
"""Shapes that get random weights; speed does not depend on what the weights are."""

MODELS = ("tiny", "smollm2-135m", *SHAPES)


def adapted_model(name: str, attention: str, *, dtype: str, device: str) -> Any:
    """A model with a LoRA adapter whose second half is not zero; the same numbers every time."""
    register_attention()
    if name in SHAPES:
        torch.manual_seed(0)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(
                SHAPES[name], dtype=getattr(torch, dtype), attn_implementation=attention
            )
        model.eval().requires_grad_(False)
    else:
        model = load_model(name, dtype=dtype, device=device, attn_implementation=attention).module
    adapted = attach_adapter(model, LORA, 0, name)
    torch.manual_seed(1)
    for key, parameter in adapted.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(parameter, std=0.01)
    return adapted.eval()


def ours(name: str, *, dtype: str, device: str) -> Any:
    """The model with Practicum's attention."""
    return adapted_model(name, ATTENTION, dtype=dtype, device=device)


class Conversation(NamedTuple):
    """One row: its tokens, and which of them were sampled."""

    token_ids: np.ndarray
    sampled: np.ndarray


def conversations(
    *, prompt: int, completion: int, group: int, turns: int, vocabulary: int, seed: int = 0
) -> list[Conversation]:
    """A group of rows with the same prompt; each turn is a completion and then 32 given tokens."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, vocabulary, prompt)
    rows = []
    for _ in range(group):
        parts, marks = [start], [np.zeros(prompt, bool)]
        for turn in range(turns):
            parts.append(rng.integers(0, vocabulary, completion))
            marks.append(np.ones(completion, bool))
            if turn < turns - 1:
                parts.append(rng.integers(0, vocabulary, 32))
                marks.append(np.zeros(32, bool))
        rows.append(Conversation(np.concatenate(parts), np.concatenate(marks)))
    return rows


def samples_of(rows: list[Conversation], advantages: np.ndarray) -> list[Sample]:
    """Rows as training samples, each row counting the same."""
    return [
        Sample(
            token_ids=row.token_ids.astype(np.int64),
            loss_mask=row.sampled,
            old_logprobs=np.zeros(row.sampled.size, np.float32),
            advantages=np.full(row.sampled.size, advantage, np.float32),
            temperatures=np.ones(row.sampled.size, np.float32),
            choices={},
            weight=1.0 / len(rows) / int(row.sampled.sum()),
            trace_id=str(number),
        )
        for number, (row, advantage) in enumerate(zip(rows, advantages.tolist(), strict=True))
    ]


def arguments(title: str) -> argparse.ArgumentParser:
    """What every benchmark can be told."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--model", choices=MODELS, default="smollm2-135m")
    parser.add_argument("--prompt", type=int, default=489)
    parser.add_argument("--completion", type=int, default=128)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-trl", action="store_true", help="leave TRL out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def median_seconds(
    sides: dict[str, Callable[[], None]],
    repeats: int,
    device: str,
    after_warm_up: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """Every side in turn, again and again; the first round only warms up."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for round_number in range(repeats + 1):
        for name, run in sides.items():
            _wait(device)
            began = time.perf_counter()
            run()
            _wait(device)
            if round_number:
                times[name].append(time.perf_counter() - began)
        if round_number == 0:
            after_warm_up()
    return {name: statistics.median(found) for name, found in times.items()}


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
