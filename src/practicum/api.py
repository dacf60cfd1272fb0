"""Practicum from Python: `check`, `train`, `evaluate`, `play`, `load`, `models`.

The command line calls the same functions. Each works in a script and in a notebook, where an event
loop runs already; `train_async` is for code that awaits.
"""

import html
import io
import json
import math
import sys
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from practicum.analysis.evaluations import read_evaluations
from practicum.assemble.driver import OpenRun, TrainedRun, train_run_async
from practicum.assemble.environments import check_config, choose_task, open_environment
from practicum.assemble.policies import (
    SCRIPTED_POLICIES,
    PolicyHandle,
    evaluate_policy,
    keep_evaluated,
    load_policy,
    play_once,
    scripted_policy,
)
from practicum.config_files import config_file, consents_of, resumed_config
from practicum.core.checkpoint import Checkpoint, Comparison, EvalReport, beside_success
from practicum.core.config.config_sections import EnvConfig, ModelConfig, several
from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, MissingExtra, UserError
from practicum.core.interfaces import Environment, Reward
from practicum.core.sample import Episode, Group
from practicum.core.task import JSON
from practicum.core.trusted_code import remember
from practicum.core.user_code import consents_to, register
from practicum.engine.compute_thread import run_to_end as run_to_end
from practicum.environments.checker import EnvironmentCheck, LevelCheck
from practicum.environments.registry import heldout_tasks, run_and_close
from practicum.evaluation.compare import compare_reports
from practicum.evaluation.evaluate import FirstFailures
from practicum.evaluation.report import find_masked, render_comparison, render_report
from practicum.store.checkpoints import (
    CheckpointStore,
    Resolved,
    base_of_adapter,
    is_adapter_folder,
    resolve_checkpoint,
)
from practicum.store.events import read_metrics
from practicum.store.run_dir import RUNS, RunDir, find_run, list_runs

T = TypeVar("T")

PLOTTED = (
    *("reward", "success", "entropy", "kl_to_base", "loss", "heldout_loss", "heldout_in_order"),
    *("margin", "pairs_in_order"),
)
"""Metrics that `Run.plot` draws unless told, where the run has them."""

EnvLike = str | type | Mapping[str, Any] | list[Any]
"""An environment: its name, `FILE.py:Name`, `module:Name`, its class, any of these as `name` beside
options, or a list of several that are practised together."""


class Records(list[dict[str, JSON]]):
    """Rows of values by name; a table in a notebook."""

    def dataframe(self) -> Any:
        """The rows as a pandas DataFrame."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            raise UserError(
                "dataframe() needs pandas, which is not installed; type: pip install pandas"
            ) from None
        return pandas.DataFrame(list(self))

    def _repr_html_(self) -> str:
        names = list(dict.fromkeys(name for row in self for name in row))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(_cell(row.get(name)))}</td>' for name in names)}</tr>"
            for row in self
        )
        return f"<table><tr>{head}</tr>{rows}</table>"


def _cell(value: JSON) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


class Run:
    """A run's folder: its config, what was measured, and what it has learned."""

    def __init__(self, folder: RunDir) -> None:
        self.folder = folder
        self.path = folder.path
        self.name = folder.name

    @property
    def config(self) -> RunConfig:
        """What the run was told."""
        return self.folder.config()

    @property
    def metrics(self) -> Records:
        """One row for each step."""
        rows, _ = read_metrics(self.folder.metrics_path)
        return Records({"step": r.step, **r.values} for r in rows if r.kind == "step")

    @property
    def evaluations(self) -> dict[int, EvalReport]:
        """Every held-out evaluation, by the steps that were done before it."""
        return read_evaluations(self.folder)

    @property
    def report(self) -> EvalReport | None:
        """The last held-out evaluation; None where there was none."""
        found = self.evaluations
        return found[max(found)] if found else None

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The newest sound checkpoint; None before the first is saved."""
        layout = self.config.checkpoints.layout
        return CheckpointStore(self.path, layout).load_latest().checkpoint

    def plot(self, *names: str) -> "Chart":
        """Metrics over the steps, with held-out success and its interval.

        Args:
            names: Metrics, such as "reward"; the usual ones unless given.
        """
        return plot_run(self, names)

    def __repr__(self) -> str:
        report = self.report
        told = f", {_scored(report)}" if report is not None else ""
        return f"Run({str(self.path)!r}, {len(self.metrics)} steps{told})"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{Records(self.metrics[-5:])._repr_html_()}"


def _scored(report: EvalReport) -> str:
    name, part = report.decisive
    told = f"{name} {part.value:.2f} [{part.low:.2f}, {part.high:.2f}], n = {part.n}"
    return told + beside_success(report, digits=2)


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: shown by a notebook, saved by a script."""

    figure: Any
    """The `matplotlib.figure.Figure`."""

    def save(self, path: str | Path) -> None:
        """Write it to a file whose ending says the form, such as `reward.svg`."""
        self.figure.savefig(path)

    def _repr_png_(self) -> bytes:
        png = io.BytesIO()
        self.figure.savefig(png, format="png")
        return png.getvalue()


def plot_run(run: Run, names: Sequence[str] = ()) -> Chart:
    """See `Run.plot`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.for_extra("plots", "plot()") from None
    rows = run.metrics
    there = [name for name in names or PLOTTED if any(name in row for row in rows)]
    if names and (stray := [name for name in names if name not in there]):
        known = sorted({key for row in rows for key in row})
        raise UserError(f"the run has no metric {stray[0]!r}; it has {', '.join(known)}")
    if not there:
        raise UserError(f"{run.path} has no steps yet; there is nothing to plot")
    figure = Figure(figsize=(3.4 * len(there), 2.6), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(there), squeeze=False)[0], there, strict=True):
        points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
        axis.plot(*zip(*points, strict=True))
        axis.set(title=name, xlabel="step")
        if name in ("success", "reward"):
            for step, report in run.evaluations.items():
                part = report.success if name == "success" else report.reward
                if part is None or not math.isfinite(part.low):
                    continue
                apart = [[part.value - part.low], [part.high - part.value]]
                axis.errorbar([step], [part.value], yerr=apart, fmt="o", color="tab:orange")
    return Chart(figure)


@dataclass(slots=True, kw_only=True)
class TrainingLines:
    """An observer that says a line for each step and evaluation on standard error."""

    steps: int
    is_quiet: bool = False
    warnings: list[str] = field(default_factory=list)
    _failures: FirstFailures = field(init=False)

    def __post_init__(self) -> None:
        """Tell of failures as of anything else."""
        self._failures = FirstFailures(self.warned)

    def observe(self, opened: OpenRun) -> "AbstractContextManager[TrainingLines]":
        """The observer of a run, for the driver."""
        if opened.note:
            self._say(opened.note)
        return nullcontext(self)

    def step_started(self, step: int, episodes: int) -> None:
        """A step begins."""

    def episode_done(self, episode: Episode) -> None:
        """One more episode."""
        self._failures.look_at(episode)

    def step_done(self, step: int, metrics: dict[str, JSON]) -> None:
        """A step is complete."""
        wanted = ("loss", "reward", "success", "heldout_loss", "heldout_in_order")
        numbers = {name: metrics.get(name) for name in wanted}
        said = [f"{k} {v:.3f}" for k, v in numbers.items() if isinstance(v, int | float)]
        self._say(f"step {step} of {self.steps}: {metrics.get('stage', '')} {', '.join(said)}")

    def evaluation_started(self, step: int, episodes: int) -> None:
        """A held-out evaluation begins."""

    def evaluated(self, step: int, report: EvalReport) -> None:
        """A held-out evaluation is complete."""
        self._say(f"held-out after {step} steps: {_scored(report)}")

    def warned(self, sentence: str) -> None:
        """Something the user should know."""
        self.warnings.append(sentence)
        self._say(f"warning: {sentence}")

    def _say(self, line: str) -> None:
        if not self.is_quiet:
            print(line, file=sys.stderr, flush=True)


def check(
    env: EnvLike, *, n: int | None = 20, level: int | None = None, seed: int = 0, **options: Any
) -> EnvironmentCheck:
    """Check that an environment is fit to train on; see `is_sound` and `levels` of what is given.

    Every task's reference must earn full marks, doing nothing and random play must not, and
    sessions must keep their contract.

    Args:
        env: Its class, its name, `FILE.py:Name` or `module:Name`.
        n: Tasks at each level; None takes all there are.
        level: One level; every level unless given.
        seed: Decides which tasks they are.
        options: The environment's own.
    """
    if level is not None:
        options["level"] = level
    config = EnvConfig(**env_values(env), **options)
    return run_to_end(check_config(config, n, seed, _Unwatched()))


class _Unwatched:
    def begin(self, tasks: int) -> None:
        """See `CheckWatcher`."""

    def task_done(self) -> None:
        """See `CheckWatcher`."""

    def level_done(self, level: LevelCheck) -> None:
        """See `CheckWatcher`."""


async def train_async(
    env: EnvLike | None = None,
    *,
    name: str | None = None,
    resume: str | Path | None = None,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train a run to its end, in the event loop that awaits this.

    Args:
        env: A class, a name, `FILE.py:Name`, `module:Name`; or a config file, `FILE.yaml`. None
            where the run learns from recorded examples alone, or goes on.
        name: What to call the run's folder.
        resume: The run to go on with; or its checkpoint, such as `runs/a/step_10`, as a new run.
        quiet: Whether nothing is said on standard error.
        options: Keys of the config, such as `model="tiny"`, `algorithm={"name": "ppo"}`, or
            dotted ones: `**{"algorithm.lr": 1e-4}`.
    """
    run = None
    if resume is not None:
        config, run = resumed_config(resume, as_words(options), name)
    else:
        config = config_of(env, options)
    lines = TrainingLines(steps=config.steps, is_quiet=quiet)
    trained: TrainedRun = await train_run_async(config, lines.observe, name=name, resumed=run)
    return Run(trained.run)


def train(env: EnvLike | None = None, **options: Any) -> Run:
    """As `train_async`, from code that awaits nothing; works in a notebook too."""
    return run_to_end(train_async(env, **options))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Held-out scores of a policy, and of another one on the same tasks where that was asked."""

    report: EvalReport
    against: EvalReport | None = None
    comparison: Comparison | None = None
    kept: str = ""
    """The file that failed episodes are kept in; empty where none failed."""

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=100, force_jupyter=False)
        console.print(render_report(self.report))
        if self.against is not None and self.comparison is not None:
            console.print(render_comparison(self.report, self.against, self.comparison))
        if self.kept:
            console.print(find_masked(self.kept), soft_wrap=True)
        return str(console.file.getvalue())  # type: ignore[attr-defined]  # it is a StringIO

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def evaluate(
    policy: "Run | str | Path",
    *,
    n: int = 100,
    k: int = 1,
    temperature: float | None = None,
    against: "Run | str | Path | None" = None,
    env: EnvLike | None = None,
    quiet: bool = False,
    **options: Any,
) -> Evaluated:
    """Held-out scores with 95 % intervals, and a paired comparison with another policy.

    Args:
        policy: A run, a checkpoint, a model, `reference` or `random`.
        n: Held-out tasks.
        k: Attempts at each.
        temperature: 0 takes the likeliest action; the default where k is 1, else 1.
        against: What to compare with on the same tasks; `base` is the run's model.
        env: Where to act; a run's own environment unless given.
        quiet: Whether nothing is said on standard error.
        options: Keys of the config, such as `**{"env.level": 2}`.
    """
    cold = float(k > 1) if temperature is None else temperature
    words = [f"eval.n={n}", f"eval.k={k}", f"eval.temperature={cold}", *as_words(options)]
    config = policy_config(policy_name(policy), env, words)
    environment = open_environment(config.env)
    heldout_tasks(environment, config.eval.n, config.eval.seed)  # before a model is loaded

    kept = ""

    def evaluated(named: str) -> EvalReport:
        if not quiet:
            print(f"evaluating {named} on {n} held-out tasks", file=sys.stderr, flush=True)
        handle = open_policy(named, config, environment)
        told = FirstFailures(lambda sentence: None if quiet else print(sentence, file=sys.stderr))

        def keep(groups: Sequence[Group]) -> None:
            nonlocal kept
            kept = keep_evaluated(groups, handle.fingerprint).path or kept

        work = evaluate_policy(handle, environment, config, told.look_at, named, on_groups=keep)
        return _act(environment, work).report

    report = evaluated(policy_name(policy))
    if against is None:
        return Evaluated(report=report, kept=kept)
    other = evaluated(config.model.name if against == "base" else policy_name(against))
    gained = compare_reports(report, other)
    return Evaluated(report=report, against=other, comparison=gained, kept=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One episode, readable turn by turn."""

    episode: Episode

    @property
    def reward(self) -> float | None:
        """What it earned; None where it could not be scored."""
        return self.episode.score.value

    @property
    def success(self) -> bool | None:
        """Whether the task was done; None where nobody can say."""
        return self.episode.outcome.success if self.episode.outcome else None

    def __str__(self) -> str:
        said = [f"{m.role}: {m.content}" for m in self.episode.trace.messages()]
        earned = "not scored" if self.reward is None else f"reward {self.reward:g}"
        return "\n".join([*said, f"success {self.success}, {earned}"])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def play(
    policy: "Run | str | Path",
    task: str | None = None,
    *,
    env: EnvLike | None = None,
    temperature: float = 0.0,
    seed: int = 0,
    **options: Any,
) -> Played:
    """One episode of a policy.

    Args:
        policy: A run, a checkpoint, a model, `reference` or `random`.
        task: A task's id or text, such as `3x + 7 = 16`; the first held-out task unless given.
        env: Where to act; a run's own environment unless given.
        temperature: 0 takes the likeliest action.
        seed: Which task, and which way chance falls.
        options: Keys of the config.
    """
    words = [f"eval.temperature={temperature}", *as_words(options)]
    config = policy_config(policy_name(policy), env, words)
    environment = open_environment(config.env)
    chosen = choose_task(config.env, environment, task, seed)
    handle = open_policy(policy_name(policy), config, environment)
    work = play_once(handle, environment, chosen, config, seed)
    return Played(episode=_act(environment, work))


def load(run: str | Path, runs_dir: str | Path = RUNS) -> Run:
    """A run by its folder, its name in `runs_dir`, or `latest`."""
    return Run(find_run(run, Path(runs_dir)))


def trust(*what: str | Path) -> None:
    """Agree that code of a config, a run or a file may run, as `practicum trust` does.

    Args:
        what: Python files, configs, runs, folders of your own, or `module:NAME`.
    """
    for one in what:
        remember(consents_of(str(one)), must=True)


def models() -> Records:
    """Known models, where they come from, and whether they are here."""
    from practicum.engine.models.loading import list_models

    return Records(asdict(one) for one in list_models())


def _act(environment: Environment, work: Awaitable[T]) -> T:
    """Run what is done with an environment to its end, and close the environment."""
    return run_to_end(run_and_close(environment, work))


def env_values(env: EnvLike) -> dict[str, Any]:
    """What a config says of an environment: of one, or of several that are practised together."""
    if isinstance(env, str) and env.lstrip().startswith("["):
        env = apply_overrides({}, [f"env={env}"])["env"]
    if isinstance(env, list | tuple):
        return several([env_values(one) for one in env])
    values = dict(env) if isinstance(env, Mapping) else {"name": env}
    remember(consents_to(values))  # the caller's own word
    return {key: register(one) if callable(one) else one for key, one in values.items()}


def config_of(env: EnvLike | None, options: Mapping[str, Any]) -> RunConfig:
    """The config that an environment and keyword options come to."""
    return build_config(apply_overrides(_run_values(env), as_words(options)), "train")


def _run_values(env: EnvLike | None) -> dict[str, Any]:
    """What a config starts from: a file, an environment, or nothing."""
    if isinstance(env, str) and Path(env).suffix in (".yaml", ".yml"):
        return config_file(env)
    return {} if env is None else {"env": env_values(env)}


def as_words(options: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as `key=value` words; JSON is YAML. Code is named as a config names it."""
    remember(consents_to(options))  # the caller's own word
    return [f"{key}={json.dumps(value, default=_named)}" for key, value in options.items()]


def _named(value: Any) -> str:
    if callable(value) or isinstance(value, Reward):
        return register(value)
    if isinstance(value, Path):
        return str(value)
    raise ConfigError(
        f"{value!r} cannot be part of a config; give text, a number, a list, a dict, a function or "
        "a class"
    )


def policy_name(policy: "Run | str | Path") -> str:
    """The word that names a policy on a command line."""
    return str(policy.path if isinstance(policy, Run) else policy)


# What a user types on a command line to name a policy.


def find_checkpoint(policy: str) -> Resolved | None:
    """The checkpoint a word names; None when it names a model or a scripted policy instead."""
    if policy in SCRIPTED_POLICIES:
        return None
    places = ((path := Path(policy)), RUNS / path)
    candidates = [folder for place in places for folder in (place, place.parent)]
    candidates.append(path.parent.parent)
    named_run = policy.split("/")[0] == "latest" or any(RunDir.is_run(p) for p in candidates)
    is_checkpoint = (path / "manifest.json").exists() or is_adapter_folder(path)
    if named_run or is_checkpoint or _is_among_runs(path):
        return resolve_checkpoint(policy, RUNS)
    return None


def _is_among_runs(path: Path) -> bool:
    """Whether a path that is not there would be a run's: it could also be a hub id."""
    if path.exists() or len(path.parts) < 2:
        return False
    return path.parent == RUNS or bool(list_runs(path.parent))


def policy_config(policy: str, env: EnvLike | None, overrides: Sequence[str]) -> RunConfig:
    """The config to act under: the run's own where the policy is one, otherwise the defaults."""
    found = find_checkpoint(policy)
    run = found.run if found is not None else None
    if run is not None:
        values = run.config().model_dump()
        if env is not None and env != run.config().env_name:
            values["env"] = env_values(env)
    elif env is None:
        raise UserError(f"say where {policy!r} is to act: add --env math")
    else:
        values = {"env": env_values(env)}
    if found is not None:
        values["model"] = {
            **(values.get("model") or {}),
            "name": base_of_adapter(found.checkpoint.path),
        }
    elif policy not in SCRIPTED_POLICIES:
        values["model"] = {"name": policy}
    return build_config(apply_overrides(values, overrides), "the command line")


def open_policy(policy: str, config: RunConfig, environment: Environment) -> PolicyHandle:
    """Load what a word names, ready to act."""
    if policy in SCRIPTED_POLICIES:
        return scripted_policy(policy, environment)
    found = find_checkpoint(policy)
    temperature = config.eval.temperature
    if found is None:
        named = ModelConfig(name=policy)
        model = config.model if config.model.name == named.name else named
        return load_policy(model, None, config.rollouts, temperature)
    base = base_of_adapter(found.checkpoint.path)
    model = config.model.model_copy(update={"name": base})
    return load_policy(model, found.checkpoint.path, config.rollouts, temperature)
