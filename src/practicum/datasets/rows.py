"""Rows of a training set, in the columns that TRL knows and a few of our own.

    sft    messages                          weight, reward, given
    kto    prompt, completion, label         weight, reward
    dpo    prompt, chosen, rejected          weight, chosen_reward, rejected_reward
    grpo   prompt, completions, rewards      weights

Every row also has `id`, `task_id` and `env`, and `tools` where any were offered. Where the model's
own tokens are known they are kept beside the text, with the mask of those it learns from.
"""

from collections.abc import Mapping
from typing import Any

from practicum.core.example import Example
from practicum.datasets.build import Kind, Unit
from practicum.datasets.message_rows import write_message, write_tool

__all__ = ["write_row"]

TOKENS = ("token_ids", "loss_mask", "tokens_of")


def write_row(kind: Kind, unit: Unit) -> dict[str, Any]:
    """One example, pair or group as a row; see `reading` for the way back."""
    first = unit[0]
    row: dict[str, Any] = {"id": first.id, "task_id": first.task_id, "env": first.env}
    row |= BODIES[kind](unit)
    if first.tools:
        row["tools"] = [write_tool(tool) for tool in first.tools]
    return row


def _sft(unit: Unit) -> dict[str, Any]:
    (example,) = unit
    return {
        "messages": _messages(example, 0),
        "given": example.opening,
        "weight": example.weight,
        "reward": example.reward,
        **_tokens(example),
    }


def _kto(unit: Unit) -> dict[str, Any]:
    (example,) = unit
    return {
        "prompt": _prompt(example),
        "completion": _messages(example, example.opening),
        "label": example.label,
        "weight": example.weight,
        "reward": example.reward,
        **_tokens(example),
    }


def _dpo(unit: Unit) -> dict[str, Any]:
    chosen, rejected = unit
    return {
        "id": chosen.pair,
        "prompt": _prompt(chosen),
        "chosen": _messages(chosen, chosen.opening),
        "rejected": _messages(rejected, rejected.opening),
        "weight": chosen.weight,
        **_side(chosen, "chosen"),
        **_side(rejected, "rejected"),
    }


def _side(example: Example, side: str) -> dict[str, Any]:
    values = {"id": example.id, "reward": example.reward, **_tokens(example)}
    return {f"{side}_{name}": value for name, value in values.items()}


def _grpo(unit: Unit) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": f"group of {unit[0].id}",
        "prompt": _prompt(unit[0]),
        "completions": [_messages(example, example.opening) for example in unit],
        "rewards": [example.reward for example in unit],
        "weights": [example.weight for example in unit],
        "ids": [example.id for example in unit],
    }
    if any(example.token_ids for example in unit):
        row |= {name: [_plain(getattr(example, name)) for example in unit] for name in TOKENS}
    return row


BODIES = {"sft": _sft, "kto": _kto, "dpo": _dpo, "grpo": _grpo}


def _prompt(example: Example) -> list[dict[str, Any]]:
    return [write_message(message) for message in example.prompt]


def _messages(example: Example, begin: int) -> list[dict[str, Any]]:
    """The messages from a place on; those that are only shown are marked."""
    numbered = list(enumerate(example.messages))[begin:]
    return [write_message(m, learned=place not in example.shown) for place, m in numbered]


def _tokens(example: Example) -> Mapping[str, Any]:
    if not example.token_ids:
        return {}
    return {name: _plain(getattr(example, name)) for name in TOKENS}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
