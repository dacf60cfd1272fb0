"""The judge's answer, read with care: a score that is not surely meant is none."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ReadAnswer", "read_answer"]

LONGEST_ANSWER = 200_000
MOST_STARTS = 500
"""Brackets that are tried as the beginning of something; there are few in an answer that is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """The scores that could be read, by id, and what is wrong with the rest."""

    scores: dict[str, float] = field(default_factory=dict)
    faults: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether every attempt has its score."""
        return not self.faults


def read_answer(text: str, count: int) -> ReadAnswer:
    """The scores of attempts "1" to `count`, from JSON that may have text around it.

    >>> read_answer('Sure! {"scores": [{"id": "2", "score": 0.9}, {"id": "1", "score": 0}]}', 2)
    ReadAnswer(scores={'2': 0.9, '1': 0.0}, faults=())
    >>> read_answer('{"scores": [{"id": 1, "score": 7}]}', 1).faults
    ('the score of "1" is 7, which is not between 0 and 1', 'attempt "1" has no score')
    """
    ids = [str(number) for number in range(1, count + 1)]
    best = ReadAnswer(faults=("there is no JSON object with scores in it",))
    for value in _json_values(text[:LONGEST_ANSWER]):
        entries = _entries(value)
        if entries is not None:
            found = _checked(entries, ids)
            if len(found.scores) >= len(best.scores):  # the last word, where it says as much
                best = found
    return best


def _json_values(text: str) -> Iterator[Any]:
    """Every JSON object or list in a text that is not inside another one."""
    decoder, at = json.JSONDecoder(), 0
    for _ in range(MOST_STARTS):
        starts = [place for sign in "{[" if (place := text.find(sign, at)) >= 0]
        if not starts:
            return
        at = min(starts)
        try:
            value, at = decoder.raw_decode(text, at)
            yield value
        except (ValueError, RecursionError):
            at += 1


def _entries(value: Any) -> list[tuple[str, Any]] | None:
    """Pairs of id and score; None where the value is about something else."""
    listed = value.get("scores", value) if isinstance(value, dict) else value
    if isinstance(listed, dict) and listed and all(str(key).isdigit() for key in listed):
        return [(str(key), _score_of(one)) for key, one in listed.items()]
    if not isinstance(listed, list) or not listed:
        return None
    if not all(isinstance(one, dict) and "id" in one and "score" in one for one in listed):
        return None
    return [(str(one["id"]), one["score"]) for one in listed]


def _score_of(value: Any) -> Any:
    return value.get("score") if isinstance(value, dict) else value


def _checked(entries: list[tuple[str, Any]], ids: list[str]) -> ReadAnswer:
    scores: dict[str, float] = {}
    faults: list[str] = []
    for name, value in entries:
        if name not in ids:
            faults.append(f'there is no attempt "{name[:40]}"')
        elif isinstance(value, bool) or not isinstance(value, int | float):
            faults.append(f'the score of "{name}" is no number')
        elif not math.isfinite(value) or not 0.0 <= value <= 1.0:
            faults.append(f'the score of "{name}" is {value}, which is not between 0 and 1')
        elif scores.get(name, value) != value:
            faults.append(f'attempt "{name}" has two scores')
        else:
            scores[name] = float(value)
    for name in [name for name in scores if f'attempt "{name}" has two scores' in faults]:
        del scores[name]
    faults += [f'attempt "{name}" has no score' for name in ids if name not in scores]
    return ReadAnswer(scores=scores, faults=tuple(faults))
