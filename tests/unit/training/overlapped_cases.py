"""A sampler, a learner and a world of few lines, for steps that overlap."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from practicum.agents.rollout import RolloutParts
from practicum.core.checkpoint import LoopState
from practicum.core.config.parse_config import build_config
from practicum.core.interfaces import UpdateReport
from practicum.core.sample import Batch, Episode
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, Node, SampledSpan, StopReason
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog
from practicum.store.trace_store import SqliteTraceStore
from practicum.training.algorithms.grpo import Grpo
from practicum.training.curriculum import TaskLedger
from practicum.training.loop import Trainer, TrainingParts
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.rollout_steps import RolloutSteps
from practicum.training.stages import TrainingStage

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
            largest_gap=0.0,
            tokens=0,
            row_tokens=0,
            fingerprint=self.weights.fingerprint,
        )

    async def beside_loop(self, work: Callable[[], Any]) -> Any:
        job = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            await asyncio.wait([job])  # as the real one: nobody leaves before it is done
            raise

    def scale_rate(self, share: float) -> None:
        pass

    def retune(self, settings: Any) -> None:
        pass

    def save(self, folder: Path) -> None:
        (folder / "weights").write_text(self.fingerprint())


class FakeSampler:
    """Has nothing to forget."""

    def __init__(self) -> None:
        self.forgotten = 0

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
        parts = RolloutParts(
            environment=world,
            agent=world,
            reward=world,
            converse=lambda task, seed: Talk(self.weights),
        )
        rolling = RolloutSteps(
            parts=parts,
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
            around = more.get("around", lambda work: work)
            return asyncio.run(around(Trainer(parts, state).run()))


class Silent:
    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None
