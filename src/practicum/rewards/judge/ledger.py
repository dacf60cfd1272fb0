"""Judgements that have been made: what they said and what they cost.

One line of JSON each, in the run's folder. A judgement that is there is not asked for again, after
a crash or by another run that is given the file.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Judgement", "JudgementLedger"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One round of judging a group."""

    key: str
    """Digest of all that the judgement depends on: judge, rubric, task, attempts, their order."""
    scores: dict[str, float] = field(default_factory=dict)
    """By the digest of the attempt; one that got no usable score is left out."""
    model: str = ""
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    faults: tuple[str, ...] = ()
    """What was wrong with the last answer."""


class JudgementLedger:
    """Remembers judgements, on disk where a file is given."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known = {one.key: one for one in _read(path)} if path else {}
        self.made: list[Judgement] = []
        """Those of this process, which were asked and paid for."""

    def find(self, key: str) -> Judgement | None:
        """A judgement that was made before."""
        return self._known.get(key)

    def add(self, judgement: Judgement) -> None:
        """Keep a judgement. One with faults is kept as a cost and asked for again next time."""
        self.made.append(judgement)
        if not judgement.faults:
            self._known[judgement.key] = judgement
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(judgement)) + "\n")

    @property
    def cost(self) -> dict[str, float]:
        """Calls, tokens and seconds of this process."""
        fields = ("calls", "prompt_tokens", "completion_tokens", "seconds")
        return {name: sum(getattr(one, name) for one in self.made) for name in fields}


def _read(path: Path) -> Iterable[Judgement]:
    """The sound judgements of a file; a line that was torn when a process died is passed over."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row: dict[str, Any] = json.loads(line)
            judgement = Judgement(**{**row, "faults": tuple(row["faults"])})
        except (ValueError, TypeError, KeyError):
            continue
        if not judgement.faults:
            yield judgement
