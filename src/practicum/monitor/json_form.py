"""A run as JSON values."""

import math
from dataclasses import asdict

from practicum.core.report import Interval
from practicum.core.task import JSON
from practicum.monitor.alerts import find_alerts
from practicum.monitor.evaluations import EvalPoint
from practicum.monitor.reader import RunView

__all__ = ["brief_to_json", "view_to_json"]


def brief_to_json(view: RunView) -> dict[str, JSON]:
    """What a list of runs says of one."""
    return {
        "name": view.name,
        "path": str(view.path),
        "env": view.config.env.name,
        "model": view.config.model.name,
        "status": view.status.value,
        "pid": view.pid,
        "steps_done": view.steps_done,
        "steps_total": view.steps_total,
        "time_left_s": view.time_left_s,
        "reward": view.last_step.number("reward") if view.last_step else None,
        "before": _point(view.before) if view.before else None,
        "after": _point(view.after) if view.after else None,
        "created_at": view.facts.created_at,
        "started_at": view.facts.last_started_at,
    }


def view_to_json(view: RunView) -> dict[str, JSON]:
    """Everything about one run but its episodes' messages."""
    return {
        **brief_to_json(view),
        "config": view.config.model_dump(mode="json"),
        "versions": dict(view.facts.versions),
        "hardware": dict(view.facts.hardware),
        "attempts": [asdict(attempt) for attempt in view.attempts],
        "evaluations": [_point(point) for point in view.evaluations],
        "checkpoints": {
            "steps": list(view.checkpoints.steps),
            "latest": view.checkpoints.latest,
            "best": view.checkpoints.best,
        },
        "steps": [{"step": row.step, "time": row.time, **row.values} for row in view.steps],
        "episodes": [asdict(shown.summary) for shown in view.episodes],
        "alerts": [alert.text for alert in find_alerts(view)],
    }


def _point(point: EvalPoint) -> dict[str, JSON]:
    return {
        "step": point.step,
        "success": _interval(point.success),
        "reward": _interval(point.reward),
        "success_by_level": {
            str(level): _interval(found) for level, found in point.success_by_level.items()
        },
        "masked": point.masked,
        "duration_s": point.duration_s,
    }


def _interval(interval: Interval) -> dict[str, JSON]:
    # JSON has no infinity; a bound that does not exist is null.
    return {
        "value": interval.value,
        "low": interval.low if math.isfinite(interval.low) else None,
        "high": interval.high if math.isfinite(interval.high) else None,
        "n": interval.n,
        "method": interval.method,
    }
