"""Overlapped steps with a sampler and a learner of few lines: who waits for whom, and how old."""

import asyncio
import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from practicum.algorithms import Grpo
from practicum.core.checkpoint import LoopState
from practicum.core.config import build_config
from practicum.core.errors import PolicyMismatch
from practicum.core.interfaces import UpdateReport
from practicum.core.report import EvalReport, Interval
from practicum.core.sample import Batch, Episode
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, Node, SampledSpan, StopReason
from practicum.rollouts import RolloutParts
from practicum.store import CheckpointStore, EventLog, SqliteTraceStore, read_metrics
from practicum.training import (
    OverlappedSteps,
    RolloutSteps,
    TaskLedger,
    Trainer,
    TrainingParts,
    TrainingStage,
)
from practicum.training.checkpointing import read_state

TASKS, GROUP, TURNS = 2, 2, 3


@dataclass
class Weights:
    """What sampler and learner share: how many updates there were."""

    updates: int = 0
    name: str = "w"
    busy: threading.Lock = field(default_factory=threading.Lock)

    @property
    def fingerprint(self) -> str:
        return f"{self.name}{self.updates}"


@dataclass
class FakeLearner:
    weights: Weights
    seen: list[list[Batch]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    work: Callable[[], None] = lambda: None

    def fingerprint(self) -> str:
        return self.weights.fingerprint

    def update(self, batches: list[Batch], objective: Any) -> UpdateReport:
        self.seen.append(list(batches))
        self.threads.add(threading.current_thread().name)
        self.work()
        self.weights.updates += 1
        return UpdateReport(
            applied=True,
            loss=0.0,
            grad_norm=0.0,
            entropy=0.0,
            clip_share=0.0,
            value_loss=None,
            kl_to_base=None,
            logprob_gap=0.0,
            tokens=0,
            row_tokens=0,
            fingerprint=self.weights.fingerprint,
        )

    def retune(self, settings: Any) -> None:
        pass

    def save(self, folder: Path) -> None:
        (folder / "weights").write_text(self.fingerprint())


class FakeSampler:
    """Gives the weights away for work in a thread; has nothing to forget."""

    def __init__(self) -> None:
        self.forgotten = 0

    async def between_steps(self, work: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(work)

    def forget(self) -> None:
        self.forgotten += 1


@dataclass
class Talk:
    """A conversation whose turns name the weights of their moment."""

    weights: Weights
    nodes: list[Node] = field(default_factory=list)
    tools: tuple[Any, ...] = ()

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
        parent = len(self.nodes) - 1 if self.nodes else None
        self.nodes.append(Node(parent=parent, messages=(), token_ids=(1,)))
        span = SampledSpan(
            logprobs=(-1.0,), loss_mask=(True,), fingerprint=self.weights.fingerprint
        )
        said = (Message(role="assistant", content="x"),)
        self.nodes.append(
            Node(parent=len(self.nodes) - 1, messages=said, token_ids=(2,), sampled=span)
        )


class Session:
    async def outcome(self) -> Outcome:
        return Outcome(success=True)


@dataclass
class World:
    """Environment, agent and reward: a task takes as long as `seconds` says of it."""

    seconds: Callable[[Task], float]
    name: str = "e"
    open_now: int = 0
    most_open: int = 0
    task: dict[int, Task] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=count)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        session = Session()
        self.task[id(session)] = task
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        try:
            yield session
        finally:
            self.open_now -= 1

    async def run(self, session: Any, conversation: Any) -> StopReason:
        for _ in range(TURNS):
            await conversation.complete([])
            await asyncio.sleep(self.seconds(self.task[id(session)]) / TURNS)
        return StopReason.FINISHED

    async def score(self, task: Task, trace: Any, outcome: Outcome) -> Score:
        return Score(components={"solved": float(int(trace.id.rpartition("/")[2]) % 2)})


def tasks() -> Iterator[Task]:
    return (Task(id=f"task{n}", env="e", split="train") for n in count())


@dataclass
class Setup:
    seconds: Callable[[Task], float]
    staleness: int = 2
    steps: int = 8
    weights: Weights = field(default_factory=Weights)
    episodes: list[Episode] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.learner = FakeLearner(self.weights)
        self.sampler = FakeSampler()
        self.ledger = TaskLedger(tasks)
        self.world = World(self.seconds)
        self.config = build_config(
            {
                "env": "math",
                "steps": self.steps,
                "rollouts": {
                    "tasks_per_step": TASKS,
                    "group_size": GROUP,
                    "staleness": self.staleness,
                },
                "eval": {"before": False, "every": 2},
                "checkpoints": {"every": 1, "keep": 50},
            }
        )
        world: Any = self.world
        rolling = RolloutSteps(
            parts=RolloutParts(
                environment=world,
                agent=world,
                reward=world,
                converse=lambda task, seed: Talk(self.weights),
            ),
            rollouts=self.config.rollouts,
            seed=0,
            micro_batch_tokens=100,
            sampler=self.sampler,  # type: ignore[arg-type]
            learner=self.learner,  # type: ignore[arg-type]
            algorithm=Grpo(),
            curriculum=self.ledger,
            on_episode=self.episodes.append,
        )
        self.source = OverlappedSteps(
            steps=rolling,
            sampler=self.sampler,  # type: ignore[arg-type]
            ledger=self.ledger,
            staleness=self.staleness,
            last=self.steps,
        )

    def train(self, folder: Path, state: LoopState | None = None, **more: Any) -> Any:
        state = state or LoopState(step=0, curriculum={"drawn": 0})
        self.ledger.restore(state.curriculum)
        attempt = more.get("attempt", 1)
        with (
            EventLog(folder / "metrics.jsonl", attempt=attempt, from_step=state.step) as metrics,
            SqliteTraceStore(folder / "traces.sqlite") as traces,
        ):
            traces.begin_attempt(attempt, state.step)
            stage = TrainingStage(
                name="grpo", first=1, steps=self.steps, source=self.source, settings=None
            )
            parts = TrainingParts(
                config=self.config,
                stages=[stage],
                sampler=self.sampler,  # type: ignore[arg-type]
                learner=self.learner,  # type: ignore[arg-type]
                curriculum=self.ledger,
                metrics=metrics,
                traces=traces,
                checkpoints=CheckpointStore(folder),
                evaluate=more.get("evaluate"),
                earlier_reports={},
                observer=Silent(),  # type: ignore[arg-type]
            )
            return asyncio.run(Trainer(parts, state).run())


class Silent:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def learned(folder: Path) -> list[tuple[int, str]]:
    """Step and task of every episode that counts, as the run has recorded them."""
    with SqliteTraceStore(folder / "traces.sqlite", read_only=True) as store:
        return sorted((int(e.trace.id.split("/")[1]), e.trace.task_id) for e in store.episodes())


def rows(folder: Path) -> list[dict[str, Any]]:
    found = read_metrics(folder / "metrics.jsonl").rows
    return [dict(row.values) for row in found if row.kind == "step"]


def number(task: Task) -> int:
    return int(task.id.removeprefix("task"))


def in_order(steps: int) -> list[tuple[int, str]]:
    """Every step with its own tasks, in the order of the stream, a whole group of each."""
    return sorted(
        (step, f"task{TASKS * (step - 1) + place}")
        for step in range(1, steps + 1)
        for place in range(TASKS)
        for _ in range(GROUP)
    )


@pytest.mark.parametrize("staleness", [1, 2, 4])
def test_no_token_is_older_than_the_staleness_whatever_takes_how_long(
    tmp_path: Path, staleness: int
) -> None:
    chance = random.Random(staleness)
    slow = {n: chance.choice([0.0, 0.001, 0.03]) for n in range(100)}
    setup = Setup(lambda task: slow[number(task)], staleness=staleness, steps=10)
    setup.train(tmp_path)
    found = rows(tmp_path)
    assert [row["staleness_max"] <= staleness for row in found] == [True] * 10
    assert max(row["staleness_max"] for row in found) == staleness
    assert setup.world.most_open <= (staleness + 1) * TASKS * GROUP
    assert learned(tmp_path) == in_order(10)


def test_slow_tasks_are_learned_from_as_often_as_fast_ones(tmp_path: Path) -> None:
    """Every other task takes ten times as long."""
    setup = Setup(lambda task: 0.03 if number(task) % 2 else 0.003, steps=10)
    setup.train(tmp_path)
    kinds = Counter(int(task.removeprefix("task")) % 2 for _, task in learned(tmp_path))
    assert kinds[0] == kinds[1] == 10 * TASKS * GROUP // 2
    assert learned(tmp_path) == in_order(10)


def test_episodes_of_later_steps_go_on_while_the_learner_waits_for_a_slow_one(
    tmp_path: Path,
) -> None:
    """Step 1 has the only slow task: when it is done the two steps behind have long been."""
    setup = Setup(lambda task: 0.15 if task.id == "task0" else 0.001, steps=3)
    setup.train(tmp_path)
    first, *others = rows(tmp_path)
    assert first["rollout_s"] >= 0.14
    assert all(row["rollout_s"] < 0.05 for row in others)
    assert all(row["groups_waited_s"] > 0.08 for row in others)
    finished = [e.trace.task_id for e in setup.episodes]
    assert set(finished[-GROUP:]) == {"task0"}


def test_an_update_does_not_hold_the_event_loop(tmp_path: Path) -> None:
    """Episodes end while an update waits for them in its own thread."""
    setup = Setup(lambda task: 0.001 if number(task) < TASKS else 0.1, steps=4)
    seen: list[int] = []

    def work() -> None:
        before = len(setup.episodes)
        for _ in range(200):
            if seen or len(setup.episodes) > before:
                break
            threading.Event().wait(0.01)
        seen.append(len(setup.episodes) - before)

    setup.learner.work = work
    setup.train(tmp_path)
    assert seen[0] > 0
    assert threading.main_thread().name not in setup.learner.threads


def test_terms_are_marked_with_who_sampled_them(tmp_path: Path) -> None:
    setup = Setup(lambda task: 0.002, steps=5)
    setup.train(tmp_path)
    shares = []
    for batches in setup.learner.seen:
        marks = [b.term_checked for b in batches]
        assert all(m is not None for m in marks)
        shares.append(
            sum(int(m.sum()) for m in marks if m is not None)
            / sum(m.size for m in marks if m is not None)
        )
    assert shares == pytest.approx([row["present_share"] for row in rows(tmp_path)])
    assert shares[0] == 1.0


@pytest.mark.parametrize("stop_at", [1, 3, 6])
def test_an_interrupted_run_goes_on_without_losing_or_repeating_a_group(
    tmp_path: Path, stop_at: int
) -> None:
    slow = random.Random(5)
    delays = {n: slow.choice([0.001, 0.02]) for n in range(100)}
    setup = Setup(lambda task: delays[number(task)])

    def interrupt() -> None:
        if setup.weights.updates + 1 == stop_at:
            os.kill(os.getpid(), signal.SIGINT)

    setup.learner.work = interrupt
    result = setup.train(tmp_path)
    assert result.interrupted
    assert setup.world.open_now == 0  # every session was closed
    assert not setup.source.is_under_way
    newest = CheckpointStore(tmp_path).load_latest().checkpoint
    assert newest is not None
    state = read_state(newest.path)
    assert state.step == result.state.step
    assert stop_at <= state.step < 8  # an update may begin before the signal is seen
    assert json.loads(json.dumps(state.curriculum)) == state.curriculum
    again = Setup(lambda task: delays[number(task)], weights=Weights(updates=state.step))
    again.train(tmp_path, state, attempt=2)
    assert learned(tmp_path) == in_order(8)


def test_an_evaluation_leaves_episodes_under_way_alone(tmp_path: Path) -> None:
    setup = Setup(lambda task: 0.05, steps=4)
    half = Interval(value=0.5, low=0.4, high=0.6, n=4, method="wilson")
    went_on = []

    async def evaluate(step: int) -> EvalReport:
        before = setup.world.open_now
        await asyncio.sleep(0.06)
        went_on.append((step, before, setup.world.open_now))
        return EvalReport(
            policy="p",
            env="e",
            fingerprint=setup.weights.fingerprint,
            seed=0,
            attempts_per_task=1,
            success=half,
            reward=half,
        )

    setup.train(tmp_path, evaluate=evaluate)
    assert [step for step, *_ in went_on] == [2, 4]
    assert went_on[1][1] == 0  # nothing is made for steps that will not come
    assert learned(tmp_path) == in_order(4)


def test_tokens_of_other_weights_stop_the_run_and_everything_under_way(tmp_path: Path) -> None:
    setup = Setup(lambda task: 0.005)
    stranger = Talk(Weights(name="stranger"))
    parts = setup.source.steps.parts
    object.__setattr__(parts, "converse", lambda task, seed: Talk(stranger.weights))
    with pytest.raises(PolicyMismatch, match="was sampled by weights stranger0"):
        setup.train(tmp_path)
    assert setup.learner.seen == []
    assert setup.world.open_now == 0
