"""Run folders as training leaves them, written through the store."""

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from practicum.core.checkpoint import EvalReport, TaskResult
from practicum.core.config.parse_config import build_config
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Failure, Message, Node, SampledSpan, StopReason, Trace
from practicum.evaluation.report import build_report, report_to_json
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

Turn = tuple[str, str, float]
"""What was done, what came of it, what it paid."""

SOLVED: tuple[Turn, ...] = (
    ("identify_operation", "plus: 3x + 7 = 16", 1.5),
    ("subtract_terms", "3x = 9", 2.0),
    ("divide_terms", "x = 3", 2.0),
    ("state_answer", "right", 3.0),
)
LOST: tuple[Turn, ...] = (
    ("divide_terms", "not valid: 3x + 7 = 16", -0.5),
    ("multiply_terms", "not valid: 3x + 7 = 16", -0.5),
    ("state_answer", "wrong", -0.5),
)


def make_task(number: int = 0) -> Task:
    return Task(id=f"3x+7=16#{number}", env="math", split="train", level=1)


def make_episode(
    turns: Sequence[Turn] = SOLVED,
    *,
    name: str = "train/1/0/a",
    success: bool | None = True,
    stop: StopReason = StopReason.FINISHED,
    failure: str | None = None,
    question: str = "3x + 7 = 16",
) -> Episode:
    """An episode as the gateway records it: the answer to the last turn is not shown to anyone."""
    span = SampledSpan(logprobs=(-0.5,), loss_mask=(True,), fingerprint="f0")
    asked: tuple[Message, ...] = (
        Message(role="system", content="Solve for x."),
        Message(role="user", content=question),
    )
    nodes: list[Node] = []
    for action, observation, _ in turns:
        parent = len(nodes) - 1 if nodes else None
        nodes.append(Node(parent=parent, messages=asked, token_ids=(1, 2, 3)))
        said = Message(role="assistant", content=action)
        nodes.append(Node(parent=len(nodes) - 1, messages=(said,), token_ids=(4,), sampled=span))
        asked = (Message(role="user", content=observation),)
    paid = tuple(reward for _, _, reward in turns)
    trace = Trace(
        id=name,
        task_id=make_task().id,
        env="math",
        nodes=tuple(nodes),
        stop=stop,
        failure=Failure(kind="EnvironmentFailure", message=failure) if failure else None,
    )
    if failure:
        return Episode(trace=trace, outcome=None, score=Score.unscored(failure))
    score = Score(components={"turns": sum(paid)}, turn_values=paid)
    return Episode(trace=trace, outcome=Outcome(success=success, turn_rewards=paid), score=score)


def make_report(step: int, successes: int, n: int = 100, masked: int = 0) -> EvalReport:
    """A report of `successes` tasks solved out of `n`, of which the last `masked` are masked."""
    tasks = [
        TaskResult(
            task_id=f"t{i}",
            level=1 + i % 2,
            successes=(i < successes if i < n - masked else None,),
            rewards=(8.5 if i < successes else 1.0 + (i % 5) * 0.5,),
            turns=(4,),
        )
        for i in range(n)
    ]
    policy = "smollm2-135m" if step == 0 else f"step_{step}"
    return build_report(
        tasks, policy=policy, env="math", fingerprint=f"f{step}", seed=0, duration_s=30.0
    )


def step_values(step: int, total: int = 30, **changed: JSON) -> dict[str, JSON]:
    """A row as the loop writes it, on a curve that learns."""
    noise = random.Random(step)
    learned = 1 / (1 + math.exp(-8 * (step / total - 0.4)))
    values: dict[str, JSON] = {
        "reward": 0.4 + 7.6 * learned + noise.uniform(-0.4, 0.4),
        "success": min(1.0, 0.12 + 0.82 * learned + noise.uniform(-0.06, 0.06)),
        "episodes": 32,
        "groups": 4,
        "trained_groups": 4,
        "flat_share": 0.0,
        "masked_episodes": 0,
        "unscored_episodes": 0,
        "turns": 7.5 - 3.2 * learned,
        "sampled_tokens": 900,
        "applied": True,
        "loss": noise.uniform(-0.02, 0.02),
        "grad_norm": 0.4 + noise.uniform(0, 0.4),
        "entropy": 1.6 * (1 - 0.85 * learned) + noise.uniform(0, 0.05),
        "clip_share": 0.0,
        "kl_to_base": 0.5 * learned,
        "logprob_gap": noise.uniform(2e-6, 1.2e-5),
        "update_tokens": 2000,
        "row_tokens": 9600,
        "fingerprint": f"f{step}",
        "rollout_s": 9.0 + noise.uniform(-1, 1),
        "update_s": 3.0,
    }
    return {**values, **changed}


class RunBuilder:
    """Writes a run folder a piece at a time."""

    def __init__(
        self, runs_dir: Path, name: str = "math-demo", config: Mapping[str, object] | None = None
    ) -> None:
        usual = {"env": {"name": "math", "level": 2}, "eval": {"every": 10}}
        stages = {} if "stages" in (config or {}) else {"steps": 30}
        self.config = build_config({**usual, **stages, **(config or {})})
        self.run = RunDir.create(runs_dir, self.config, name=name)
        self.attempt = 0

    def begin(self, from_step: int = 0) -> "RunBuilder":
        started = self.run.begin_attempt(from_step=from_step, threads=2, device="cpu")
        self.attempt, self.from_step = started.attempt, from_step
        self._log = EventLog(self.run.metrics_path, attempt=self.attempt, from_step=from_step)
        with SqliteTraceStore(self.run.traces_path) as store:
            store.begin_attempt(self.attempt, from_step)
        return self

    def step(self, step: int, **changed: JSON) -> "RunBuilder":
        self._log.append("step", step=step, values=step_values(step, **changed))
        return self

    def steps(self, first: int, last: int, **changed: JSON) -> "RunBuilder":
        for step in range(first, last + 1):
            self.step(step, **changed)
        return self

    def episode(self, episode: Episode, step: int, purpose: str = "train") -> "RunBuilder":
        with SqliteTraceStore(self.run.traces_path) as store:
            store.add(episode, attempt=self.attempt, step=step, purpose=purpose, task=make_task())
        return self

    def evaluate(self, step: int, successes: int, n: int = 100, *, masked: int = 0) -> "RunBuilder":
        report = report_to_json(make_report(step, successes, n, masked))
        folder = self.run.path / "evals"
        folder.mkdir(exist_ok=True)
        (folder / f"step_{step}.json").write_text(json.dumps(report))
        values = {key: report[key] for key in ("success", "reward")}
        self._log.append("eval", step=step, values=values)
        return self

    def checkpoint(self, step: int, best: bool = False) -> "RunBuilder":
        store = CheckpointStore(self.run.path)

        def write(folder: Path) -> None:
            (folder / "adapter_model.safetensors").write_bytes(b"weights")

        store.save(step, write, fingerprint=f"f{step}", keep=3)
        if best:
            store.mark_best(step)
        return self

    def done(self) -> RunDir:
        self._log.close()
        return self.run

    @contextmanager
    def training(self) -> Iterator[RunDir]:
        """The run while this process holds it."""
        with self.run.hold():
            yield self.done()


def finished_run(runs_dir: Path, name: str = "math-demo") -> RunDir:
    """A run of 30 steps, evaluated before, twice on the way, and after."""
    build = RunBuilder(runs_dir, name).begin().evaluate(0, 14)
    for step in range(1, 31):
        build.step(step)
        if step % 10 == 0:
            build.checkpoint(step, best=True).evaluate(step, 30 * step // 10)
    build.episode(make_episode(LOST, name="a", success=False), 29)
    return build.episode(make_episode(name="b"), 30).done()
