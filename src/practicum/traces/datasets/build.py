"""`build`: examples to a dataset of one kind; filtered, deduplicated, paired, split, balanced."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from practicum.core.errors import UserError
from practicum.core.sample import Example
from practicum.traces.datasets.splits import (
    Duplicates,
    LeftOut,
    SplitExamples,
    content_hash,
    prompt_hash,
    split_examples,
    task_key,
    without_conflicts,
    without_duplicates,
)

Balance = Literal["weight", "sample", "none"]
"""Balance classes by example weights, by subsampling the larger classes, or not."""

Kind = Literal["sft", "kto", "dpo", "grpo"]
KINDS: tuple[Kind, ...] = ("sft", "kto", "dpo", "grpo")
Only = Literal["good", "bad", "all"]
Unit = tuple[Example, ...]
"""The examples of one row: a single one, the two sides of a pair, or a group."""

DUPLICATES: dict[Kind, Duplicates] = {
    "sft": "exact",
    "kto": "exact",
    "dpo": "exact",
    "grpo": "keep",
}
"""Default deduplication; in a group, how often an answer was given matters."""

BALANCES: dict[Kind, tuple[Balance, ...]] = {
    "sft": ("none", "weight", "sample"),
    "kto": ("weight", "sample", "none"),
    "dpo": ("none", "weight"),
    "grpo": ("none",),
}
"""Balancing that a kind allows, the default first. Classes are labels for `kto` and tasks for the
others. Pairs and groups are never split."""

NOT_GOOD = "it is not a good one"
NOT_BAD = "it is not a bad one"
NO_VERDICT = "neither a label nor an outcome nor a score says whether it is good"
LOW = "its score is below the one asked for"
NO_WEIGHT = "its score gives it no weight"
OVER = "more than the number asked for"
SAMPLED_AWAY = "left out to balance the classes"
UNSCORED = "it has no score to compare"
ALONE = "it is the only answer to its question, and no other is invented"
TOO_CLOSE = "no answer to its question is better or worse by the margin"
SAME = "it says the same as another answer to its question"
HALF = "the other side of its pair is missing"
ALL_EQUAL = "all answers to its question scored the same"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What to build."""

    kind: Kind
    only: Only | None = None
    """None is `good` for `sft` that is not weighted, else `all`."""
    min_score: float | None = None
    weight_by: Literal["", "score"] = ""
    """`score` weights examples of `sft` by their score, with mean 1."""
    margin: float = 0.0
    """Least score difference of a pair."""
    duplicates: Duplicates | None = None
    near: float = 0.8
    """Jaccard index from which two texts are near-duplicates."""
    balance: Balance | None = None
    heldout: float = 0.0
    n: int = 0
    """Most rows; 0 is no limit."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse options that do not go together."""
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
    """A dataset, and what was left out of it."""

    kind: Kind
    train: tuple[Unit, ...]
    heldout: tuple[Unit, ...]
    split: SplitExamples
    left_out: LeftOut


def build(examples: Iterable[Example], options: BuildOptions, left_out: LeftOut) -> Built:
    """Build a dataset.

    Args:
        examples: Recorded conversations, labelled and scored where known.
        options: What to build.
        left_out: Collects what is left out; may have entries already.
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
    """A side of a pair as a single example: the chosen one is good, the rejected one bad."""
    if not example.pair:
        return example
    label = example.chosen if example.label is None else example.label
    return replace(example, label=label, pair="", chosen=None)


def _filtered(
    examples: Iterable[Example], options: BuildOptions, left_out: LeftOut
) -> list[Example]:
    """The examples that match `only`, `min_score` and `weight_by`."""
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


def balance(
    examples: Sequence[Example],
    how: Balance,
    key: Callable[[Example], Hashable],
    *,
    seed: int,
    left_out: LeftOut,
) -> list[Example]:
    """Give every class the same total weight.

    With `weight` an example's weight is multiplied by N / (k n), for n of N examples in its class
    and k classes: the mean stays 1. With `sample` each class is subsampled to the size of the
    smallest.
    """
    sizes = Counter(key(example) for example in examples)
    if how == "none" or len(sizes) < 2:
        return list(examples)
    if how == "weight":
        factor = {name: len(examples) / (len(sizes) * n) for name, n in sizes.items()}
        return [replace(e, weight=e.weight * factor[key(e)]) for e in examples]
    members: dict[Hashable, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        members[key(example)].append(index)
    dice, fewest = random.Random(seed), min(sizes.values())
    kept = {index for same in members.values() for index in dice.sample(same, fewest)}
    for index, example in enumerate(examples):
        if index not in kept:
            left_out.add(SAMPLED_AWAY, example.id)
    return [example for index, example in enumerate(examples) if index in kept]


def preference_pairs(
    examples: Sequence[Example], margin: float, left_out: LeftOut
) -> list[tuple[Example, Example]]:
    """Pairs (chosen, rejected) of recorded answers to the same prompt.

    The best answer is paired with the worst, the second best with the second worst, and so on:
    each is used at most once, and the largest differences come first.

    Args:
        examples: Scored answers.
        margin: Least difference of scores; equal scores are never paired.
        left_out: Collects what was not paired, and why.
    """
    pairs: list[tuple[Example, Example]] = []
    for answers in _by_question(examples, left_out):
        ranked = sorted(_different(answers, left_out), key=lambda e: -(e.reward or 0.0))
        best, worst = 0, len(ranked) - 1
        while best < worst and _is_better(ranked[best], ranked[worst], margin):
            pairs.append(_paired(ranked[best], ranked[worst]))
            best, worst = best + 1, worst - 1
        for answer in ranked[best : worst + 1]:
            left_out.add(TOO_CLOSE, answer.id)
    return pairs


def kept_pairs(
    examples: Sequence[Example], margin: float, left_out: LeftOut
) -> list[tuple[Example, Example]]:
    """Pairs that the source has as pairs, deduplicated; checked against the margin if scored."""
    sides: dict[str, dict[bool, Example]] = defaultdict(dict)
    for example in examples:
        sides[example.pair][bool(example.chosen)] = example
    pairs: dict[tuple[str, str], tuple[Example, Example]] = {}
    for found in sides.values():
        if len(found) < 2:
            left_out.add(HALF, next(iter(found.values())).id)
            continue
        chosen, rejected = found[True], found[False]
        scored = chosen.reward is not None and rejected.reward is not None
        key = content_hash(chosen), content_hash(rejected)
        if scored and not _is_better(chosen, rejected, margin):
            left_out.add(TOO_CLOSE, chosen.pair, 2)
        elif pairs.setdefault(key, (chosen, rejected))[0] is not chosen:
            left_out.add(SAME, chosen.pair, 2)
    return list(pairs.values())


def answer_groups(examples: Sequence[Example], left_out: LeftOut) -> list[tuple[Example, ...]]:
    """Groups of all recorded answers to a prompt, where their scores differ."""
    groups: list[tuple[Example, ...]] = []
    for answers in _by_question(examples, left_out):
        if len({answer.reward for answer in answers}) == 1:
            for answer in answers:
                left_out.add(ALL_EQUAL, answer.id)
        else:
            groups.append(tuple(replace(answer, label=None) for answer in answers))
    return groups


def _by_question(examples: Sequence[Example], left_out: LeftOut) -> list[list[Example]]:
    """Groups of two or more scored answers to the same prompt of the same task."""
    found: dict[Hashable, list[Example]] = defaultdict(list)
    for example in examples:
        if example.reward is None:
            left_out.add(UNSCORED, example.id)
        else:
            found[task_key(example), prompt_hash(example)].append(example)
    for answers in found.values():
        if len(answers) == 1:
            left_out.add(ALONE, answers[0].id)
    return [answers for answers in found.values() if len(answers) > 1]


def _is_better(one: Example, other: Example, margin: float) -> bool:
    apart = (one.reward or 0.0) - (other.reward or 0.0)
    return apart > 0 and apart >= margin


def _different(answers: Sequence[Example], left_out: LeftOut) -> list[Example]:
    """Deduplicate by content, so that no text is preferred to itself."""
    found: dict[str, Example] = {}
    for answer in answers:
        if found.setdefault(content_hash(answer), answer) is not answer:
            left_out.add(SAME, answer.id)
    return list(found.values())


def _paired(chosen: Example, rejected: Example) -> tuple[Example, Example]:
    name = f"{chosen.id} > {rejected.id}"
    return (
        replace(chosen, pair=name, chosen=True, label=None),
        replace(rejected, pair=name, chosen=False, label=None),
    )
