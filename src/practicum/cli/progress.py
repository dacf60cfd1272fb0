"""Progress of long work in the terminal."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from practicum.analysis.wording import IN_ORDER
from practicum.core.checkpoint import EvalReport, beside_success
from practicum.core.sample import Episode
from practicum.core.task import JSON
from practicum.environments.checker import LevelCheck
from practicum.evaluation.evaluate import FirstFailures
from practicum.evaluation.report import format_interval


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", justify="left"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


class ShownBars:
    """Bars that are on the screen inside a `with` block."""

    _bars: Progress

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bars.stop()


WORTH_TELLING = 50
"""Episodes from which an evaluation tells of each tenth where no bar can be seen."""


class EpisodeBar(ShownBars):
    """A bar that counts episodes, for an evaluation; in a file or a pipe a line for each tenth."""

    def __init__(self, console: Console, label: str, total: int) -> None:
        self._console, self._label, self._total = console, label, total
        self._bars = _bar(console)
        self._task = self._bars.add_task(label, total=total)
        self._failures = FirstFailures(lambda sentence: _warn(console, sentence))
        self._counted: set[str] = set()

    def episode_done(self, episode: Episode) -> None:
        """One more episode, or one that is told of again since it got no score."""
        self._failures.look_at(episode)
        if episode.trace.id not in self._counted:
            self._counted.add(episode.trace.id)
            self._bars.advance(self._task)
            self._tell_tenth(len(self._counted))

    def _tell_tenth(self, count: int) -> None:
        total, tenth = self._total, 10 * count // self._total if self._total else 0
        is_new = tenth > 10 * (count - 1) // total if total else False
        if is_new and total >= WORTH_TELLING and not self._console.is_terminal:
            told = f"{self._label}: {count} of {total} episodes"
            self._console.print(told, markup=False, highlight=False, soft_wrap=True)


def _warn(console: Console, sentence: str) -> None:
    console.print(
        f"warning: {sentence}", style="yellow", highlight=False, markup=False, soft_wrap=True
    )


class CheckBar(ShownBars):
    """A bar that counts checked tasks."""

    def __init__(self, console: Console, on_level: Callable[[LevelCheck], None]) -> None:
        self._bars = _bar(console)
        self._task = self._bars.add_task("checking tasks", total=None)
        self._on_level = on_level

    def begin(self, tasks: int) -> None:
        """This many tasks will be checked."""
        self._bars.update(self._task, total=tasks)

    def task_done(self) -> None:
        """One more task."""
        self._bars.advance(self._task)

    def level_done(self, level: LevelCheck) -> None:
        """A level is complete."""
        self._on_level(level)


class TrainingProgress(ShownBars):
    """Bars for the run and for the episodes of the step, and one line for each step done."""

    def __init__(self, console: Console, steps: int) -> None:
        self._console = console
        self._bars = _bar(console)
        self._run = self._bars.add_task("steps", total=steps)
        self._part = self._bars.add_task("episodes", total=1, visible=False)
        self._heading = ""
        self._failures = FirstFailures(self.warned)
        self._counted: set[str] = set()

    def step_started(self, step: int, episodes: int) -> None:
        """A step begins."""
        self._counted.clear()
        self._bars.update(self._run, completed=step - 1)
        self._bars.reset(self._part, total=episodes, description=f"step {step}", visible=True)

    def episode_done(self, episode: Episode) -> None:
        """One more episode, or one that is told of again since it got no score."""
        self._failures.look_at(episode)
        if episode.trace.id not in self._counted:
            self._counted.add(episode.trace.id)
            self._bars.advance(self._part)

    def step_done(self, step: int, metrics: dict[str, JSON]) -> None:
        """A step is complete."""
        is_recorded = "examples" in metrics
        heading, line = (RECORDED_HEADING, _recorded_line) if is_recorded else (HEADING, _line)
        if self._heading != heading:
            self._console.print(heading, style="bold", highlight=False)
            self._heading = heading
        self._console.print(line(step, metrics), highlight=False)
        for after in ("_before", ""):
            if f"heldout_loss{after}" in metrics:
                told = _heldout_line(step, metrics, after)
                self._console.print(told, style="cyan", highlight=False, soft_wrap=True)
        self._bars.update(self._run, completed=step)

    def evaluation_started(self, step: int, episodes: int) -> None:
        """A held-out evaluation begins."""
        self._counted.clear()
        self._bars.update(self._run, completed=step)
        label = f"evaluating after {step} steps" if step else "evaluating before training"
        self._bars.reset(self._part, total=episodes, description=label, visible=True)

    def evaluated(self, step: int, report: EvalReport) -> None:
        """A held-out evaluation is complete."""
        name, found = report.decisive
        reward = f", reward {report.reward.value:.2f}" if report.success else ""
        self._console.print(
            f"held-out after {step} steps: {name} {format_interval(found, digits=2)}, "
            f"n = {found.n}{reward}{beside_success(report, digits=2)}",
            style="cyan",
            highlight=False,
            markup=False,
        )

    def warned(self, sentence: str) -> None:
        """Something the user should know."""
        _warn(self._console, sentence)


HEADING = "step  reward  success  flat   entropy   KL      gap      tokens   seconds"


def _line(step: int, metrics: dict[str, JSON]) -> str:
    seconds = _number(metrics["rollout_s"]) + _number(metrics["update_s"])
    return (
        f"{step:4d}  {_show(metrics['reward'], '6.2f')}  {_show(metrics['success'], '7.2f')}  "
        f"{_show(metrics['flat_share'], '4.2f')}  {_show(metrics.get('entropy'), '7.3f')}  "
        f"{_show(metrics.get('kl_to_base'), '6.3f')}  {_show(metrics.get('logprob_gap'), '7.1e')}  "
        f"{_show(metrics.get('update_tokens'), '6d')}  {seconds:8.1f}"
    )


RECORDED_HEADING = "step  method           loss  epoch  examples   KL      tokens   seconds"


def _recorded_line(step: int, metrics: dict[str, JSON]) -> str:
    """A step that learned from recorded examples."""
    return (
        f"{step:4d}  {metrics.get('stage', '')!s:12}  {_show(metrics.get('loss'), '7.3f')}  "
        f"{_show(metrics.get('epoch'), '5.2f')}  {_show(metrics.get('examples'), '8d')}  "
        f"{_show(metrics.get('kl_to_base'), '6.3f')}  {_show(metrics.get('update_tokens'), '6d')}  "
        f"{_number(metrics.get('update_s')):8.1f}"
    )


def _heldout_line(step: int, metrics: dict[str, JSON], after: str) -> str:
    """How the policy stands, or stood before the step, to examples it does not learn from."""
    when = f"before step {step}" if after else f"after {step} steps"
    told = f"held-out rows {when}: loss {_number(metrics[f'heldout_loss{after}']):.3f}"
    if (share := metrics.get(f"heldout_in_order{after}")) is None:
        return told
    pairs = f"{_number(metrics.get(f'heldout_pairs{after}')):.0f} pairs"
    return f"{told}, {IN_ORDER}, in {_number(share):.2f} of {pairs}"


def _number(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _show(value: Any, form: str) -> str:
    width = int(form.split(".")[0].rstrip("dfe"))
    return format(value, form) if value is not None else "-".rjust(width)


class ImportBar(ShownBars):
    """How much of a file has been imported; says which format it is in."""

    def __init__(self, quiet: bool) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            DownloadColumn(),
            TextColumn("{task.fields[episodes]} episodes"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bars.add_task("reading", total=None, episodes=0)
        self._episodes = 0

    def file_started(self, file: Path, format: str, size: int) -> None:
        """A file is being read."""
        if not self._quiet:
            self._console.print(f"{file}: {format}", markup=False, soft_wrap=True)
        self._bars.update(self._task, description=file.name, total=size, completed=0)

    def read(self, offset: int, episodes: int) -> None:
        """So many bytes of it are done."""
        self._episodes += episodes
        self._bars.update(self._task, completed=offset, episodes=self._episodes)


class EpisodesBar(ShownBars):
    """How many episodes are done."""

    def __init__(self, label: str, total: int) -> None:
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bars.add_task(label, total=total)

    def one(self) -> None:
        """One more."""
        self._bars.advance(self._task)

    def scored(self, episode: Episode) -> None:
        """One more has its new score."""
        self.one()
