import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from practicum.core.checkpoint import EvalReport, Interval, LoopState
from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog, read_metrics
from practicum.store.trace_store import SqliteTraceStore
from practicum.training.curriculum import TaskStream
from practicum.training.loop import Trainer, TrainingParts
from practicum.training.stages import StepResult, TrainingStage, stage_at

CONFIG = build_config(
    {
        "env": "math",
        "eval": {"every": 0, "before": False},
        "checkpoints": {"every": 2, "keep": 9},
        "stages": [
            {"steps": 3, "algorithm": "sft", "data": "reference"},
            {"steps": 2, "algorithm": "grpo"},
        ],
    }
)


@dataclass
class Journal:
    """Everything that happened, in order."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)

    def note(self, *what: Any) -> None:
        self.rows.append(what)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """An observer that looks away."""
        return lambda *_: None


@dataclass
class Learner:
    journal: Journal

    def scale_rate(self, share: float) -> None:
        pass

    def retune(self, settings: Any) -> None:
        self.journal.note("retune", settings)

    def fingerprint(self) -> str:
        return "weights"

    def save(self, folder: Path) -> None:
        (folder / "weights").write_text("weights")


@dataclass
class Source:
    name: str
    journal: Journal
    episodes_expected: int = 0

    async def gather(self, step: int) -> str:
        return f"{self.name} {step}"

    def learn(self, step: int, material: str) -> StepResult:
        self.journal.note("learn", material)
        return StepResult(report=None, metrics={"seen": material})


class Sampler:
    def forget(self) -> None:
        pass


def stages(journal: Journal) -> list[TrainingStage]:
    return [
        TrainingStage(name="sft", first=1, steps=3, source=Source("a", journal), settings="slow"),
        TrainingStage(name="grpo", first=4, steps=2, source=Source("b", journal), settings="fast"),
    ]


def report() -> EvalReport:
    half = Interval(value=0.5, low=0.4, high=0.6, n=4, method="wilson")
    return EvalReport(
        policy="p",
        env="math",
        fingerprint="weights",
        seed=0,
        attempts_per_task=1,
        success=half,
        reward=half,
    )


def train(folder: Path, journal: Journal, state: LoopState, config: RunConfig = CONFIG) -> Any:
    async def evaluate(step: int) -> EvalReport:
        journal.note("evaluate", step)
        return report()

    with (
        EventLog(folder / "metrics.jsonl", attempt=1, from_step=state.step) as metrics,
        SqliteTraceStore(folder / "traces.sqlite") as traces,
    ):
        parts = TrainingParts(
            config=config,
            stages=stages(journal),
            sampler=Sampler(),  # type: ignore[arg-type]
            learner=Learner(journal),  # type: ignore[arg-type]
            curriculum=TaskStream(lambda: iter(())),
            metrics=metrics,
            traces=traces,
            checkpoints=CheckpointStore(folder),
            evaluate=evaluate,
            earlier_reports={},
            observer=journal,  # type: ignore[arg-type]
        )
        return asyncio.run(Trainer(parts, state).run())


def test_a_step_belongs_to_the_stage_that_it_lies_in() -> None:
    found = stages(Journal())
    assert [stage_at(found, step).name for step in (1, 3, 4, 5)] == ["sft", "sft", "grpo", "grpo"]
    assert stage_at(found, 9).name == "grpo"
    assert [stage.last for stage in found] == [3, 5]


def test_the_learner_is_tuned_where_a_stage_begins_and_the_policy_evaluated_where_it_ends(
    tmp_path: Path,
) -> None:
    journal = Journal()
    train(tmp_path, journal, LoopState(step=0, curriculum={"drawn": 0}))
    assert journal.rows == [
        ("retune", "slow"),
        ("learn", "a 1"),
        ("learn", "a 2"),
        ("learn", "a 3"),
        ("evaluate", 3),
        ("retune", "fast"),
        ("learn", "b 4"),
        ("learn", "b 5"),
        ("evaluate", 5),
    ]
    rows = [r for r in read_metrics(tmp_path / "metrics.jsonl").rows if r.kind == "step"]
    assert [r.values["stage"] for r in rows] == ["sft", "sft", "sft", "grpo", "grpo"]
    assert CheckpointStore(tmp_path).steps() == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("done", "begins"),
    [
        (1, [("learn", "a 2"), ("learn", "a 3")]),
        (3, [("evaluate", 3), ("retune", "fast"), ("learn", "b 4")]),
        (4, [("learn", "b 5")]),
    ],
    ids=["inside the first", "between", "inside the second"],
)
def test_a_resumed_run_tunes_only_where_a_stage_begins(
    tmp_path: Path, done: int, begins: list[tuple[Any, ...]]
) -> None:
    journal = Journal()
    train(tmp_path, journal, LoopState(step=done, curriculum={"drawn": 0}))
    assert journal.rows[: len(begins)] == begins
