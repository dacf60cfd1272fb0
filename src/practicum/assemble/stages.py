"""The stages of a run: what each learns from, by which method."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from practicum.assemble.algorithms import build_algorithm, build_method, likelihood
from practicum.assemble.examples import StageData, load_stage
from practicum.assemble.models import learner_settings, stage_view
from practicum.assemble.players import policy_player, sampling_params
from practicum.assemble.stage_rows import StageRows
from practicum.assemble.teachers import build_teacher
from practicum.core.config import RunConfig, TrainingStageConfig
from practicum.core.interfaces import Curriculum, Environment
from practicum.store import RunDir
from practicum.training import (
    HeldOutSteps,
    OverlappedSteps,
    RolloutSteps,
    Row,
    StepSource,
    TaskLedger,
    TrainingObserver,
    TrainingStage,
)

if TYPE_CHECKING:
    from practicum.policy.torch_policy import TorchPolicy

__all__ = ["build_stages", "stage_of"]


def stage_of(config: RunConfig, step: int) -> TrainingStageConfig:
    """The stage that a step belongs to, counted over the whole run from 1."""
    last = 0
    for stage in config.all_stages:
        last += stage.steps
        if step <= last:
            return stage
    return config.all_stages[-1]


def build_stages(
    config: RunConfig,
    run: RunDir,
    policy: "TorchPolicy",
    environment: Environment | None,
    curriculum: TaskLedger,
    observer: TrainingObserver,
) -> list[TrainingStage]:
    """All stages of a run, one after the other; without an environment none of them acts."""
    stages: list[TrainingStage] = []
    for number, stage in enumerate(config.all_stages, start=1):
        first = stages[-1].last + 1 if stages else 1
        view = stage_view(config, stage)
        if stage.algorithm.is_offline:
            data = StageData(
                view=view,
                number=number,
                method=build_method(stage.algorithm),
                run=run,
                policy=policy,
                environment=environment,
                warn=observer.warned,
            )
            source: StepSource = _examples(data, first)
        else:
            assert environment is not None  # the config has seen to that
            source = _rollouts(view, run, policy, environment, curriculum, observer)
            if view.rollouts.staleness:
                source = _overlapped(source, policy, curriculum, first + stage.steps - 1)
        stages.append(
            TrainingStage(
                name=stage.algorithm.name,
                first=first,
                steps=stage.steps,
                source=source,
                settings=learner_settings(config, stage),
            )
        )
    return stages


def _rollouts(
    view: RunConfig,
    run: RunDir,
    policy: "TorchPolicy",
    environment: Environment,
    curriculum: Curriculum,
    observer: TrainingObserver,
) -> RolloutSteps:
    explore = sampling_params(view.rollouts, view.rollouts.temperature)
    explorer = policy_player(view.model.name, policy, explore)
    return RolloutSteps(
        parts=explorer.parts(environment, view, run=run.path, learns=True),
        rollouts=view.rollouts,
        seed=view.seed,
        micro_batch_tokens=view.algorithm.micro_batch_tokens,
        sampler=policy.sampler,
        learner=policy.learner,
        algorithm=build_algorithm(view.algorithm, view.rollouts),
        curriculum=curriculum,
        on_episode=observer.episode_done,
        teacher=build_teacher(view, policy),
    )


def _overlapped(
    steps: RolloutSteps, policy: "TorchPolicy", ledger: TaskLedger, last: int
) -> OverlappedSteps:
    return OverlappedSteps(
        steps=steps,
        sampler=policy.sampler,
        ledger=ledger,
        staleness=steps.rollouts.staleness,
        last=last,
    )


@dataclass(slots=True, kw_only=True)
class _Material:
    """Both sides of what a stage learns from, loaded when one of them is first asked for."""

    stage: StageData
    rows: StageRows | None = None

    async def train(self) -> list[tuple[Row, ...]]:
        self.rows = self.rows or await load_stage(self.stage)
        return self.rows.train

    async def heldout(self) -> list[tuple[Row, ...]]:
        self.rows = self.rows or await load_stage(self.stage)
        return self.rows.heldout


def _examples(stage: StageData, first: int) -> HeldOutSteps:
    view, policy = stage.view, stage.policy
    assert view.algorithm.batch is not None  # the config has seen to that
    last, every = first + view.steps - 1, view.eval.every
    material = _Material(stage=stage)
    return HeldOutSteps(
        load=material.train,
        load_heldout=material.heldout,
        is_reported=lambda step: step == last or bool(every and step % every == 0),
        is_reported_before=view.eval.before,
        method=stage.method,
        objective=likelihood(),
        learner=policy.learner,
        batch=view.algorithm.batch,
        first=first,
        seed=stage.data.seed,
        micro_batch_tokens=view.algorithm.micro_batch_tokens,
    )
