"""`practicum train --seeds`: the seeds of a study, each trained by a process of its own."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import typer

from practicum.core.interrupted import INTERRUPTED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from practicum.core.config.run_config import RunConfig
    from practicum.engine.planning.machine import Machine
    from practicum.store.study_dir import StudyDir


FAILED = 1
POLL_S = 0.2
MOST_ON_GPU = 4
"""Seeds at once on one GPU: beyond that they take each other's time."""
CORES_A_SEED = 8
"""Cores from which a second seed at once brings more than more threads for the first."""
PARENT_DEATH_SIGNAL = 1
"""Of Linux's `prctl`: which signal a process gets when its parent dies."""


def start_study(config: "RunConfig", seeds: str, name: str | None, parallel: int | None) -> None:
    """Make a study and train its seeds."""
    from practicum.store.study_dir import parse_seeds
    from practicum.workflows.studies import create_study

    numbers = parse_seeds(seeds, config.seed)
    config, at_once = share_machine(config, len(numbers), parallel)
    run_study(create_study(config, numbers, name=name, parallel=at_once), at_once)


def go_on(study: "StudyDir", words: Sequence[str], parallel: int | None) -> None:
    """Train the seeds of a study that are not done; those that are done are left alone."""
    from practicum.workflows.studies import resume_study

    resume_study(study, words)
    run_study(study, parallel or study.facts().parallel)


def share_machine(config: "RunConfig", seeds: int, parallel: int | None) -> "tuple[RunConfig, int]":
    """How many seeds at once, and the config with each one's threads.

    The threads are kept with the study: another number would give other bits after a resume.
    """
    from practicum.assemble.build_policy import plan_run
    from practicum.engine.planning.machine import detect_machine, placement

    machine = detect_machine()
    _, device = placement(config.model)
    if parallel is None:
        plan = plan_run(config, machine)
        room = plan.available_bytes // max(1, plan.total_bytes) if plan else 1
        parallel = min(seeds, most_at_once(config, machine, device), max(1, room))
    threads = config.hardware.threads
    if not threads and parallel > 1:
        threads = max(1, machine.allowed_cores // parallel)
        hardware = config.hardware.model_copy(update={"threads": threads})
        config = config.model_copy(update={"hardware": hardware})
    return config, parallel


def most_at_once(config: "RunConfig", machine: "Machine", device: str) -> int:
    """Seeds that the cores, or the GPU, leave room for."""
    if device != "cpu":
        return MOST_ON_GPU
    return max(1, machine.allowed_cores // (config.hardware.threads or CORES_A_SEED))


class Progress(NamedTuple):
    """Where a seed stands, for its line."""

    state: str
    told: str


@dataclass(slots=True)
class StudyRunner:
    """Trains seeds as processes, so many at once, and keeps how each one stands."""

    study: "StudyDir"
    at_once: int
    waiting: list[int]
    running: dict[int, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    is_stopping: bool = False

    def advance(self) -> bool:
        """Start what there is room for and take in what has ended; whether there is more to do."""
        from practicum.core.errors import UserError

        while self.waiting and len(self.running) < self.at_once and not self.is_stopping:
            seed = self.waiting.pop(0)
            try:
                self.running[seed] = self._start(seed)
            except UserError as error:
                self._fail(seed, str(error))
        for seed, process in list(self.running.items()):
            code = process.poll()
            if code is None:
                continue
            del self.running[seed]
            if code == 0:
                self.study.record_failure(seed, None)
            elif not self.is_stopping:
                self._fail(seed, self._last_words(seed, code))
        return bool(self.running) or bool(self.waiting and not self.is_stopping)

    def stop(self) -> None:
        """Let every seed save what it has and leave."""
        self.is_stopping = True
        for process in self.running.values():
            process.send_signal(signal.SIGINT)

    def _start(self, seed: int) -> "subprocess.Popen[bytes]":
        from practicum.workflows.studies import prepare_seed

        run = prepare_seed(self.study, seed)
        words = ["train", "--resume", str(run.path)]
        steps = self.study.config().steps
        if run.config().steps != steps:
            words.append(f"steps={steps}")
        with open(self.study.log_path(seed), "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "practicum.cli.main", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # a Ctrl-C comes to us alone, and we pass it on once
                preexec_fn=_die_with_parent(),
            )

    def _fail(self, seed: int, sentence: str) -> None:
        self.failed[seed] = sentence
        self.study.record_failure(seed, sentence)

    def _last_words(self, seed: int, code: int) -> str:
        """Why a trainer ended: its own sentence, or the last line that it printed."""
        text = self.study.log_path(seed).read_text(encoding="utf-8", errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        own = [line for line in lines if line.startswith("practicum: ")]
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}; go on with --resume"
        if own:
            return own[-1].removeprefix("practicum: ")
        return f"it ended with {code}: {lines[-1] if lines else 'nothing was printed'}"

    def progress(self, seed: int) -> Progress:
        """Where a seed stands now."""
        from practicum.store.events import read_metrics
        from practicum.store.run_dir import RunDir

        if seed in self.failed:
            return Progress("failed", self.failed[seed])
        if seed in self.waiting:
            return Progress("waiting", "")
        run, steps = self.study.run(seed), self.study.config().steps
        state = "running" if seed in self.running else "stopped" if self.is_stopping else "done"
        if not RunDir.is_run(run.path):
            return Progress(state, f"step 0 of {steps}")
        rows = read_metrics(run.metrics_path).rows
        made = [row for row in rows if row.kind == "step"]
        told = [f"step {made[-1].step if made else 0} of {steps}"]
        if made and isinstance(reward := made[-1].values.get("reward"), int | float):
            told.append(f"reward {reward:.2f}")
        evals = [row for row in rows if row.kind == "eval"]
        if evals and isinstance(found := evals[-1].values.get("success"), dict):
            told.append(
                f"held-out {found['value']:.2f} [{found['low']:.2f}, {found['high']:.2f}] "
                f"after {evals[-1].step}"
            )
        return Progress(state, ", ".join(told))


def _die_with_parent() -> Callable[[], None] | None:
    """What makes a trainer end when this process is killed; nothing where the system cannot.

    A trainer loses nothing by a kill, and one that went on alone would hold its run's folder.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask() -> None:
        prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask


def run_study(study: "StudyDir", at_once: int) -> None:
    """Train what is not done, with a live line for each seed, and show what it came to."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with study.hold():
        seeds, left = study.facts().seeds, study.unfinished()
        console.print(
            f"study {study.path}: {len(seeds)} seeds, {len(seeds) - len(left)} done, {at_once} at "
            "a time",
            markup=False,
            soft_wrap=True,
        )
        runner = StudyRunner(study, at_once, left)
        _follow(runner, seeds, console)
    if runner.is_stopping:
        console.print("stopped; go on with:")
        console.print(f"  practicum train --resume {study.path}", markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED)
    _finish(study, runner, console)


def _follow(runner: StudyRunner, seeds: Sequence[int], console: "Console") -> None:
    """Advance until nothing is left. A Ctrl-C stops the seeds, a second one leaves at once."""
    from rich.live import Live

    shown: dict[int, Progress] = {}
    is_live = console.is_terminal and not console.is_dumb_terminal
    try:
        with Live(console=console, auto_refresh=False, transient=False) as live:
            goes_on = True
            while goes_on:
                try:
                    goes_on = runner.advance()
                    now = {seed: runner.progress(seed) for seed in seeds}
                    if is_live:
                        live.update(_lines(now), refresh=True)
                    else:
                        _tell_changes(now, shown, console)
                    shown = now
                    if goes_on:
                        time.sleep(POLL_S)
                except KeyboardInterrupt:
                    if runner.is_stopping:
                        raise
                    runner.stop()
    finally:
        for process in runner.running.values():
            with suppress(ProcessLookupError):
                process.kill()


def _lines(now: dict[int, Progress]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    styles = {"failed": "red", "done": "green", "running": "cyan", "stopped": "yellow"}
    table = Table.grid(padding=(0, 2, 0, 0))
    for seed, (state, told) in now.items():
        table.add_row(f"seed {seed}", Text(state, style=styles.get(state, "dim")), Text(told))
    return table


def _tell_changes(
    now: dict[int, Progress], before: dict[int, Progress], console: "Console"
) -> None:
    """Where nothing can be drawn over: a line when a seed's line has changed."""
    for seed, (state, told) in now.items():
        if before.get(seed) != (state, told) and state != "waiting":
            line = f"seed {seed}  {state}  {told}"
            console.print(line, markup=False, soft_wrap=True)


def _finish(study: "StudyDir", runner: StudyRunner, console: "Console") -> None:
    from rich.console import Console

    from practicum.core.errors import UserError
    from practicum.evaluation.study_report import render_study
    from practicum.workflows.studies import Study

    out = Console()
    total, left = len(study.facts().seeds), len(study.unfinished())
    out.print(f"{study.path}: {total - left} of {total} seeds are done.", highlight=False)
    try:
        out.print(render_study(Study(study).report()))
    except UserError as error:  # a study without an environment has no success to show
        console.print(str(error), markup=False, soft_wrap=True)
    for seed, sentence in runner.failed.items():
        console.print(f"seed {seed} failed: {sentence}", style="red", markup=False, soft_wrap=True)
    if runner.failed:
        console.print(
            f"try them again with: practicum train --resume {study.path}",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(FAILED)
