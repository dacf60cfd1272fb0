"""The held-out evaluations of a run: those that count as points of a curve, and whole reports."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from practicum.core.checkpoint import EvalReport, Interval
from practicum.core.errors import UserError
from practicum.evaluation.report import interval_from_json, report_from_json, report_to_json
from practicum.store.events import EventRow
from practicum.store.run_dir import RunDir

REPORT = re.compile(r"step_(\d+)\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPoint:
    """One evaluation of the policy after `step` steps; step 0 is the untrained policy."""

    step: int
    success: Interval | None
    """As in `EvalReport`; None where nobody can say whether a task was done."""
    reward: Interval
    success_by_level: Mapping[int, Interval] = field(default_factory=dict)
    success_by_env: Mapping[str, Interval] = field(default_factory=dict)
    success_scored: Interval | None = None
    success_if_masked_failed: Interval | None = None
    masked: int = 0
    """Attempts without a score, because the environment or the agent failed."""
    attempts: int = 0
    """All attempts; 0 where an older version did not say."""
    duration_s: float = 0.0
    has_report: bool = False
    """Whether the whole report is in the run folder."""


def report_path(run: Path, step: int) -> Path:
    """Where the whole report of a step's evaluation lies."""
    return run / "evals" / f"step_{step}.json"


def read_report(run: Path, step: int) -> EvalReport:
    """The whole report of a step's evaluation."""
    return report_from_json(json.loads(report_path(run, step).read_text(encoding="utf-8")))


def read_points(
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
            except (KeyError, TypeError, ValueError, AttributeError, UserError) as error:
                problems.append(f"{path} cannot be read: {error!r}")
    return tuple(points[step] for step in sorted(points)), problems


def _parse(step: int, values: Mapping[str, Any], *, has_report: bool = False) -> EvalPoint:
    if values.get("masked") and "success_if_masked_failed" not in values and has_report:
        values = report_to_json(report_from_json(values))  # an older one left the masked out
    levels, envs = values.get("success_by_level", {}), values.get("success_by_env", {})

    def known(key: str) -> Interval | None:
        return interval_from_json(values[key]) if values.get(key) else None

    return EvalPoint(
        step=step,
        success=interval_from_json(values["success"]) if values["success"] else None,
        success_scored=known("success_scored"),
        success_if_masked_failed=known("success_if_masked_failed"),
        reward=interval_from_json(values["reward"]),
        success_by_level={int(level): interval_from_json(part) for level, part in levels.items()},
        success_by_env={name: interval_from_json(part) for name, part in envs.items()},
        masked=int(values.get("masked", 0)),
        attempts=int(values.get("attempts", 0)),
        duration_s=float(values.get("duration_s", 0.0)),
        has_report=has_report,
    )


def read_evaluations(run: RunDir) -> dict[int, EvalReport]:
    """Every evaluation of a run in full, by the steps that were done before it."""
    return {step: report_from_json(found) for step, found in run.evaluations().items()}
