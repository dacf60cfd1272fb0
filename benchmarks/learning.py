"""How well each method learns: trains the same model on `math` by several of them.

Every method is a `practicum train` of its own, evaluated on the same held-out tasks before, on the
way and after. `kto` first makes a mediocre policy by a few steps of another method, records what
that policy does on training tasks, and goes on from it by the recording alone; its gain is over
that policy. With the tiny model, whose weights are random, all methods start from a short imitation
and are compared with what that gave.

    python benchmarks/learning.py --model tiny
    python benchmarks/learning.py --model smollm2-135m --device cuda --parallel 4
    python benchmarks/learning.py --model smollm2-135m --page docs/algorithms.md
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from practicum.analysis.evaluations import read_evaluations
from practicum.core.checkpoint import EvalReport, Interval
from practicum.core.config.algorithm_config import ALGORITHMS
from practicum.evaluation.compare import compare_reports
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir

BAR = 0.8
"""The demo's: the lower bound of held-out success."""

MEDIOCRE = "mediocre"
"""The run whose policy is recorded for `kto`, by which it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One method's settings."""

    stages: tuple[tuple[str, int, str], ...]
    """For each stage its method, its steps, and its options as YAML inside of braces."""
    data: str = ""
    """What stages that learn from data take it from; YAML inside of braces."""
    start: int = 0
    """Steps that make the policy the method starts from; it is compared with that policy."""
    temperature: float = 1.0
    """At which that policy is recorded, where the method learns from records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What one model is trained with."""

    shared: tuple[str, ...]
    trials: dict[str, Trial]


REFERENCE = "source: reference, n: 64"
RECORDED = "source: {store}"

SMOLLM2 = Settings(
    shared=(
        "rollouts.tasks_per_step=4",
        "rollouts.group_size=8",
        "rollouts.max_turns=6",
        "rollouts.temperature=1.2",
    ),
    trials={
        "grpo": Trial(stages=(("grpo", 12, "lr: 3e-4"),)),
        "rloo": Trial(stages=(("rloo", 12, "lr: 3e-4"),)),
        "ppo": Trial(stages=(("ppo", 12, "lr: 3e-4, epochs: 2, minibatches: 2"),)),
        "sft": Trial(stages=(("sft", 15, "lr: 3e-4, batch: 8"),), data=REFERENCE),
        "sft, grpo": Trial(
            stages=(("sft", 10, "lr: 2e-4, batch: 8"), ("grpo", 6, "lr: 3e-4")), data=REFERENCE
        ),
        "kto": Trial(
            stages=(("grpo", 3, "lr: 3e-4"), ("kto", 60, "lr: 3e-4, beta: 0.5, reference: start")),
            data=RECORDED,
            start=3,
            temperature=0.5,
        ),
    },
)

WARM, WARM_STEPS = "lr: 3e-3, batch: 16", 40
"""The tiny model has random weights. It never states an answer before it has seen one stated, so
what learns from its own attempts or from records starts from a short imitation."""


def warm(method: str, steps: int, options: str, data: str = REFERENCE) -> Trial:
    """A method that goes on from the same imitation as its neighbours."""
    stages = (("sft", WARM_STEPS, WARM), (method, steps, options))
    return Trial(stages=stages, data=data, start=WARM_STEPS)


TINY = Settings(
    shared=(
        "rollouts.tasks_per_step=8",
        "rollouts.group_size=8",
        "rollouts.max_turns=6",
        "rollouts.temperature=1.0",
    ),
    trials={
        "grpo": warm("grpo", 40, "lr: 1e-3"),
        "rloo": warm("rloo", 40, "lr: 1e-3"),
        "ppo": warm("ppo", 40, "lr: 3e-4, epochs: 2, minibatches: 2"),
        "sft": Trial(stages=(("sft", 90, WARM),), data=REFERENCE),
        "grpo alone": Trial(stages=(("grpo", 60, "lr: 1e-3"),)),
        "kto": warm("kto", 200, "lr: 5e-4, beta: 0.5, reference: start", RECORDED),
    },
)

SETTINGS = {"smollm2-135m": SMOLLM2, "tiny": TINY}
"""By model; another model is trained as SmolLM2 is."""


class Failed(Exception):
    """A command that did not end well, with the last it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a method came to."""

    method: str
    before: Interval
    after: Interval
    gain: Interval
    """Of success, task by task."""
    bar_step: int | None
    """First evaluated step whose lower bound reaches the bar."""
    bar_episodes: int | None
    """Episodes that the policy had made by then; for `kto`, those that were recorded."""
    episodes: int
    seconds: float
    notes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What the command line asks for, and where runs go."""

    model: str
    device: str
    folder: Path
    n: int
    every: int
    steps: int
    level: int
    threads: int
    record: int
    more: tuple[str, ...]
    """What every run is told besides, as on the command line."""

    @property
    def settings(self) -> Settings:
        """The model's row of the table."""
        return SETTINGS.get(self.model, SMOLLM2)

    def run(self, method: str) -> Outcome:
        """Train by one method and read what came of it."""
        began = time.monotonic()
        trial, notes = self.settings.trials[method], {}
        if trial.data == RECORDED:
            notes = self._record(trial)
        name = method.replace(", ", "-").replace(" ", "-")
        self._train(name, trial, str(notes.get("store", "")))
        return self._outcome(name, method, trial, time.monotonic() - began, notes)

    def _train(self, name: str, trial: Trial, store: str = "", *words: str) -> None:
        stages = []
        for number, (algorithm, steps, options) in enumerate(trial.stages):
            of_start = trial.start and number == 0
            data = REFERENCE if of_start else trial.data.format(store=store)
            data = data if ALGORITHMS[algorithm].is_offline else ""
            stage = f"steps: {self.steps or steps}, algorithm: {{name: {algorithm}, {options}}}"
            stages.append("{" + stage + (f", data: {{{data}}}" if data else "") + "}")
        asked = (f"eval.n={self.n}", f"eval.every={self.every}", f"stages=[{', '.join(stages)}]")
        self._call("train", "math", *self._words(), *asked, *words, "--name", name)

    def _words(self) -> tuple[str, ...]:
        return (
            f"model={self.model}",
            f"model.device={self.device}",
            f"env.level={self.level}",
            f"runs_dir={self.folder}",
            f"hardware.threads={self.threads}",
            *self.settings.shared,
            *self.more,
        )

    def _record(self, trial: Trial) -> dict[str, object]:
        """Episodes of the policy that the trial starts from, in a store."""
        words = (f"checkpoints.every={self.steps or trial.start}",)
        self._train(MEDIOCRE, replace(trial, stages=trial.stages[:1]), "", *words)
        store = self.folder / "recorded.sqlite"
        policy = str(self.folder / MEDIOCRE / f"step_{self.steps or trial.start}")
        sizes = ("--n", str(self.record), "--k", "2", "--temperature", str(trial.temperature))
        said = self._call("traces", "record", policy, *sizes, "--store", str(store), "--json")
        return dict(json.loads(said.splitlines()[-1]))

    def _call(self, *words: str) -> str:
        """The output of a `practicum` command."""
        command = [sys.executable, "-m", "practicum.cli.main", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
            raise Failed(f"practicum {words[0]} ended with {done.returncode}: {said}")
        return done.stdout

    def _outcome(
        self, name: str, method: str, trial: Trial, seconds: float, notes: dict[str, object]
    ) -> Outcome:
        run = RunDir(self.folder / name)
        reports = read_evaluations(run)
        made = {
            row.step: int(str(row.values.get("episodes") or 0))
            for row in read_metrics(run.metrics_path).rows
            if row.kind == "step"
        }
        recorded = int(str(notes.get("episodes", 0)))
        bar = first_at_bar(reports)
        last = max(reports)
        start = trial.start and (self.steps or trial.start)
        return Outcome(
            method=method,
            before=reports[start].success,
            after=reports[last].success,
            gain=compare_reports(reports[last], reports[start]).success_difference,
            bar_step=bar,
            bar_episodes=None
            if bar is None
            else recorded + sum(count for step, count in made.items() if step <= bar),
            episodes=recorded + sum(made.values()),
            seconds=seconds,
            notes=notes,
        )


def first_at_bar(reports: dict[int, EvalReport]) -> int | None:
    """The first evaluated step whose lower bound of success is at least the bar."""
    return next((step for step in sorted(reports) if reports[step].success.low >= BAR), None)


def text(interval: Interval, sign: str = "") -> str:
    return f"{interval.value:{sign}.2f} [{interval.low:{sign}.2f}, {interval.high:{sign}.2f}]"


HEADER = ("method", "before", "after", "paired difference", f"bound >= {BAR} after", "seconds")


def cells(outcome: Outcome) -> tuple[str, ...]:
    reached = "not reached"
    if outcome.bar_step is not None:
        reached = f"{outcome.bar_step} steps, {outcome.bar_episodes} episodes"
    return (
        outcome.method,
        text(outcome.before),
        text(outcome.after),
        text(outcome.gain, "+"),
        reached,
        f"{outcome.seconds:.0f}",
    )


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The table as it stands on a page."""
    rows = [HEADER, ("---",) * len(HEADER), *(cells(one) for one in outcomes)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def fill_page(page: Path, model: str, table: str, how: str) -> None:
    """Put the table between the page's two comments about the model."""
    begin, end = f"<!-- results: {model} -->", f"<!-- end of results: {model} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page} has no place for {model}; write the lines `{begin}` and `{end}`")
    page.write_text(f"{before}{begin}\n\n{how}\n\n{table}\n\n{end}{after}", encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="tiny", help="tiny, smollm2-135m, or a folder")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda", "mps"])
    known = sorted(SMOLLM2.trials | TINY.trials)
    parser.add_argument("--methods", nargs="+", choices=known, metavar="METHOD")
    parser.add_argument("--parallel", type=int, default=1, help="methods trained at the same time")
    parser.add_argument("--n", type=int, default=100, help="held-out tasks")
    parser.add_argument("--every", type=int, default=1, help="steps between evaluations")
    parser.add_argument("--steps", type=int, default=0, help="of each stage, instead of the table")
    parser.add_argument("--level", type=int, default=1, help="of the tasks")
    parser.add_argument("--record", type=int, default=250, help="tasks recorded twice for kto")
    parser.add_argument(
        "--set", dest="more", nargs="+", default=[], metavar="KEY=VALUE", help="for every run"
    )
    parser.add_argument("--runs", type=Path, help="where the runs are kept; a new folder if not")
    parser.add_argument("--out", type=Path, help="a file for the JSON")
    parser.add_argument("--page", type=Path, help="a page whose table is filled in")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def run_all(bench: Bench, methods: Sequence[str], parallel: int) -> list[Outcome]:
    """All methods, so many at a time; in the order they were asked for."""
    found: dict[str, Outcome] = {}
    with (
        Progress(console=Console(stderr=True)) as bar,
        ThreadPoolExecutor(max_workers=parallel) as pool,
    ):
        task = bar.add_task("training", total=len(methods))
        running = {pool.submit(bench.run, method): method for method in methods}
        for done in as_completed(running):
            try:
                found[running[done]] = done.result()
            except Failed as error:
                print(f"{running[done]}: {error}", file=sys.stderr)
            bar.advance(task)
    return [found[method] for method in methods if method in found]


def described(bench: Bench, outcomes: Sequence[Outcome], parallel: int) -> str:
    """What the table is of, in a few sentences."""
    on_gpu = bench.device != "cpu" and torch.cuda.is_available()
    machine = torch.cuda.get_device_name() if on_gpu else f"{os.cpu_count()} CPU cores"
    told = f", `{' '.join(bench.more)}`" if bench.more else ""
    said = f"`math` level {bench.level}, {bench.model} on {machine}{told}, {parallel} at a time, "
    said += f"n = {bench.n} held-out tasks, 95 % intervals."
    for one in outcomes:
        if "succeeded" in one.notes:
            of = f"{one.notes['succeeded']} of {one.notes['episodes']}"
            said += f" Of what was recorded for `{one.method}`, {of} succeeded."
    return said


def main() -> None:
    """Train, compare, show; 1 where a method could not be trained."""
    args = arguments()
    parallel = max(1, args.parallel)
    methods = args.methods or list(SETTINGS.get(args.model, SMOLLM2).trials)
    bench = Bench(
        model=args.model,
        device=args.device,
        folder=(args.runs or Path(tempfile.mkdtemp(prefix="learning-"))).resolve(),
        n=args.n,
        every=args.every,
        steps=args.steps,
        level=args.level,
        threads=max(1, (os.cpu_count() or 1) // parallel),
        record=args.record,
        more=tuple(args.more),
    )
    bench.folder.mkdir(parents=True, exist_ok=True)
    outcomes = run_all(bench, methods, parallel)
    how = described(bench, outcomes, parallel)
    result = {
        "model": args.model,
        "device": args.device,
        "level": args.level,
        "n": args.n,
        "runs": str(bench.folder),
        "outcomes": [asdict(one) for one in outcomes],
        "markdown": markdown(outcomes),
    }
    if args.out is not None:
        args.out.write_text(json.dumps(result, indent=2), encoding="utf-8")
    if args.page is not None:
        fill_page(args.page, args.model, markdown(outcomes), how)
    show(result, outcomes, how, as_json=args.json)
    if len(outcomes) < len(methods):
        raise SystemExit(1)


def show(
    result: dict[str, object], outcomes: Sequence[Outcome], how: str, *, as_json: bool
) -> None:
    """A table, or one line of JSON."""
    if as_json:
        print(json.dumps(result))
        return
    table = Table(*HEADER, title=how, title_justify="left")
    for one in outcomes:
        table.add_row(*cells(one))
    Console().print(table)
    print(markdown(outcomes))


if __name__ == "__main__":
    main()
