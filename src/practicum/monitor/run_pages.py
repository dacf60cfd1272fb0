"""The pages of runs: the list, one run, one study, and what differs between runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse, Response

from practicum.analysis.alerts import alarm_lines, alarms_of, find_alerts
from practicum.analysis.evaluations import read_report
from practicum.analysis.run_view import (
    RunStatus,
    RunView,
    Unreadable,
    describe_status,
    gain_of,
)
from practicum.core.checkpoint import Comparison, Interval
from practicum.core.errors import UserError
from practicum.core.task import JSON
from practicum.evaluation.compare import compare_reports
from practicum.evaluation.report import verdict
from practicum.evaluation.study_report import (
    StudyEvidence,
    StudyReport,
    build_study_report,
    compare_studies,
)
from practicum.monitor.chart_data import SECTIONS, draw_run, draw_together, sections_of
from practicum.monitor.page_parts import Asked, Monitor, spark
from practicum.monitor.run_notes import RunNotes, read_notes
from practicum.store.study_dir import StudyDir

MOST_COMPARED = 8
"""Runs and studies in one chart: more colours cannot be told apart."""
SORTS = {
    "started": "last started",
    "name": "name",
    "success": "held-out success",
    "reward": "reward",
    "progress": "progress",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """A run or a study in the list."""

    name: str
    kind: str
    """`run` or `study`."""
    env: str
    model: str
    status: str
    done: int
    total: int
    left_s: float | None
    success: Interval | None
    reward: float | None
    curve: str
    """Points of its sparkline."""
    alarms: int
    started: float
    notes: RunNotes
    seeds: int = 1

    def matches(self, words: str) -> bool:
        """Whether every word is somewhere in its line."""
        text = f"{self.name} {self.kind} {self.env} {self.model} {self.status} {self.notes.text} "
        text += " ".join(self.notes.tags)
        return all(word in text.lower() for word in words.lower().split())

    def sorts_by(self, order: str) -> Any:
        """What it is sorted by, the first of the list being the smallest."""
        keys = {
            "name": self.name.lower(),
            "success": -(self.success.value if self.success else -1.0),
            "reward": -(self.reward if self.reward is not None else float("-inf")),
            "progress": -(self.done / self.total if self.total else 0.0),
        }
        return keys.get(order, -self.started)


def list_page(monitor: Monitor, asked: Asked) -> Response:
    """Every run and study."""
    views, unreadable = monitor.runs.views()
    lines = [_run_line(name, view) for name, view in views.items()]
    for study in monitor.runs.studies():
        try:
            lines.append(_study_line(monitor, study, [*monitor.runs.seeds(study).values()]))
        except UserError as error:
            unreadable.append(Unreadable(study.name, str(error)))
    words, order = asked.text("q"), asked.text("sort", "started")
    shown = sorted(
        (line for line in lines if line.matches(words)), key=lambda one: one.sorts_by(order)
    )
    return monitor.page(
        "runs.html",
        lines=shown,
        total=len(lines),
        unreadable=unreadable,
        words=words,
        order=order,
        sorts=SORTS,
    )


def _run_line(name: str, view: RunView) -> RunLine:
    last = view.evaluations[-1] if view.evaluations else None
    rewards = [row.number("reward") for row in view.steps]
    known = [value for value in rewards if value is not None]
    return RunLine(
        name=name,
        kind="run",
        env=view.config.env_name if view.config.acts else "recorded examples",
        model=view.config.model.name,
        status=view.status.value,
        done=view.steps_done,
        total=view.steps_total,
        left_s=view.time_left_s,
        success=last.success if last else None,
        reward=known[-1] if known else None,
        curve=spark(rewards),
        alarms=len(alarms_of(view).alarms),
        started=view.facts.last_started_at,
        notes=read_notes(view.path),
    )


def _study_line(monitor: Monitor, study: StudyDir, views: Sequence[RunView]) -> RunLine:
    facts, config = study.facts(), study.config()
    rewards = [[row.number("reward") for row in view.steps] for view in views]
    means = [_mean(values) for values in zip(*rewards, strict=False)]
    report = study_report(monitor, study, views)
    left = [view.time_left_s for view in views if view.time_left_s is not None]
    running = any(view.status is RunStatus.RUNNING for view in views)
    finished = sum(view.status is RunStatus.FINISHED for view in views)
    status = "finished" if finished == len(facts.seeds) else "running" if running else "stopped"
    return RunLine(
        name=study.name,
        kind="study",
        env=config.env_name if config.acts else "recorded examples",
        model=config.model.name,
        status=status,
        done=sum(view.steps_done for view in views),
        total=config.steps * len(facts.seeds),
        left_s=max(left, default=None),
        success=report.success if report else None,
        reward=means[-1] if means else None,
        curve=spark(means),
        alarms=sum(len(alarms_of(view).alarms) for view in views),
        started=max((view.facts.last_started_at for view in views), default=facts.created_at),
        notes=read_notes(study.path),
        seeds=len(facts.seeds),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def study_evidence(study: StudyDir, views: Sequence[RunView]) -> StudyEvidence | None:
    """The newest evaluation that every started seed has; None where they share none."""
    shared = [{p.step for p in view.evaluations if p.has_report} for view in views]
    steps = set.intersection(*shared) if shared else set()
    if not steps:
        return None
    step, total = max(steps), study.config().steps
    reports = {view.config.seed: read_report(view.path, step) for view in views}
    return StudyEvidence(
        name=study.name,
        reports=reports,
        missing=tuple(seed for seed in study.facts().seeds if seed not in reports),
        so_far=None if step == total else (step, total),
    )


def study_report(monitor: Monitor, study: StudyDir, views: Sequence[RunView]) -> StudyReport | None:
    """What that says over seeds and tasks; None without one, or where success is not known."""

    def make() -> StudyReport | None:
        evidence = study_evidence(study, views)
        try:
            return None if evidence is None else build_study_report(evidence)
        except UserError:  # success is not known
            return None

    return monitor.runs.worked_out(f"report of {study.name}", views, make)


def run_page(monitor: Monitor, asked: Asked) -> Response:
    """One run."""
    name = asked.text("name")
    view = monitor.runs.view(name)
    other = asked.text("with")
    names = [one for one in monitor.runs.views()[0] if one != name]
    scores = {point.step: point for point in view.evaluations}
    return monitor.page(
        "run.html",
        name=name,
        view=view,
        described=describe_status(view),
        alerts=find_alerts(view, has_alarms=False),
        alarms=alarm_lines(view),
        gain=gain_of(view)[1],
        sections=sections_of(view),
        last=view.evaluations[-1] if view.evaluations else None,
        scores=scores,
        times=_times(view),
        hardware={key: value for key, value in view.facts.hardware.items() if key != "extras"},
        config=_flat(view.config.model_dump(mode="json")),
        other=other,
        others=names,
        differences=config_differences(view, monitor.runs.view(other)) if other else {},
        notes=read_notes(view.path),
    )


def chart_points(monitor: Monitor, asked: Asked) -> Response:
    """The points of the charts of one run, or of several together."""
    several = asked.several.get("of", [])
    if several:
        return JSONResponse(draw_together(_compared(monitor, several), monitor.runs))
    return JSONResponse(draw_run(monitor.runs.view(asked.text("name"))))


def study_page(monitor: Monitor, asked: Asked) -> Response:
    """One study: its seeds side by side and what they come to together."""
    study = monitor.runs.study(asked.text("name"))
    seeds = monitor.runs.seeds(study)
    facts = study.facts()
    return monitor.page(
        "study.html",
        study=study,
        facts=facts,
        lines=[_run_line(name, view) for name, view in seeds.items()],
        report=study_report(monitor, study, [*seeds.values()]),
        charts=_compared_charts(),
        notes=read_notes(study.path),
    )


def compare_page(monitor: Monitor, asked: Asked) -> Response:
    """Runs and studies over the same axes, and what differs between them."""
    chosen = asked.several.get("of", [])
    runs = [*monitor.runs.views()[0]]
    studies = [study.name for study in monitor.runs.studies()]
    compared = _compared(monitor, chosen)
    differences = [_paired(monitor, chosen[0], one) for one in chosen[1:]]
    first = next(iter(compared.values()), [])
    changed = {
        name: config_differences(first[0], views[0])
        for name, views in [*compared.items()][1:]
        if first and views
    }
    return monitor.page(
        "compare.html",
        names=[*studies, *runs],
        chosen=chosen,
        compared=compared,
        charts=_compared_charts(),
        differences=differences,
        changed=changed,
    )


def _compared_charts() -> dict[str, list[Any]]:
    return {
        title: [spec for spec in specs if spec.fields or spec.id == "heldout"]
        for title, specs in SECTIONS.items()
    }


def _compared(monitor: Monitor, names: Sequence[str]) -> dict[str, list[RunView]]:
    if len(names) > MOST_COMPARED:
        raise UserError(f"{len(names)} are too many for one chart; choose up to {MOST_COMPARED}")
    studies = {study.name for study in monitor.runs.studies()}
    return {
        name: [*monitor.runs.seeds(monitor.runs.study(name)).values()]
        if name in studies
        else [monitor.runs.view(name)]
        for name in names
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """What is said of two runs or two studies on the same tasks."""

    first: str
    second: str
    text: str
    success: Interval | None = None
    reward: Interval | None = None
    n_tasks: int = 0


def _paired(monitor: Monitor, first: str, second: str) -> Paired:
    """The difference on the same held-out tasks, or why there is none to be told."""
    studies = {study.name for study in monitor.runs.studies()}
    views = [view for found in _compared(monitor, (first, second)).values() for view in found]

    def make() -> Paired:
        try:
            if first in studies and second in studies:
                return _paired_studies(monitor, first, second)
            if first in studies or second in studies:
                raise UserError("a study is compared with a study, and a run with a run")
            return _paired_runs(monitor, first, second)
        except UserError as error:
            return Paired(first=first, second=second, text=str(error))

    return monitor.runs.worked_out(f"{first} and {second}", views, make)


def _paired_studies(monitor: Monitor, first: str, second: str) -> Paired:
    found: list[StudyEvidence] = []
    for name in (first, second):
        study = monitor.runs.study(name)
        evidence = study_evidence(study, [*monitor.runs.seeds(study).values()])
        if evidence is None:
            raise UserError(f"{name} has no evaluation that all of its seeds share")
        found.append(evidence)
    told = compare_studies(found[0], found[1])
    return Paired(
        first=first,
        second=second,
        text=told.verdict,
        success=told.success_difference,
        reward=told.reward_difference,
        n_tasks=told.n_tasks,
    )


def _paired_runs(monitor: Monitor, first: str, second: str) -> Paired:
    views = [monitor.runs.view(name) for name in (first, second)]
    shared = [{p.step for p in view.evaluations if p.has_report} for view in views]
    steps = shared[0] & shared[1]
    if not steps:
        raise UserError("no held-out evaluation after the same step of both is there yet")
    step = max(steps)
    before, after = (read_report(view.path, step) for view in views)
    gained: Comparison = compare_reports(after, before)
    return Paired(
        first=first,
        second=second,
        text=f"After step {step}: {verdict(gained)}",
        success=gained.success_difference,
        reward=gained.reward_difference,
        n_tasks=gained.n_tasks,
    )


def config_differences(one: RunView, other: RunView) -> dict[str, tuple[JSON, JSON]]:
    """The keys that two configs differ in."""
    first, second = (_flat(view.config.model_dump(mode="json")) for view in (one, other))
    keys = [*first, *(key for key in second if key not in first)]
    return {k: (first.get(k), second.get(k)) for k in keys if first.get(k) != second.get(k)}


def _flat(values: Mapping[str, Any], before: str = "") -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = value
    return found


TIMES = {"rollout_s": "acting", "update_s": "learning"}


def _times(view: RunView) -> list[tuple[str, float, float]]:
    """Where the time of all steps went: what, seconds, and the share."""
    sums = {
        title: sum(row.number(name) or 0.0 for row in view.steps) for name, title in TIMES.items()
    }
    sums["evaluating"] = sum(point.duration_s for point in view.evaluations)
    whole = sum(sums.values())
    return [(title, took, took / whole) for title, took in sums.items()] if whole else []
