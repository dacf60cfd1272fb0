"""Runs as JSON: what a list says of one, and one in full."""

from dataclasses import asdict

from practicum.analysis.alerts import alarms_of, find_alerts
from practicum.analysis.evaluations import EvalPoint
from practicum.analysis.run_view import RunView
from practicum.core.task import JSON


def brief_to_json(view: RunView) -> dict[str, JSON]:
    """What a list of runs says of one."""
    return {
        "name": view.name,
        "path": str(view.path),
        "env": view.config.env_name,
        "model": view.config.model.name,
        "status": view.status.value,
        "pid": view.pid,
        "steps_done": view.steps_done,
        "steps_total": view.steps_total,
        "time_left_s": view.time_left_s,
        "reward": view.last_step.number("reward") if view.last_step else None,
        "alarms": len(alarms_of(view).alarms),
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
        "alarms": [asdict(alarm) for alarm in alarms_of(view).alarms],
        "recoveries": [found._asdict() for found in view.recoveries],
    }


def _point(point: EvalPoint) -> dict[str, JSON]:
    return {
        "step": point.step,
        "success": point.success.to_json() if point.success else None,
        "reward": point.reward.to_json(),
        "success_by_level": {
            str(level): found.to_json() for level, found in point.success_by_level.items()
        },
        "success_by_env": {name: found.to_json() for name, found in point.success_by_env.items()},
        "success_scored": point.success_scored.to_json() if point.success_scored else None,
        "success_if_masked_failed": (
            point.success_if_masked_failed.to_json() if point.success_if_masked_failed else None
        ),
        "masked": point.masked,
        "attempts": point.attempts,
        "duration_s": point.duration_s,
    }
