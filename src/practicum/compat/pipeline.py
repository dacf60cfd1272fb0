"""Training from Python, with the whole way in one call or in four."""

import gc
import json
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from practicum.api import Run, TrainingLines, run_to_end
from practicum.assemble.build_policy import build_policy, fitting_plan
from practicum.assemble.datasets import build_dataset
from practicum.assemble.driver import TrainedRun, ask, play_tasks, train_run
from practicum.assemble.environments import training_tasks
from practicum.assemble.policies import human_policy
from practicum.compat.trace_pipeline import usual_reward
from practicum.core.checkpoint import EvalReport, Interval
from practicum.core.config.algorithm_config import ALGORITHMS
from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.config.run_config import REFERENCE, RunConfig
from practicum.core.errors import ConfigError, PracticumError, UserError
from practicum.core.sample import Episode
from practicum.traces.datasets.build import BuildOptions, Kind
from practicum.traces.datasets.dataset_writing import write_dataset
from practicum.traces.datasets.sources import DatasetSource


def check_method(method: str) -> str:
    """A method's name as it is written in configs; `GRPO` is `grpo`."""
    name = method.lower()
    if name not in ALGORITHMS:
        raise ConfigError(f"method {method!r} is not known; choose one of {', '.join(ALGORITHMS)}")
    return name


def learns_from_traces(method: str) -> bool:
    """Whether a method learns from what was recorded rather than from episodes it makes."""
    return ALGORITHMS[method].is_offline


def method_for_traces(method: str) -> str:
    """What learns from recorded groups where `grpo`, which acts, has nowhere to act."""
    return "offline_grpo" if method == "grpo" else method


Row = Mapping[str, Any]
"""A conversation, with the columns of a dataset: `messages`, or `prompt` and `completion`; and
`label` or `reward` where they are known. Or a `problem` and the `actions` that were taken."""


class Losses(list[float]):
    """The loss of each step. It may be awaited, by code that is written for a trainer that must."""

    def __await__(self) -> Generator[None, None, "Losses"]:
        yield from ()  # it is there already: training has ended
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingData:
    """A training set that lies in a folder."""

    path: Path
    rows: int
    heldout: int
    left_out: Mapping[str, int]
    """How many conversations did not get into it, by reason."""

    def __len__(self) -> int:
        return self.rows


class AgenticTrainer:
    """Trains a model on conversations, step by step from Python.

    Example:
        ```
        trainer = AgenticTrainer("tiny")
        model, tokenizer, device = trainer.setup_model()
        dataset = trainer.prepare_training_data(trajectories)
        losses = trainer.train(dataset)  # or: await trainer.train(dataset)
        results = trainer.test_inference(["Solve for x: 3x + 7 = 16"])
        ```

    Args:
        model: A known name, a hub id, a folder or a .gguf file.
        method: `sft`, `weighted_sft`, `kto`, `dpo` or `offline_grpo`.
        domain: Where the policy acts and is evaluated, such as `math`, `code` or
            `mine.py:MyEnvironment`; without one it is only asked.
        env: The same, by its other name.
        runs_dir: Folder that holds datasets and runs.
        overrides: Words as `practicum train` takes them, such as `algorithm.lr=1e-4`.
    """

    def __init__(
        self,
        model: str = "smollm2-135m",
        method: str = "sft",
        *,
        domain: str | Mapping[str, Any] | None = None,
        env: str | Mapping[str, Any] | None = None,
        runs_dir: str | Path = "runs",
        overrides: Sequence[str] = (),
    ) -> None:
        self.method = check_method(method)
        if domain is not None and env is not None:
            raise UserError(
                f"domain={domain!r} and env={env!r} are two names of one thing; give one of them"
            )
        if not learns_from_traces(self.method):
            raise UserError(
                f"{self.method} learns from episodes it makes, and AgenticTrainer from recorded "
                "ones; choose sft, weighted_sft, kto, dpo or offline_grpo, or use TrainingPipeline"
            )
        self.model = model
        self.env = domain if domain is not None else env
        self.runs_dir = Path(runs_dir)
        self.run: Path | None = None
        """Folder of the last run."""
        self._overrides = list(overrides)
        self._policy: Any = None
        self._is_trained = False

    def setup_model(self) -> tuple[Any, Any, str]:
        """Load the model with a fresh adapter; gives it, its tokenizer and its device."""
        config = self._config(source="none yet")
        self._policy = None
        gc.collect()  # an earlier model is gone before the memory of this one is planned
        self._policy, self._is_trained = build_policy(config, fitting_plan(config)), False
        model = self._policy.model
        return model, self._policy.tokenizer, model.device.type

    def prepare_training_data(
        self, trajectories: str | Path | Sequence[Row], *, heldout: float = 0.0
    ) -> TrainingData:
        """Make a training set of the kind that the method takes.

        Args:
            trajectories: A store of traces, a run, a dataset, or `reference` for the solutions of
                `env`; or conversations themselves; or
                `{"problem": ..., "actions": [...]}`, whose actions are played in the domain where
                there is one, so that only what it accepts and scores is learned; or the lists of
                actions alone, which are played on the domain's training tasks in their order, the
                first list on the first task that `practicum tasks` shows.
            heldout: Share of the tasks kept apart, on which the loss is reported.
        """
        weighted = self.method == "weighted_sft"
        kinds: dict[str, Kind] = {"sft": "sft", "kto": "kto", "dpo": "dpo", "offline_grpo": "grpo"}
        kind = kinds.get(self.method, "sft")
        options = BuildOptions(kind=kind, only="all" if weighted else None, heldout=heldout)
        with tempfile.TemporaryDirectory(prefix="practicum-") as folder:
            name = str(trajectories)
            if name == REFERENCE and self.env is None:
                raise UserError(
                    "'reference' plays the solutions of an environment; name one: "
                    "AgenticTrainer(..., domain='math')"
                )
            if not isinstance(trajectories, str | Path):
                rows = [self._as_conversation(row) for row in self._with_problems(trajectories)]
                name = str(_write_rows(Path(folder) / "trajectories.jsonl", rows))
            source = DatasetSource(
                name=name,
                runs_dir=self.runs_dir,
                unmarked=True if kind == "sft" else None,
                env=self._config(source="none yet").env if name == REFERENCE else None,
            )
            built = run_to_end(build_dataset(source, options))
        reasons = built.left_out.counts
        if not built.train:
            said = ", ".join(f"{n} ({reason})" for reason, n in reasons.items()) or "it is empty"
            raise UserError(f"the trajectories have nothing {self.method} could learn from: {said}")
        out = _free_folder(self.runs_dir / "datasets", self.method)
        write_dataset(built, out, form="jsonl", question={"kind": kind, "from": name})
        return TrainingData(
            path=out, rows=len(built.train), heldout=len(built.heldout), left_out=reasons
        )

    def train(
        self,
        dataset: TrainingData | str | Path,
        *,
        steps: int = 30,
        name: str | None = None,
        quiet: bool = False,
    ) -> Losses:
        """Train a fresh adapter on a training set; gives the loss of each step.

        Args:
            dataset: What `prepare_training_data` or `practicum dataset build` made.
            steps: Updates of the adapter.
            name: What to call the run's folder.
            quiet: Whether nothing is said on standard error.
        """
        path = dataset.path if isinstance(dataset, TrainingData) else Path(dataset)
        config = self._config(source=str(path), steps=steps)
        if self._is_trained:
            self.setup_model()
        lines = TrainingLines(steps=config.steps, is_quiet=quiet)
        trained: TrainedRun = train_run(config, lines.observe, name=name, policy=self._policy)
        self._policy, self._is_trained = trained.policy, True
        self.run = trained.run.path
        losses = [row["loss"] for row in Run(trained.run).metrics]
        return Losses(float(loss) for loss in losses if isinstance(loss, int | float))

    def test_inference(self, problems: Sequence[str]) -> list[dict[str, Any]]:
        """What the model makes of problems as it is now: answers, or episodes where it can act."""
        if self._policy is None:
            self.setup_model()
        config = self._config(source="none yet")
        if not config.acts:
            return [
                {"problem": one, "response": run_to_end(ask(self._policy, config, one))}
                for one in problems
            ]
        found = []
        episodes = run_to_end(play_tasks(self._policy, config, problems))
        for problem, episode in zip(problems, episodes, strict=True):
            said = [m.content for m in episode.trace.messages() if m.role == "assistant"]
            success = episode.outcome.success if episode.outcome else None
            found.append(
                {
                    "problem": problem,
                    "response": "\n".join(said),
                    "actions": said,
                    "success": success,
                    "reward": episode.score.value,
                }
            )
        return found

    def _with_problems(self, rows: Sequence[Any]) -> list[Any]:
        """The rows, with lists of actions given the problems they are for."""
        bare = [at for at, row in enumerate(rows) if isinstance(row, list | tuple)]
        if not bare:
            return list(rows)
        if self.env is None:
            raise UserError(
                f"trajectory {bare[0] + 1} is a list of actions, and it is not known what for; "
                "give {'problem': ..., 'actions': [...]}, or name the domain whose training tasks "
                "the lists are for, in their order: AgenticTrainer(..., domain='math')"
            )
        tasks = training_tasks(self._config(source="none yet").env, len(rows))
        if len(tasks) < len(rows):
            raise UserError(
                f"there are {len(rows)} trajectories and {len(tasks)} training tasks, so the lists "
                "of actions cannot be given their problems; give {'problem': ..., 'actions': [...]}"
            )
        return [
            {"problem": task.id, "actions": list(row)} if isinstance(row, list | tuple) else row
            for task, row in zip(tasks, rows, strict=True)
        ]

    def _as_conversation(self, row: Any) -> Any:
        """A row of actions as the conversation they make; any other row as it is."""
        row = asdict(row) if is_dataclass(row) and not isinstance(row, type) else row
        if not isinstance(row, Mapping) or "actions" not in row:
            return row
        problem, actions = str(row.get("problem") or row.get("prompt") or ""), row["actions"]
        taken = [str(one.get("action", "") if isinstance(one, Mapping) else one) for one in actions]
        if not problem or not taken or not all(taken):
            raise UserError(
                "a trajectory of actions has 'problem', a text, and 'actions', a list of texts or "
                "of {'action': ..., 'result': ...}"
            )
        if self.env is not None:
            limit = f"rollouts.max_turns={len(taken)}"
            config = self._config(source="none yet", more=[limit])
            handle = human_policy(_saying(taken))
            [episode] = run_to_end(play_tasks([handle], config, [problem]))
            return _acted(episode)
        messages = [{"role": "user", "content": problem}]
        for text, one in zip(taken, actions, strict=True):
            messages.append({"role": "assistant", "content": text})
            if isinstance(one, Mapping) and one.get("result"):
                messages.append({"role": "user", "content": str(one["result"])})
        if messages[-1]["role"] == "user":
            messages.pop()  # nothing was done after it
        return {"messages": messages, **{k: row[k] for k in ("label", "reward") if k in row}}

    def _config(self, source: str, steps: int = 1, more: Sequence[str] = ()) -> RunConfig:
        values: dict[str, Any] = {
            "env": self.env,
            "model": self.model,
            "runs_dir": str(self.runs_dir),
            "steps": steps,
            "algorithm": self.method,
            "data": source,
        }
        words = [*self._overrides, *more]
        return build_config(apply_overrides(values, words), "AgenticTrainer")


def _saying(turns: Sequence[str]) -> Callable[[Any], str]:
    remaining = iter(turns)
    return lambda actions: next(remaining)


def _acted(episode: Episode) -> dict[str, Any]:
    """An episode as a row: what was said, whether it came right, what it earned."""
    said = [{"role": m.role, "content": m.content} for m in episode.trace.messages()]
    success = episode.outcome.success if episode.outcome else None
    found: dict[str, Any] = {"messages": said, "task_id": episode.trace.task_id}
    return found | {
        key: value
        for key, value in (("label", success), ("reward", episode.score.value))
        if value is not None
    }


def _write_rows(path: Path, rows: Sequence[Row]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows, 1):
            if not isinstance(row, Mapping):
                raise UserError(
                    f"trajectory {number} is {type(row).__name__}, not a conversation; give "
                    "{'messages': [...]}, or {'problem': ..., 'actions': [...]}, or the name of a "
                    "store or a dataset"
                )
            try:
                file.write(json.dumps(dict(row)) + "\n")
            except TypeError as error:
                raise UserError(
                    f"trajectory {number} cannot be written as JSON ({error}); give plain values"
                ) from None
    return path


def _free_folder(parent: Path, name: str) -> Path:
    return next(p for n in count(1) if not (p := parent / f"{name}-{n}").exists())


RESULTS = "pipeline_results.json"
STORE = Path("traces.sqlite")
"""Where `practicum.record` and `practicum traces import` put traces unless told."""
DEPLOYED_TASKS = 20
"""Held-out tasks on which what is deployed is compared with what was trained."""
WARM_START = "sft"
"""What an agent's good traces are learned by, before a method that learns from acting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """What one call of the pipeline is told."""

    traces: tuple[str, ...] = ()
    """Files or folders that are imported first."""
    env: str | Mapping[str, Any] | None = None
    where: str = ""
    reward: Mapping[str, Any] | str | None = None
    steps: int = 30
    heldout: float = 0.1


class TrainingPipeline:
    """Everything from an agent's traces to an adapter: what `practicum train` does with a config.

    Example:
        ```
        pipeline = TrainingPipeline(agent_name="isaa", base_model="tiny", method="kto")
        results = pipeline.run_full_pipeline(traces="examples/traces")
        print(results["checkpoint"], results["heldout"])
        ```

    Args:
        agent_name: What the run is called, with a number where there is one already.
        base_model: A known name, a hub id, a folder or a .gguf file.
        method: `sft`, `weighted_sft`, `kto`, `dpo` and `offline_grpo` learn from traces; `grpo`,
            `ppo` and the others act in an environment, after `sft` on the good traces where there
            are any. Without an environment `grpo` is `offline_grpo`, on answers to the same
            question, scored by the rewards of `compat.RewardEngine` unless `reward` is given.
        runs_dir: Folder that holds runs.
        store: The agent's traces; what is imported goes there.
    """

    def __init__(
        self,
        agent_name: str,
        base_model: str = "smollm2-135m",
        method: str = "kto",
        *,
        runs_dir: str | Path = "runs",
        store: str | Path = STORE,
    ) -> None:
        self.agent_name = agent_name
        self.base_model = base_model
        self.method = check_method(method)
        self.runs_dir = Path(runs_dir)
        self.store = Path(store)

    def run_full_pipeline(
        self,
        traces: str | Path | Sequence[str | Path] = (),
        *,
        env: str | Mapping[str, Any] | None = None,
        deploy_ollama: bool = False,
        overrides: Sequence[str] = (),
        quiet: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """Import, score, build, train, evaluate; what came of it, also in `pipeline_results.json`.

        Args:
            traces: Files or folders to import first; without any the store is used as it is.
            env: Where the policy acts and is evaluated; without one it learns from traces alone.
            deploy_ollama: Whether the model is exported for Ollama after training and, where Ollama
                is here, made known to it; where that fails, the results say why and what to type.
            overrides: Words as `practicum train` takes them, such as `algorithm.lr=1e-4`.
            quiet: Whether nothing is said on standard error.
            options: `steps`, `heldout`, `where` and `reward`, as in a config.
        """
        paths = [traces] if isinstance(traces, str | Path) else traces
        try:
            asked = PipelineOptions(traces=tuple(map(str, paths)), env=env, **options)
        except TypeError as error:
            known = "steps, heldout, where, reward"
            raise UserError(f"run_full_pipeline: {error}; it takes {known} besides") from None
        config = self._config(asked, overrides)
        lines = TrainingLines(steps=config.steps, is_quiet=quiet)
        trained = train_run(config, lines.observe, name=_free_name(self.runs_dir, self.agent_name))
        results = self._results(config, trained, lines)
        if deploy_ollama:
            results["deployment"] = deployed = self._deploy(trained.run.path, env)
            if not deployed["done"]:
                lines.warned(deployed["reason"])
        path = trained.run.path / RESULTS
        path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        return results

    def _config(self, asked: PipelineOptions, overrides: Sequence[str]) -> RunConfig:
        values: dict[str, Any] = {
            "env": asked.env,
            "model": self.base_model,
            "runs_dir": str(self.runs_dir),
        }
        method = method_for_traces(self.method) if asked.env is None else self.method
        if method != self.method and asked.reward is None:
            asked = replace(asked, reward=usual_reward())
        offline = learns_from_traces(method)
        if not offline and asked.env is None:
            raise UserError(
                f"{method} learns from episodes it makes; give env='shell' or another "
                "environment, or choose method='kto' or 'grpo', which learn from traces alone"
            )
        has_traces = bool(asked.traces) or self.store.exists()
        if offline and not has_traces:
            raise UserError(
                f"there are no traces of {self.agent_name!r}: {self.store} is not there; record "
                "some with practicum.record, or give traces='FILE'"
            )
        if offline:
            values |= {"steps": asked.steps, "algorithm": method, "data": self._data(asked)}
        elif has_traces:
            warm = {"steps": asked.steps, "algorithm": WARM_START, "data": self._data(asked)}
            values["stages"] = [warm, {"steps": asked.steps, "algorithm": method}]
        else:
            values |= {"steps": asked.steps, "algorithm": method}
        return build_config(apply_overrides(values, list(overrides)), "run_full_pipeline")

    def _data(self, asked: PipelineOptions) -> dict[str, Any]:
        data = {
            "source": str(self.store),
            "imports": list(asked.traces),
            "where": asked.where,
            "heldout": asked.heldout,
        }
        return data if asked.reward is None else {**data, "reward": asked.reward}

    def _deploy(self, run: Path, env: str | Mapping[str, Any] | None) -> dict[str, Any]:
        from practicum.workflows.exports import create_in_ollama, export

        folder, tag = run / "ollama", f"toolbox-{self.agent_name.lower()}"
        try:
            options: dict[str, Any] = {"env": env} if env else {}
            export(str(run), "ollama", folder, n=DEPLOYED_TASKS, **options)
            made = create_in_ollama(folder, tag)
        except PracticumError as error:  # the training is done, and stays
            return {"done": False, "tag": tag, "folder": str(folder), "reason": str(error)}
        return {"done": True, "tag": made[0], "folder": str(folder), "run": f"ollama run {made[0]}"}

    def _results(
        self, config: RunConfig, trained: TrainedRun, lines: TrainingLines
    ) -> dict[str, Any]:
        run = Run(trained.run)
        steps, found = run.metrics, run.checkpoint
        return {
            "agent_name": self.agent_name,
            "base_model": self.base_model,
            "method": self.method,
            "run": str(trained.run.path),
            "checkpoint": str(found.path) if found else None,
            "interrupted": trained.result.interrupted,
            "stages": [stage.algorithm.name for stage in config.all_stages],
            "losses": [step.get("loss") for step in steps],
            "heldout": _heldout(steps),
            "evaluations": {
                str(step): _evaluation(report) for step, report in trained.result.reports.items()
            },
            "warnings": list(lines.warnings),
            "deployment": None,
        }


def _heldout(steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of held-out rows: before a stage and last."""
    found: dict[str, Any] = {}
    for step in steps:
        found |= {name: value for name, value in step.items() if name.startswith("heldout_")}
    return found


def _evaluation(report: EvalReport) -> dict[str, Any]:
    def interval(part: Interval) -> dict[str, Any]:
        return {"value": part.value, "low": part.low, "high": part.high, "n": part.n}

    known, failed = report.success, report.success_if_masked_failed
    return {
        "success": interval(known) if known else None,
        "success_if_masked_failed": interval(failed) if failed else None,
        "masked": report.masked,
        "reward": interval(report.reward),
    }


def _free_name(runs_dir: Path, agent: str) -> str:
    """The agent's name, with a number where a run has it already."""
    name, number = agent, 1
    while (runs_dir / name).exists():
        number += 1
        name = f"{agent}-{number}"
    return name
