"""A model, what it is to learn from, the learning, and a look at what it learned: four calls."""

import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from practicum.assemble import (
    BuildOptions,
    DatasetSource,
    TrainedRun,
    ask,
    build_dataset,
    build_policy,
    open_environment,
    placement,
    play_task,
    run_and_close,
    train_run,
    write_dataset,
)
from practicum.core.config import RunConfig, apply_overrides, build_config
from practicum.core.errors import UserError
from practicum.core.interfaces import Environment
from practicum.pipeline.lines import TrainingLines
from practicum.pipeline.methods import check_method, learns_from_traces
from practicum.store import read_metrics

__all__ = ["AgenticTrainer", "TrainingData"]

Row = Mapping[str, Any]
"""A conversation, with the columns of a dataset: `messages`, or `prompt` and `completion`; and
`label` or `reward` where they are known."""


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
        losses = trainer.train(dataset)
        results = trainer.test_inference(["Solve for x: 3x + 7 = 16"])
        ```

    Args:
        model: A known name, a hub id, a folder or a .gguf file.
        method: `sft`, `weighted_sft`, `kto` or `dpo`.
        env: Where the policy is evaluated and its inference tested; without one it is only asked.
        runs_dir: Folder that holds datasets and runs.
        overrides: Words as `practicum train` takes them, such as `algorithm.lr=1e-4`.
    """

    def __init__(
        self,
        model: str = "smollm2-135m",
        method: str = "sft",
        *,
        env: str | Mapping[str, Any] | None = None,
        runs_dir: str | Path = "runs",
        overrides: Sequence[str] = (),
    ) -> None:
        self.method = check_method(method)
        if not learns_from_traces(self.method):
            raise UserError(
                f"{self.method} learns from episodes it makes, and AgenticTrainer from recorded "
                "ones; choose sft, weighted_sft, kto or dpo, or use TrainingPipeline"
            )
        self.model = model
        self.env = env
        self.runs_dir = Path(runs_dir)
        self.run: Path | None = None
        """Folder of the last run."""
        self._overrides = list(overrides)
        self._policy: Any = None
        self._is_trained = False

    def setup_model(self) -> tuple[Any, Any, str]:
        """Load the model with a fresh adapter; gives it, its tokenizer and its device."""
        config = self._config(source="none yet")
        self._policy, self._is_trained = build_policy(config), False
        _, device = placement(config.model)
        return self._policy.model, self._policy.tokenizer, device

    def prepare_training_data(
        self, trajectories: str | Path | Sequence[Row], *, heldout: float = 0.0
    ) -> TrainingData:
        """Make a training set of the kind that the method takes.

        Args:
            trajectories: A store of traces, a run, a dataset; or conversations themselves.
            heldout: Share of the tasks kept apart, on which the loss is reported.
        """
        weighted = self.method == "weighted_sft"
        kind: Any = "sft" if weighted else self.method
        options = BuildOptions(kind=kind, only="all" if weighted else None, heldout=heldout)
        with tempfile.TemporaryDirectory(prefix="practicum-") as folder:
            name = str(trajectories)
            if not isinstance(trajectories, str | Path):
                name = str(_write_rows(Path(folder) / "trajectories.jsonl", trajectories))
            source = DatasetSource(
                name=name, runs_dir=self.runs_dir, unmarked=True if kind == "sft" else None
            )
            built = asyncio.run(build_dataset(source, options))
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
    ) -> list[float]:
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
        trained: TrainedRun = train_run(config, lines, name=name, policy=self._policy)
        self._policy, self._is_trained = trained.policy, True
        self.run = trained.run.path
        rows, _ = read_metrics(trained.run.metrics_path)
        losses = [row.values["loss"] for row in rows if row.kind == "step"]
        return [float(loss) for loss in losses if isinstance(loss, int | float)]

    def test_inference(self, problems: Sequence[str]) -> list[dict[str, Any]]:
        """What the model makes of problems as it is now: answers, or episodes where it can act."""
        if self._policy is None:
            self.setup_model()
        config = self._config(source="none yet")
        if not config.acts:
            return [
                {"problem": one, "response": asyncio.run(ask(self._policy, config, one))}
                for one in problems
            ]
        environment = open_environment(config.env)
        return asyncio.run(run_and_close(environment, self._played(config, environment, problems)))

    async def _played(
        self, config: RunConfig, environment: Environment, problems: Sequence[str]
    ) -> list[dict[str, Any]]:
        found = []
        for problem in problems:
            episode = await play_task(self._policy, config, environment, problem)
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

    def _config(self, source: str, steps: int = 1) -> RunConfig:
        values: dict[str, Any] = {
            "env": self.env or "none",
            "model": self.model,
            "runs_dir": str(self.runs_dir),
            "steps": steps,
            "algorithm": self.method,
            "data": source,
        }
        return build_config(apply_overrides(values, self._overrides), "AgenticTrainer")


def _write_rows(path: Path, rows: Sequence[Row]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for number, row in enumerate(rows, 1):
            if not isinstance(row, Mapping):
                raise UserError(
                    f"trajectory {number} is {type(row).__name__}, not a conversation; give "
                    "{'messages': [...]}, or the name of a store or a dataset"
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
