"""What the charts draw: which recorded numbers of a run, and their points as JSON values.

A study is drawn as the mean over its seeds at each step, with the bounds of the mean as a band.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from practicum.analysis.alerts import alarms_of
from practicum.analysis.evaluations import EvalPoint, read_report
from practicum.analysis.run_view import RunView, StepRow
from practicum.core.checkpoint import Interval
from practicum.core.errors import UserError
from practicum.core.task import JSON
from practicum.evaluation.over_seeds import gather_scores, success_interval
from practicum.monitor.run_folders import RunFolders
from practicum.stats.intervals import mean_interval

MOST_POINTS = 1500
"""Points of a curve: a screen has no more columns, and a long run is sent in no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """One chart: recorded numbers over the steps."""

    id: str
    title: str
    fields: Mapping[str, str]
    """Recorded numbers, and what their curves are called."""
    about: str
    """What it is, and what to look for."""
    low: float | None = None
    """Where the axis begins, if not at the lowest value."""
    high: float | None = None


def _chart(id: str, title: str, about: str, *fields: str, **named: str) -> ChartSpec:
    return ChartSpec(id=id, title=title, about=about, fields={**{f: f for f in fields}, **named})


HELDOUT = ChartSpec(
    id="heldout",
    title="Held-out success",
    fields={},
    about="Tasks that are never trained on, with 95 % intervals.",
    low=0.0,
    high=1.0,
)
LEVELS = ChartSpec(
    id="levels",
    title="Held-out success by level and environment",
    fields={},
    about="Where it is good and where it is not.",
    low=0.0,
    high=1.0,
)
SUCCESS = ChartSpec(
    id="success",
    title="Success in training",
    fields={"success": "success"},
    about="Share of this step's episodes whose task was done.",
    low=0.0,
    high=1.0,
)

SECTIONS: Mapping[str, tuple[ChartSpec, ...]] = {
    "What it earns": (
        _chart("reward", "Reward", "Mean score of this step's episodes.", "reward"),
        HELDOUT,
        SUCCESS,
        LEVELS,
    ),
    "How it learns": (
        _chart("loss", "Loss", "Of the update; its level means little in RL.", "loss"),
        _chart(
            "entropy", "Entropy", "Of the sampled tokens; near 0 nothing new is tried.", "entropy"
        ),
        _chart("kl", "KL to the base model", "How far the policy has gone.", "kl_to_base"),
        _chart("grad", "Gradient norm", "Before clipping.", "grad_norm"),
        _chart(
            *("gap", "Log-probability gap", "Sampler against learner: must stay near 0."),
            **{"logprob_gap": "mean", "largest_gap": "largest"},
        ),
        _chart("clip", "Clipped share", "Tokens whose ratio was cut.", "clip_share"),
        _chart(
            *("heldout_loss", "Loss on recorded examples", "Of methods that imitate."),
            **{"heldout_loss": "held out"},
        ),
    ),
    "What it learns from": (
        _chart(
            *("flat", "Flat groups", "Share of groups whose episodes all score the same."),
            **{"flat_share": "share"},
        ),
        _chart("spread", "Spread of scores", "Within a group.", "score_spread"),
        _chart(
            *("lost", "Episodes not learned from", "Masked, unscored or late."),
            **{"masked_episodes": "masked", "unscored_episodes": "unscored"},
            timed_out_episodes="timed out",
        ),
        _chart("level", "Mean level", "Of the tasks that were drawn.", "mean_level"),
    ),
    "What it does": (
        _chart("length", "Tokens of a response", "A jump may be a hack.", "response_tokens"),
        _chart("turns", "Turns", "Of an episode.", "turns"),
        _chart("repetition", "Repetition", "Share of word triples said before.", "repetition"),
        _chart("unreadable", "Unreadable turns", "No action could be read.", "unreadable_turns"),
    ),
    "Where the time goes": (
        _chart(
            *("step_s", "Seconds of a step", "Acting and learning."),
            **{"rollout_s": "acting", "update_s": "learning"},
        ),
        _chart(
            *("episode_s", "Seconds of all episodes", "Added up; they run side by side."),
            **{"sampling_s": "waiting for the model", "environment_s": "environment"},
            judging_s="scoring",
        ),
        _chart("speed", "Tokens per second", "Sampled, while acting.", "tokens_per_s"),
        _chart(
            *("memory", "Out of memory", "Times that a batch had to be split."),
            **{"out_of_memory": "out of memory", "micro_batch_splits": "splits"},
        ),
    ),
}
PAID = "reward_"
"""Begins the names of what each component of the reward paid."""


def draw_run(view: RunView) -> dict[str, JSON]:
    """The charts of one run."""
    drawn = [_steps(spec, view.steps) for specs in SECTIONS.values() for spec in specs]
    drawn += [_held_out(view), _levels(view), _components(view.steps)]
    marks: list[JSON] = [
        {"step": alarm.step, "text": alarm.text, "kind": "alarm"}
        for alarm in alarms_of(view).alarms
    ]
    marks += [{"step": r.step, "text": r.text, "kind": "recovery"} for r in view.recoveries]
    return {"charts": [one for one in drawn if one], "marks": marks}


def sections_of(view: RunView) -> dict[str, list[ChartSpec]]:
    """The charts that have anything to draw, by section."""
    drawn = {str(one["id"]) for one in _drawn(view)}
    found = {
        title: [spec for spec in specs if spec.id in drawn] for title, specs in SECTIONS.items()
    }
    if "components" in drawn:
        found["What it earns"].append(COMPONENTS)
    return {title: specs for title, specs in found.items() if specs}


def _drawn(view: RunView) -> list[dict[str, JSON]]:
    charts = draw_run(view)["charts"]
    return [one for one in charts if isinstance(one, dict)] if isinstance(charts, list) else []


COMPONENTS = ChartSpec(
    id="components", title="Components of the reward", fields={}, about="What each one paid."
)


def draw_together(several: Mapping[str, Sequence[RunView]], runs: RunFolders) -> dict[str, JSON]:
    """Runs and studies over the same axes; each study is one curve with a band.

    Args:
        several: By name, a run alone or the seeds of a study.
        runs: Keeps what took long.
    """
    charts: list[JSON] = []
    for spec in (spec for specs in SECTIONS.values() for spec in specs if spec.fields):
        field = next(iter(spec.fields))
        series: list[JSON] = []
        for name, views in several.items():
            curve = _over_seeds([{row.step: _number(row, field) for row in v.steps} for v in views])
            if curve:
                series.append(_banded(name, curve))
        if series:
            charts.append(_to_json(spec, series))
    success = {
        name: runs.worked_out("success", views, partial(_success, views))
        for name, views in several.items()
    }
    heldout = [_banded(name, curve) for name, curve in success.items() if curve]
    if heldout:
        charts.insert(1, _to_json(HELDOUT, [*heldout]))
    return {"charts": charts, "marks": []}


def _over_seeds(tables: Sequence[Mapping[int, float | None]]) -> dict[int, Interval]:
    """The mean at each step that every seed has made."""
    curve = {}
    for step in sorted(set.intersection(*map(set, tables))) if tables else ():
        values = [known for table in tables if (known := table[step]) is not None]
        if values and len(values) == len(tables):
            curve[step] = mean_interval(values)
    return curve


def _success(views: Sequence[RunView]) -> dict[int, Interval]:
    """Held-out success of a run, or over seeds and tasks at each step that every seed has."""
    if len(views) == 1:
        return {p.step: p.success for p in views[0].evaluations if p.success is not None}
    shared = [{p.step for p in view.evaluations if p.has_report} for view in views]
    curve = {}
    for step in sorted(set.intersection(*shared)) if shared else ():
        try:
            table = gather_scores([read_report(view.path, step) for view in views])
            curve[step] = success_interval(table.success, table.attempts)
        except UserError:  # of other tasks, or of which success is not known: no point here
            continue
    return curve


def _steps(spec: ChartSpec, steps: Sequence[StepRow]) -> dict[str, JSON]:
    series: list[JSON] = []
    for field, title in spec.fields.items():
        points = [(row.step, known) for row in steps if (known := _number(row, field)) is not None]
        if points:
            series.append(_series(spec.title if title == field else title, points))
    return _to_json(spec, series) if series else {}


def _components(steps: Sequence[StepRow]) -> dict[str, JSON]:
    names = sorted({name for row in steps for name in row.values if name.startswith(PAID)})
    spec = ChartSpec(
        id=COMPONENTS.id,
        title=COMPONENTS.title,
        about=COMPONENTS.about,
        fields={name: name.removeprefix(PAID) + " " for name in names},
    )
    return _steps(spec, steps)


def _held_out(view: RunView) -> dict[str, JSON]:
    curve = _success([view])
    return _to_json(HELDOUT, [_banded("success", curve)]) if curve else {}


def _levels(view: RunView) -> dict[str, JSON]:
    curves: dict[str, dict[int, Interval]] = {}
    for point in view.evaluations:
        for name, found in _parts(point).items():
            curves.setdefault(name, {})[point.step] = found
    if len(curves) < 2:
        return {}
    return _to_json(LEVELS, [_banded(name, curve) for name, curve in sorted(curves.items())])


def _parts(point: EvalPoint) -> dict[str, Interval]:
    levels = {f"level {level}": found for level, found in point.success_by_level.items()}
    return {**levels, **point.success_by_env}


def _number(row: StepRow, field: str) -> float | None:
    if field == "tokens_per_s":
        tokens, seconds = row.number("sampled_tokens"), row.number("rollout_s")
        return tokens / seconds if tokens is not None and seconds else None
    return row.number(field)


def _series(name: str, points: Sequence[tuple[int, float]]) -> JSON:
    size = math.ceil(len(points) / MOST_POINTS)
    parts = [points[start : start + size] for start in range(0, len(points), max(1, size))]
    means: list[JSON] = [sum(value for _, value in part) / len(part) for part in parts]
    steps: list[JSON] = [part[-1][0] for part in parts]
    return {"name": name, "x": steps, "y": means}


def _banded(name: str, curve: Mapping[int, Interval]) -> JSON:
    return {
        "name": name,
        "x": [*curve],
        "y": [found.value for found in curve.values()],
        "low": [_finite(found.low) for found in curve.values()],
        "high": [_finite(found.high) for found in curve.values()],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _to_json(spec: ChartSpec, series: Sequence[JSON]) -> dict[str, JSON]:
    return {
        "id": spec.id,
        "title": spec.title,
        "about": spec.about,
        "low": spec.low,
        "high": spec.high,
        "series": [*series],
    }
