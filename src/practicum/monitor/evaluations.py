"""The held-out evaluations of a run folder.

A row of kind `eval` in `metrics.jsonl` says that an evaluation counts and what it found;
`evals/step_N.json` holds the whole report, of which the views show a little more.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from practicum.core.report import Interval
from practicum.store import EventRow

__all__ = ["EvalPoint", "read_evaluations", "report_path"]

REPORT = re.compile(r"step_(\d+)\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPoint:
    """One evaluation of the policy after `step` steps; step 0 is the untrained policy."""

    step: int
    success: Interval
    reward: Interval
    success_by_level: Mapping[int, Interval] = field(default_factory=dict)
    masked: int = 0
    """Attempts left out because the environment or the agent failed."""
    duration_s: float = 0.0
    has_report: bool = False
    """Whether the whole report is in the run folder."""


def report_path(run: Path, step: int) -> Path:
    """Where the whole report of a step's evaluation lies."""
    return run / "evals" / f"step_{step}.json"


def read_evaluations(
    folder: Path, rows: Sequence[EventRow], *, steps_done: int
) -> tuple[tuple[EvalPoint, ...], list[str]]:
    """The evaluations that count, in the order of their steps, and what could not be read.

    Args:
        folder: Where the reports are.
        rows: The run's metrics that count.
        steps_done: Reports of later steps are from before the run went back to an older checkpoint,
            unless a row says otherwise.
    """
    points: dict[int, EvalPoint] = {}
    problems: list[str] = []
    for row in rows:
        if row.kind == "eval":
            try:
                points[row.step] = _parse(row.step, row.values)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                problems.append(f"the evaluation row of step {row.step} cannot be read: {error!r}")
    for path in sorted(folder.glob("step_*.json")):
        named = REPORT.fullmatch(path.name)
        if named and (int(named[1]) in points or int(named[1]) <= steps_done):
            try:
                values = json.loads(path.read_text(encoding="utf-8"))
                points[int(named[1])] = _parse(int(named[1]), values, has_report=True)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                problems.append(f"{path} cannot be read: {error!r}")
    return tuple(points[step] for step in sorted(points)), problems


def _parse(step: int, values: Mapping[str, Any], *, has_report: bool = False) -> EvalPoint:
    levels = values.get("success_by_level", {})
    return EvalPoint(
        step=step,
        success=_interval(values["success"]),
        reward=_interval(values["reward"]),
        success_by_level={int(level): _interval(found) for level, found in levels.items()},
        masked=int(values.get("masked", 0)),
        duration_s=float(values.get("duration_s", 0.0)),
        has_report=has_report,
    )


def _interval(values: Mapping[str, Any]) -> Interval:
    low, high = values["low"], values["high"]
    return Interval(
        value=float(values["value"]),
        low=-math.inf if low is None else float(low),
        high=math.inf if high is None else float(high),
        n=int(values["n"]),
        method=str(values.get("method", "")),
    )
