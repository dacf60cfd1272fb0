"""Examples to a training set of one kind: chosen, without doubles, split, balanced."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from practicum.core.errors import UserError
from practicum.core.example import Example
from practicum.datasets.balance import Balance, balance
from practicum.datasets.content import task_key
from practicum.datasets.duplicates import Duplicates, without_conflicts, without_duplicates
from practicum.datasets.left_out import LeftOut
from practicum.datasets.pairs import answer_groups, kept_pairs, preference_pairs
from practicum.datasets.split import SplitExamples, split_examples

__all__ = ["KINDS", "BuildOptions", "Built", "Kind", "Only", "Unit", "build"]

Kind = Literal["sft", "kto", "dpo", "grpo"]
KINDS: tuple[Kind, ...] = ("sft", "kto", "dpo", "grpo")
Only = Literal["good", "bad", "all"]
Unit = tuple[Example, ...]
"""What makes a row together: one example, the two sides of a pair, or a group."""

NOT_GOOD = "it is not a good one"
NOT_BAD = "it is not a bad one"
NO_VERDICT = "neither a label nor an outcome nor a score says whether it is good"
LOW = "its score is below the one asked for"
NO_WEIGHT = "its score gives it no weight"
OVER = "more than the number asked for"

DUPLICATES: dict[Kind, Duplicates] = {
    "sft": "exact",
    "kto": "exact",
    "dpo": "exact",
    "grpo": "keep",
}
"""What happens to doubles unless told; in a group, how often an answer was given matters."""
BALANCES: dict[Kind, tuple[Balance, ...]] = {
    "sft": ("none", "weight", "sample"),
    "kto": ("weight", "sample", "none"),
    "dpo": ("none", "weight"),
    "grpo": ("none",),
}
"""Ways of balancing that a kind allows, the first unless told: good against bad for `kto`, task
against task for the others. Pairs and groups are not taken apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """The question that a training set answers."""

    kind: Kind
    only: Only | None = None
    """Good or bad ones; None takes good ones for `sft`, unless weighted, and all otherwise."""
    min_score: float | None = None
    weight_by: Literal["", "score"] = ""
    """`score` weighs examples of `sft` by what they scored, with a mean of 1."""
    margin: float = 0.0
    """By how much the chosen side of a pair must score more."""
    duplicates: Duplicates | None = None
    near: float = 0.8
    """Jaccard index from which two texts are nearly the same."""
    balance: Balance | None = None
    heldout: float = 0.0
    n: int = 0
    """At most so many rows; 0 takes all."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be done together."""
        allowed = BALANCES[self.kind]
        if self.balance is not None and self.balance not in allowed:
            raise UserError(
                f"--balance {self.balance} cannot be had with --kind {self.kind}; "
                f"choose {' or '.join(allowed)}"
            )
        if self.weight_by and self.kind != "sft":
            raise UserError(f"--weight-by goes with --kind sft, not {self.kind}; leave it out")
        if not 0 <= self.heldout < 1:
            raise UserError(f"--heldout {self.heldout:g} is not a share; give 0 to 0.99")
        if not 0 < self.near <= 1:
            raise UserError(f"--near {self.near:g} is not a Jaccard index; give one above 0, to 1")
        if self.margin < 0:
            raise UserError(f"--margin {self.margin:g} is below 0; give 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A training set, and what did not get into it."""

    kind: Kind
    train: tuple[Unit, ...]
    heldout: tuple[Unit, ...]
    split: SplitExamples
    left_out: LeftOut


def build(examples: Iterable[Example], options: BuildOptions, left_out: LeftOut) -> Built:
    """Build a training set.

    Args:
        examples: Recorded conversations, judged as far as that is known.
        options: What is wanted.
        left_out: Told all that is left out; may have entries already.
    """
    if options.kind != "dpo":
        examples = map(_unpaired, examples)
    chosen = _filtered(examples, options, left_out)
    units = _limited(_units(chosen, options, left_out), options, left_out)
    flat = [example for unit in units for example in unit]
    split = split_examples(flat, share=options.heldout, near=options.near, seed=options.seed)
    apart = {task_key(example) for example in split.heldout}
    train = [unit for unit in units if task_key(unit[0]) not in apart]
    return Built(
        kind=options.kind,
        train=_balanced(train, options, left_out),
        heldout=tuple(unit for unit in units if task_key(unit[0]) in apart),
        split=split,
        left_out=left_out,
    )


def _unpaired(example: Example) -> Example:
    """A side of a pair by itself: the chosen one is good, the rejected one bad."""
    if not example.pair:
        return example
    label = example.chosen if example.label is None else example.label
    return replace(example, label=label, pair="", chosen=None)


def _filtered(
    examples: Iterable[Example], options: BuildOptions, left_out: LeftOut
) -> list[Example]:
    """The examples that were asked for."""
    default: Only = "good" if options.kind == "sft" and not options.weight_by else "all"
    only = options.only or default
    needs_verdict = options.kind == "kto" or only != "all"
    kept = []
    for example in examples:
        if needs_verdict and example.label is None:
            reason = NO_VERDICT
        elif only == "good" and not example.label:
            reason = NOT_GOOD
        elif only == "bad" and example.label:
            reason = NOT_BAD
        elif options.min_score is not None and (
            example.reward is None or example.reward < options.min_score
        ):
            reason = LOW
        elif options.weight_by and (example.reward is None or example.reward <= 0):
            reason = NO_WEIGHT
        else:
            kept.append(example)
            continue
        left_out.add(reason, example.id)
    return kept


def _units(examples: Sequence[Example], options: BuildOptions, left_out: LeftOut) -> list[Unit]:
    paired = [example for example in examples if example.pair]
    single = [example for example in examples if not example.pair]
    if options.kind in ("kto", "dpo"):
        single = without_conflicts(single, left_out)
    duplicates = options.duplicates or DUPLICATES[options.kind]
    examples = without_duplicates(single, duplicates, options.near, left_out)
    if options.kind == "dpo":
        ready = kept_pairs(paired, options.margin, left_out)
        return [*ready, *preference_pairs(examples, options.margin, left_out)]
    if options.kind == "grpo":
        return list(answer_groups(examples, left_out))
    if options.kind == "kto":
        return [(example,) for example in examples]
    return [(replace(example, label=None),) for example in _weighted(examples, options)]


def _weighted(examples: Sequence[Example], options: BuildOptions) -> list[Example]:
    if not options.weight_by:
        return list(examples)
    mean = sum(example.reward or 0.0 for example in examples) / (len(examples) or 1)
    return [replace(e, weight=e.weight * (e.reward or 0.0) / mean) for e in examples]


def _limited(units: list[Unit], options: BuildOptions, left_out: LeftOut) -> list[Unit]:
    if not options.n or len(units) <= options.n:
        return units
    kept = set(random.Random(options.seed).sample(range(len(units)), options.n))
    for index, unit in enumerate(units):
        if index not in kept:
            left_out.add(OVER, unit[0].id, len(unit))
    return [unit for index, unit in enumerate(units) if index in kept]


def _balanced(units: Sequence[Unit], options: BuildOptions, left_out: LeftOut) -> tuple[Unit, ...]:
    how = options.balance or BALANCES[options.kind][0]
    if how == "none":
        return tuple(units)
    flat = [example for unit in units for example in unit]
    balanced = balance(
        flat,
        how,
        (lambda e: e.label) if options.kind == "kto" else task_key,
        seed=options.seed,
        left_out=left_out,
    )
    if options.kind != "dpo":
        return tuple((example,) for example in balanced)
    return tuple(zip(balanced[::2], balanced[1::2], strict=True))
