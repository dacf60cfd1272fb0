"""Answers to one question, beside each other: pairs for DPO, groups for GRPO."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

from practicum.core.example import Example
from practicum.datasets.content import content_hash, prompt_hash, task_key
from practicum.datasets.left_out import LeftOut

__all__ = ["answer_groups", "kept_pairs", "preference_pairs"]

UNSCORED = "it has no score to compare"
ALONE = "it is the only answer to its question, and no other is invented"
TOO_CLOSE = "no answer to its question is better or worse by the margin"
SAME = "it says the same as another answer to its question"
HALF = "the other side of its pair is missing"
ALL_EQUAL = "all answers to its question scored the same"


def preference_pairs(
    examples: Sequence[Example], margin: float, left_out: LeftOut
) -> list[tuple[Example, Example]]:
    """A better and a worse recorded answer to the same question, the better first.

    The best answer is paired with the worst, the second best with the second worst, and so on, so
    that each is used once at most and the clearest differences come first.

    Args:
        examples: Scored answers.
        margin: By how much the better one must score more; always more than nothing.
        left_out: Told what was not paired, and why.
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
    """Pairs that came as pairs, each once; where both scores are known, by the margin apart."""
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
    """All recorded answers to each question, where their scores differ."""
    groups: list[tuple[Example, ...]] = []
    for answers in _by_question(examples, left_out):
        if len({answer.reward for answer in answers}) == 1:
            for answer in answers:
                left_out.add(ALL_EQUAL, answer.id)
        else:
            groups.append(tuple(replace(answer, label=None) for answer in answers))
    return groups


def _by_question(examples: Sequence[Example], left_out: LeftOut) -> list[list[Example]]:
    """Scored answers to the same prompt of the same task, at least two."""
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
    """One answer of each text, so that no text is preferred to itself."""
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
