"""Studies from Python: `train` with `seeds`, `load_study`, `compare`, and curves with bands."""

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from practicum import api
from practicum.api import Chart, EnvLike, Run
from practicum.assemble.build_stages import with_own_options
from practicum.assemble.driver import create_run, open_run_environment
from practicum.core.checkpoint import Interval
from practicum.core.config.parse_config import apply_overrides, build_config, changed_keys
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, MissingExtra, UserError
from practicum.evaluation.over_seeds import BAR, gather_scores, success_interval, t_quantile
from practicum.evaluation.study_report import (
    StudyComparison,
    StudyEvidence,
    StudyReport,
    build_study_report,
    compare_studies,
    render_study,
)
from practicum.store.run_dir import RUNS, RunDir, find_run
from practicum.store.study_dir import StudyDir, check_seeds, find_study, is_finished


class Study:
    """A study's folder: the runs of its seeds, and what they came to together."""

    def __init__(self, folder: StudyDir) -> None:
        self.folder = folder
        self.path = folder.path
        self.name = folder.name

    @property
    def config(self) -> RunConfig:
        """What every seed was told, but for its seed."""
        return self.folder.config()

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the study."""
        return self.folder.facts().seeds

    @property
    def failures(self) -> dict[int, str]:
        """Why seeds failed when they were last tried."""
        return {int(seed): told for seed, told in self.folder.facts().failures.items()}

    @property
    def runs(self) -> dict[int, Run]:
        """The seeds that were started."""
        return {seed: Run(run) for seed, run in self.folder.runs().items()}

    @property
    def evidence(self) -> StudyEvidence:
        """The last evaluation of each seed that is done; where none is, what there is so far."""
        steps, so_far = self.config.steps, None
        runs = {seed: (run, run.evaluations) for seed, run in self.runs.items()}
        done = {
            s: e for s, (run, e) in runs.items() if steps in e and is_finished(run.folder, steps)
        }
        if not done:
            done = {seed: found for seed, (_, found) in runs.items() if found}
            if not (shared := set.intersection(*map(set, done.values())) if done else set()):
                raise UserError(f"{self.path} {self._why_unknown}")
            so_far, steps = (max(shared), steps), max(shared)
        return StudyEvidence(
            name=self.name,
            reports={seed: found[steps] for seed, found in done.items()},
            missing=tuple(seed for seed in self.seeds if seed not in done),
            so_far=so_far,
        )

    @property
    def _why_unknown(self) -> str:
        """Why there is no evaluation of it, and what to do."""
        if self.config.env is None:
            return "has no environment, and so no success to compare; name one with env=NAME"
        return (
            "was not evaluated yet; wait for its first evaluation, or go on with: practicum train "
            f"--resume {self.path}"
        )

    def report(self, bar: float = BAR) -> StudyReport:
        """Success over seeds and tasks with its interval, and the rest of the table."""
        return build_study_report(self.evidence, bar)

    def plot(self) -> Chart:
        """Reward and held-out success over the steps, with bands over seeds."""
        return plot_studies([self])

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=100, force_jupyter=False)
        console.print(render_study(self.report()))
        return str(console.file.getvalue())  # type: ignore[attr-defined]  # it is a StringIO

    def __repr__(self) -> str:
        return f"Study({str(self.path)!r}, {len(self.seeds)} seeds)"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


class OneRun(Study):
    """A single run in a study's place: a study of one seed."""

    def __init__(self, run: RunDir) -> None:
        self.run = run
        self.path = run.path
        parent = run.path.absolute().parent
        self.name = f"{parent.name}/{run.name}" if StudyDir.is_study(parent) else run.name

    @property
    def config(self) -> RunConfig:
        """What the run was told."""
        return self.run.config()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Its one seed."""
        return (self.config.seed,)

    @property
    def failures(self) -> dict[int, str]:
        """None: a run says itself why it failed."""
        return {}

    @property
    def runs(self) -> dict[int, Run]:
        """The run."""
        return {self.config.seed: Run(self.run)}


def load_study(study: str | Path, runs_dir: str | Path = RUNS) -> Study:
    """A study by its folder or its name in `runs_dir`; a run is a study of one seed."""
    found = find_study(study, Path(runs_dir))
    return Study(found) if found is not None else OneRun(find_run(study, Path(runs_dir)))


def compare(
    first: Study | str | Path, second: Study | str | Path, *, bar: float = BAR
) -> StudyComparison:
    """The second study's gains over the first on the same held-out tasks."""
    sides = [one if isinstance(one, Study) else load_study(one) for one in (first, second)]
    return compare_studies(sides[0].evidence, sides[1].evidence, bar)


@overload
def train(env: EnvLike | None = None, *, seeds: None = None, **options: Any) -> Run: ...


@overload
def train(env: EnvLike | None = None, *, seeds: int | Sequence[int], **options: Any) -> Study: ...


def train(
    env: EnvLike | None = None, *, seeds: int | Sequence[int] | None = None, **options: Any
) -> Run | Study:
    """Train a run to its end, or a study where `seeds` are given; works in a notebook too.

    Args:
        env: A class, a name, `FILE.py:Name`, `module:Name`; or a config file, `FILE.yaml`.
        seeds: How many seeds, counted from the config's on, or which ones. They are trained one
            after another in this process; `practicum train --seeds` trains several at once.
        options: As for `train_async`: `name`, `resume`, `quiet`, and keys of the config.
    """
    resumed = find_study(options["resume"], RUNS) if options.get("resume") else None
    if seeds is None and resumed is None:
        return api.train(env, **options)
    name, quiet = options.pop("name", None), options.pop("quiet", False)
    resume = options.pop("resume", None)
    words = api.as_words(options)
    if resume is None:
        config = build_config(apply_overrides(api._run_values(env), words), "train")
        study = create_study(config, _seeds(seeds, config), name=name)
    elif resumed is not None and seeds is None:
        study = resumed
        resume_study(study, words)
    else:
        raise UserError("seeds= and resume= cannot be given together; a study keeps its seeds")
    with study.hold():
        for seed in study.unfinished():
            run = prepare_seed(study, seed)
            api.train(resume=run.path, steps=study.config().steps, quiet=quiet)
    return Study(study)


def _seeds(seeds: int | Sequence[int] | None, config: RunConfig) -> tuple[int, ...]:
    if isinstance(seeds, int):
        return check_seeds(range(config.seed, config.seed + seeds))
    return check_seeds(tuple(seeds or ()))


def create_study(
    config: RunConfig, seeds: Sequence[int], *, name: str | None = None, parallel: int = 1
) -> StudyDir:
    """A new study's folder; what the config may ask for and is not there is looked for first."""
    open_run_environment(config)
    with_own_options(config)
    return StudyDir.create(config, seeds, name=name, parallel=parallel)


def resume_study(study: StudyDir, words: Sequence[str]) -> None:
    """Give a study that goes on its new settings; only such as change no step already done."""
    saved = study.config()
    config = build_config(apply_overrides(saved.model_dump(), words), str(study.path))
    if changed := changed_keys(saved, config):
        raise ConfigError(
            f"{study.path} was made with another config; these keys differ: {', '.join(changed)}; "
            f"resume without them (practicum train --resume {study.path}), or start another study"
        )
    if config.steps != saved.steps:
        study.replace_config(config)


def prepare_seed(study: StudyDir, seed: int) -> RunDir:
    """The run folder of a seed, made where it is not there yet."""
    run = study.run(seed)
    if RunDir.is_run(run.path):
        return run
    return create_run(study.seed_config(seed), run.name)


def plot_studies(studies: Sequence[Study]) -> Chart:
    """Training reward and held-out success over the steps: means, and bands over seeds."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.for_extra("plots", "a picture of studies") from None
    names = [f"{study.name} ({_count(study)})" for study in studies]
    panels = [
        ("training reward, 95 % band over seeds", [reward_curve(study) for study in studies], ""),
        ("held-out success, 95 % band", [success_curve(study) for study in studies], "o"),
    ]
    # A stage that learns from recorded examples has no reward.
    panels = [panel for panel in panels if any(panel[1])]
    if not panels:
        raise UserError(f"{studies[0].path} has no steps yet; there is nothing to plot")
    figure = Figure(figsize=(4.5 * len(panels), 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves, marker) in zip(axes, panels, strict=True):
        for number, (name, curve) in enumerate(zip(names, curves, strict=True)):
            _draw(axis, curve, f"C{number}", name, marker)
        axis.set(title=title, xlabel="step")
        axis.grid(alpha=0.25)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.spines[["top", "right"]].set_visible(False)
        if marker:
            axis.set_ylim(-0.03, 1.03)
    figure.legend(
        *axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
    )
    return Chart(figure)


def _count(study: Study) -> str:
    return "1 seed" if len(study.seeds) == 1 else f"{len(study.seeds)} seeds"


def _draw(axis: Any, curve: Mapping[int, Interval], color: str, label: str, marker: str) -> None:
    steps = list(curve)
    axis.plot(steps, [p.value for p in curve.values()], color=color, label=label, marker=marker)
    bounded = [(step, p) for step, p in curve.items() if np.isfinite([p.low, p.high]).all()]
    if bounded:
        axis.fill_between(
            [step for step, _ in bounded],
            [p.low for _, p in bounded],
            [p.high for _, p in bounded],
            color=color,
            alpha=0.18,
            linewidth=0,
        )


def reward_curve(study: Study) -> dict[int, Interval]:
    """Mean training reward at each step that every started seed has made, over seeds."""
    rows = [{int(str(r["step"])): r.get("reward") for r in run.metrics} for run in _started(study)]
    curve = {}
    for step in sorted(set.intersection(*(set(found) for found in rows))):
        values = [found[step] for found in rows]
        numbers = [float(v) for v in values if isinstance(v, int | float)]
        if len(numbers) == len(rows):
            curve[step] = _over_seeds(numbers)
    return curve


def _over_seeds(values: Sequence[float]) -> Interval:
    """Mean of one number for each seed, with Student's t; no bounds for a single one."""
    n, mean = len(values), float(np.mean(values))
    half = t_quantile(n - 1.0) * float(np.std(values, ddof=1)) / n**0.5 if n > 1 else float("inf")
    return Interval(value=mean, low=mean - half, high=mean + half, n=n, method="t over seeds")


def success_curve(study: Study) -> dict[int, Interval]:
    """Held-out success at each step that every started seed was evaluated at."""
    found = [run.evaluations for run in _started(study)]
    steps = sorted(set.intersection(*(set(one) for one in found)))
    tables = {step: gather_scores([one[step] for one in found]) for step in steps}
    return {step: success_interval(t.success, t.attempts) for step, t in tables.items()}


def _started(study: Study) -> list[Run]:
    """Seeds that failed early would cut every curve: they are left out where others have more."""
    done = [run for run in study.runs.values() if is_finished(run.folder, study.config.steps)]
    runs = done or list(study.runs.values())
    if not runs:
        raise UserError(
            f"{study.path} has no seed that was started; go on with: practicum train --resume "
            f"{study.path}"
        )
    return runs
