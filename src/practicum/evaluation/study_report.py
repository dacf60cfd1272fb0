"""What a study came to, and two of them compared: built, shown as tables, written to JSON."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from rich.text import Text

from practicum.core.checkpoint import EvalReport, Interval, beside_success
from practicum.core.errors import UserError
from practicum.core.task import JSON
from practicum.evaluation.over_seeds import (
    BAR,
    SeedScores,
    bar_interval,
    difference_interval,
    gather_scores,
    improvement_interval,
    iqm_interval,
    reward_interval,
    scores_by_level,
    success_interval,
)
from practicum.evaluation.report import format_interval, format_success

SCHEMA = 1
"""Version of the JSON format."""

ONE_SEED = "one seed: for a claim about learning run --seeds 5"
"""What is said beside the table of a single run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """Scores of a study over its seeds and the held-out tasks."""

    name: str
    env: str
    seeds: tuple[int, ...]
    """Those that were evaluated."""
    missing: tuple[int, ...]
    """Seeds of the study that were not."""
    so_far: tuple[int, int] | None
    """The step that no seed has gone on from yet and how many there will be; None when done."""
    n_tasks: int
    left_out: int
    """Tasks at which some seed has no scored attempt."""
    success: Interval
    """Over seeds and tasks; as in `EvalReport`, the masked count as failed where they are many."""
    success_scored: Interval
    success_if_masked_failed: Interval
    masked: int
    """Attempts of all seeds without a score."""
    reward: Interval
    """Over seeds and tasks."""
    iqm: Interval
    """Interquartile mean of the seeds' success, or of their success by level."""
    bar: float
    at_bar: Interval
    """Share of seeds whose own lower bound is at the bar."""
    reports: tuple[EvalReport, ...]
    """Of each seed over its tasks, in the order of `seeds`."""

    @property
    def seed_success(self) -> tuple[Interval, ...]:
        """The success of each seed."""
        return tuple(report.success for report in self.reports if report.success)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyComparison:
    """Two studies on the same tasks."""

    first: StudyReport
    second: StudyReport
    n_tasks: int
    success_difference: Interval
    """Of the second over the first."""
    reward_difference: Interval
    improvement: Interval
    """Probability that a seed of the second has more success than one of the first."""

    @property
    def is_difference(self) -> bool:
        """Whether the interval of the difference in success leaves 0 out."""
        gain = self.success_difference
        return not gain.low <= 0 <= gain.high

    @property
    def verdict(self) -> str:
        """The difference in one sentence."""
        gain, first, second = self.success_difference, self.first.name, self.second.name
        shown = format_interval(gain, signed=True)
        over = f"{len(self.second.seeds)} and {len(self.first.seeds)} seeds, {self.n_tasks} tasks"
        if not self.is_difference:
            said = f"No difference in success is shown between {second} and {first}"
            return f"{said}: {shown}, {over}."
        word = "more" if gain.value > 0 else "less"
        return f"{second} succeeds {word} often than {first}: {shown}, {over}."


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEvidence:
    """A study by its name and the evaluations of its seeds."""

    name: str
    reports: dict[int, EvalReport]
    missing: tuple[int, ...] = ()
    so_far: tuple[int, int] | None = None
    """The step that the evaluations are of and how many there will be, where none is done."""


def build_study_report(evidence: StudyEvidence, bar: float = BAR) -> StudyReport:
    """The report of a study from the evaluation of each seed."""
    return _study_report(evidence, gather_scores(list(evidence.reports.values())), bar)


def _study_report(evidence: StudyEvidence, scores: SeedScores, bar: float) -> StudyReport:
    check_bar(bar)
    return StudyReport(
        name=evidence.name,
        env=scores.env,
        seeds=tuple(evidence.reports),
        missing=evidence.missing,
        so_far=evidence.so_far,
        n_tasks=scores.n_tasks,
        left_out=scores.left_out,
        success=success_interval(scores.success, scores.attempts),
        success_scored=success_interval(scores.scored, scores.attempts),
        success_if_masked_failed=success_interval(scores.failed, scores.attempts),
        masked=scores.masked,
        reward=reward_interval(scores.reward),
        iqm=iqm_interval(scores_by_level(scores)),
        bar=bar,
        at_bar=bar_interval(scores.seed_success, bar),
        reports=scores.reports,
    )


def check_bar(bar: float) -> None:
    """Refuse a bar that no success can be held against."""
    if not 0 < bar <= 1:
        raise UserError(f"--bar {bar:g} cannot be used; give a share above 0 up to 1, such as 0.8")


def compare_studies(
    first: StudyEvidence, second: StudyEvidence, bar: float = BAR
) -> StudyComparison:
    """The second study's gains over the first, on the tasks both were evaluated on."""
    theirs = gather_scores(list(first.reports.values()), is_baseline=True)
    ours = gather_scores(list(second.reports.values()))
    if ours.env != theirs.env:
        raise UserError(
            f"{second.name!r} was evaluated on {ours.env!r} and {first.name!r} on {theirs.env!r}, "
            "and a comparison needs the same tasks; give two studies of one environment"
        )
    shared = _shared(ours.task_ids, theirs.task_ids)
    rewarded = _shared(ours.reward_ids, theirs.reward_ids)
    is_same = not {*ours.task_ids} ^ {*theirs.task_ids} or ours.left_out or theirs.left_out
    if not shared or not rewarded or not is_same:
        raise UserError(
            f"{second.name!r} and {first.name!r} were evaluated on different tasks ({len(shared)} "
            "shared), and a comparison needs the same ones; train both with the same env, eval.n "
            "and eval.seed"
        )
    (mine, other), (paid, others) = np.array(shared).T, np.array(rewarded).T
    pairs = {
        "success": (ours.success[:, mine], theirs.success[:, other]),
        "reward": (ours.reward[:, paid], theirs.reward[:, others]),
    }
    return StudyComparison(
        first=build_study_report(first, bar),
        second=_study_report(second, ours, bar),
        n_tasks=len(shared),
        success_difference=difference_interval(*pairs["success"]),
        reward_difference=difference_interval(*pairs["reward"], bounded=False),
        improvement=improvement_interval(*(side.mean(axis=1) for side in pairs["success"])),
    )


def _shared(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int]]:
    """Where the tasks that both have stand in each."""
    place = {name: at for at, name in enumerate(theirs)}
    return [(at, place[name]) for at, name in enumerate(ours) if name in place]


def render_study(report: StudyReport) -> Table:
    """A table of one study: each seed, then all of them."""
    table = Table(
        title=f"{report.name}: {report.env}, {len(report.seeds)} seeds on the same "
        f"{report.n_tasks} held-out tasks, 95 % intervals over both",
        title_justify="left",
        caption=Text("\n".join(study_notes(report))),
        caption_justify="left",
    )
    table.add_column("score")
    table.add_column("value [95 % interval]", no_wrap=True)
    for seed, one in zip(report.seeds, report.reports, strict=True):
        table.add_row(f"seed {seed} success", Text(format_success(one, digits=2)))
    for name, found in study_rows(report):
        table.add_row(name, Text(show_over_seeds(found)))
    return table


def study_rows(report: StudyReport) -> list[tuple[str, Interval]]:
    """The figures of all seeds together, by name."""
    return [
        ("success", report.success),
        ("mean reward", report.reward),
        ("interquartile mean", report.iqm),
        (f"seeds at {report.bar:g}", report.at_bar),
    ]


def show_over_seeds(interval: Interval, *, signed: bool = False) -> str:
    """A figure over seeds; one seed has no interval over them."""
    if interval.method == "one seed":
        return f"{interval.value:.2f} (one seed)"
    return format_interval(interval, signed=signed, digits=2)


def study_notes(report: StudyReport) -> list[str]:
    """What one must know to read the figures, a sentence each."""
    notes = []
    if report.so_far is not None:
        step, steps = report.so_far
        notes.append(f"{report.name}: not finished; this is after {step} of {steps} steps.")
    if len(report.seeds) == 1:
        notes.append(f"{report.name} is {ONE_SEED}; its intervals are over tasks only.")
    elif report.at_bar.value == 1:
        rest = 1 - report.at_bar.low
        notes.append(
            f"{report.name}: all {len(report.seeds)} seeds are at the bar; up to {rest:.2f} of "
            "other seeds may still miss it."
        )
    if report.missing:
        listed = ", ".join(map(str, report.missing))
        notes.append(f"{report.name}: not finished and left out: seed {listed}.")
    if report.masked:
        notes.append(
            f"{report.name}: success {show_over_seeds(report.success)}{beside_success(report, 2)}."
        )
    if report.left_out:
        notes.append(f"{report.name}: {report.left_out} tasks without a score by every seed.")
    return notes


def render_study_comparison(comparison: StudyComparison) -> Table:
    """A table of two studies, the first one being the baseline, and the verdict."""
    first, second = comparison.first, comparison.second
    table = Table(
        title=f"{first.env}: {first.name} ({_seeds(first)}) and {second.name} ({_seeds(second)}) "
        f"on the same {comparison.n_tasks} held-out tasks, 95 % intervals",
        title_justify="left",
        caption=Text("\n".join([comparison.verdict, *study_notes(first), *study_notes(second)])),
        caption_justify="left",
    )
    for heading in ("score", first.name, second.name, "difference"):
        table.add_column(Text(heading), overflow="fold")
    differences = (comparison.success_difference, comparison.reward_difference)
    gains = [show_over_seeds(gain, signed=True) for gain in differences]
    for (name, before), (_, after), gain in zip(
        study_rows(first), study_rows(second), [*gains, "", ""], strict=True
    ):
        table.add_row(name, Text(show_over_seeds(before)), Text(show_over_seeds(after)), Text(gain))
    table.add_row("P(improvement)", "", Text(show_over_seeds(comparison.improvement)), "")
    return table


def _seeds(report: StudyReport) -> str:
    return "1 seed" if len(report.seeds) == 1 else f"{len(report.seeds)} seeds"


def study_to_json(report: StudyReport) -> dict[str, JSON]:
    """The report as JSON values."""
    return {
        "schema": SCHEMA,
        "name": report.name,
        "env": report.env,
        "seeds": list(report.seeds),
        "missing": list(report.missing),
        "so_far": report.so_far and {"step": report.so_far[0], "of": report.so_far[1]},
        "n_tasks": report.n_tasks,
        "left_out": report.left_out,
        "success": report.success.to_json(),
        "success_scored": report.success_scored.to_json(),
        "success_if_masked_failed": report.success_if_masked_failed.to_json(),
        "masked": report.masked,
        "reward": report.reward.to_json(),
        "iqm": report.iqm.to_json(),
        "bar": report.bar,
        "at_bar": report.at_bar.to_json(),
        "seed_success": {
            str(seed): found.to_json()
            for seed, found in zip(report.seeds, report.seed_success, strict=True)
        },
    }


def study_comparison_to_json(comparison: StudyComparison) -> dict[str, JSON]:
    """The comparison as JSON values, with its verdict."""
    return {
        "schema": SCHEMA,
        "first": study_to_json(comparison.first),
        "second": study_to_json(comparison.second),
        "n_tasks": comparison.n_tasks,
        "success_difference": comparison.success_difference.to_json(),
        "reward_difference": comparison.reward_difference.to_json(),
        "improvement": comparison.improvement.to_json(),
        "is_difference": comparison.is_difference,
        "verdict": comparison.verdict,
    }
