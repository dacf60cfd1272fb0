"""What a check looks at, in the order in which somebody who makes an environment goes about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from practicum.environments.checker import EnvironmentCheck, LevelCheck

Part = Literal[
    "tasks",
    "train and held-out",
    "session",
    "actions",
    "reference",
    "doing nothing",
    "near-misses",
    "random actions",
    "determinism",
    "rewards",
    "speed",
]
PARTS: tuple[Part, ...] = get_args(Part)
"""In the order of the list that is shown."""

Verdict = Literal["ok", "wrong", "warning", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong, or a warning."""

    part: Part
    sentence: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPart:
    """One line of the list."""

    part: Part
    verdict: Verdict
    """`none`: there was nothing to look at."""
    said: str
    findings: tuple[Finding, ...]


def checked_parts(found: "EnvironmentCheck") -> Iterator[CheckedPart]:
    """Every part of the check over all levels, with what was found about it."""
    levels = found.levels
    for part in PARTS:
        findings = tuple(one for level in levels for one in level.findings if one.part == part)
        said, is_there = _said(part, levels)
        if part == "actions" and found.tokenizer:
            said += f", and the tokenizer of {found.tokenizer} can write it"
        verdict: Verdict = "ok" if is_there else "none"
        if findings:
            verdict = "warning" if all(one.is_warning for one in findings) else "wrong"
        yield CheckedPart(part=part, verdict=verdict, said=said, findings=findings)


def _said(part: Part, levels: "Sequence[LevelCheck]") -> tuple[str, bool]:
    """What was looked at, with its count, and whether there was anything."""
    n = sum(one.n for one in levels)
    if part == "reference":
        solved = sum(one.reference_solved for one in levels)
        return f"earns full marks on {solved} of {n}", bool(n)
    if part == "doing nothing":
        paid = sum(one.do_nothing_paid for one in levels)
        return f"earns something on {paid} of {n}", bool(n)
    if part == "near-misses":
        tried = sum(one.near_misses for one in levels)
        accepted = sum(one.near_miss_solved or 0 for one in levels)
        return (
            (f"{tried} tried, accepted on {accepted} of {n}", True)
            if tried
            else ("none is known: give it near_misses(task), plausible turns that fail", False)
        )
    if part == "random actions":
        listed = [one for one in levels if one.random_solved is not None]
        solved = sum(one.random_solved or 0 for one in listed)
        tasks = sum(one.n for one in listed)
        return (f"solve {solved} of {tasks}", True) if listed else ("no action is listed", False)
    if part == "speed":
        took = [one.episode_s for one in levels if one.episode_s is not None]
        return (f"{median(took) * 1e3:.3g} ms an episode", True) if took else ("not known", False)
    twice = sum(one.played_twice for one in levels)
    tried = sum(one.tried_simply for one in levels)
    few = [str(one.level) for one in levels if one.n < one.asked]
    whole = f", all that level {', '.join(few)} has" if few else ""
    return {
        "tasks": (
            f"{n} looked at{whole}: ids, levels, data, and the same again by the same seed",
            True,
        ),
        "train and held-out": ("no task is in both", True),
        "session": ("opens, answers and ends as it should", bool(n)),
        "actions": ("each has a name of its own", bool(n)),
        "determinism": (f"the reference gave the same result twice on {twice} of {n}", twice > 0),
        "rewards": (f"tried on {tried}: giving up and repeating do not pay", tried > 0),
    }[part]
