"""A run's trainer, and the evaluations kept with the run."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from practicum.assemble.environments import open_environment, sandbox_kind
from practicum.assemble.models import learner_settings, placement, thread_count
from practicum.assemble.players import evaluate_player, policy_player, sampling_params
from practicum.assemble.stages import build_stages, stage_of
from practicum.core.checkpoint import LoopState
from practicum.core.config import RunConfig
from practicum.core.interfaces import Environment
from practicum.core.report import EvalReport
from practicum.core.task import Task
from practicum.evaluation import report_from_json, report_to_json
from practicum.store import CheckpointStore, EventLog, RunDir, SqliteTraceStore
from practicum.training import TaskLedger, Trainer, TrainingObserver, TrainingParts, restore

if TYPE_CHECKING:
    from practicum.policy.torch_policy import TorchPolicy

__all__ = ["read_evaluations", "trainer_for"]

EVALS = "evals"
"""Folder of a run that holds its evaluations, one JSON file each."""


@contextmanager
def trainer_for(
    config: RunConfig,
    run: RunDir,
    policy: "TorchPolicy",
    observer: TrainingObserver,
    environment: Environment | None = None,
) -> Iterator[Trainer]:
    """A trainer that goes on from the run's newest sound checkpoint, or starts at step 0.

    The caller holds the run's lock, and closes the environment where it gives one.
    """
    if config.acts:
        environment = environment or open_environment(config.env)
    curriculum = TaskLedger(lambda: _training_tasks(environment, config.seed))
    checkpoints = CheckpointStore(run.path, config.checkpoints.layout)
    checkpoints.recover()
    found = checkpoints.load_latest()
    for damaged in found.damaged:
        observer.warned(damaged.reason)
    state = LoopState(step=0, curriculum=curriculum.state())
    if found.checkpoint is not None:
        policy.learner.retune(learner_settings(config, stage_of(config, found.checkpoint.step)))
        state = restore(found.checkpoint, policy.learner, curriculum)
    attempt = _begin_attempt(config, run, environment, state.step)
    with (
        EventLog(run.metrics_path, attempt=attempt, from_step=state.step) as metrics,
        SqliteTraceStore(run.traces_path) as traces,
    ):
        traces.begin_attempt(attempt, state.step)

        async def evaluate_now(step: int) -> EvalReport:
            assert environment is not None
            params = sampling_params(config.rollouts, config.eval.temperature)
            player = policy_player(config.model.name, policy, params)
            report = await evaluate_player(
                player,
                environment,
                config,
                observer.episode_done,
                f"{run.name} step {step}",
                run.path,
            )
            save_evaluation(run, step, report)
            metrics.append("eval", step=step, values=evaluation_row(report))
            return report

        parts = TrainingParts(
            config=config,
            stages=build_stages(config, run, policy, environment, curriculum, observer),
            sampler=policy.sampler,
            learner=policy.learner,
            curriculum=curriculum,
            metrics=metrics,
            traces=traces,
            checkpoints=checkpoints,
            evaluate=evaluate_now if environment is not None else None,
            earlier_reports={s: r for s, r in read_evaluations(run).items() if s <= state.step},
            observer=observer,
        )
        yield Trainer(parts, state)


def _training_tasks(environment: Environment | None, seed: int) -> Iterator[Task]:
    """What there is to act on; nothing where a run only learns from traces."""
    return iter(()) if environment is None else environment.tasks("train", seed)


def _begin_attempt(
    config: RunConfig, run: RunDir, environment: Environment | None, from_step: int
) -> int:
    """Record with the run what this start of it computes with; its number."""
    _, device = placement(config.model)
    attempt = run.begin_attempt(
        from_step=from_step,
        threads=thread_count(config),
        device=device,
        sandbox=sandbox_kind(environment) if environment is not None else "",
    )
    return attempt.attempt


def save_evaluation(run: RunDir, step: int, report: EvalReport) -> None:
    """Keep a whole report in the run's folder."""
    from practicum.store.durable import write_file

    folder = run.path / EVALS
    folder.mkdir(exist_ok=True)
    write_file(folder / f"step_{step}.json", json.dumps(report_to_json(report)).encode())


def read_evaluations(run: RunDir) -> dict[int, EvalReport]:
    """Every evaluation of a run, by step."""
    files = (run.path / EVALS).glob("step_*.json")
    found = {int(f.stem.removeprefix("step_")): f for f in files}
    return {step: report_from_json(json.loads(f.read_text())) for step, f in sorted(found.items())}


def evaluation_row(report: EvalReport) -> Mapping[str, Any]:
    """What `metrics.jsonl` says of an evaluation."""

    def interval(part: Any) -> dict[str, Any]:
        return {"value": part.value, "low": part.low, "high": part.high, "n": part.n}

    return {
        "success": interval(report.success),
        "reward": interval(report.reward),
        "masked": report.masked,
        "fingerprint": report.fingerprint,
        "duration_s": report.duration_s,
    }
