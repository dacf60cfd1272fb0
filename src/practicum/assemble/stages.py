"""The stages of a run: what each learns from, by which method."""

from typing import TYPE_CHECKING

from practicum.assemble.algorithms import build_algorithm, build_method, likelihood
from practicum.assemble.examples import load_units
from practicum.assemble.models import learner_settings, stage_view
from practicum.assemble.players import sampling_params, sampling_player
from practicum.assemble.teachers import build_teacher
from practicum.core.config import RunConfig, TrainingStageConfig
from practicum.core.interfaces import Curriculum, Environment
from practicum.store import RunDir
from practicum.training import (
    ExampleSteps,
    RolloutSteps,
    StepSource,
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
    environment: Environment,
    curriculum: Curriculum,
    observer: TrainingObserver,
) -> list[TrainingStage]:
    """All stages of a run, one after the other."""
    stages: list[TrainingStage] = []
    for stage in config.all_stages:
        first = stages[-1].last + 1 if stages else 1
        view = stage_view(config, stage)
        if stage.algorithm.is_offline:
            source: StepSource = _examples(view, first, run, policy, environment, observer)
        else:
            source = _rollouts(view, run, policy, environment, curriculum, observer)
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
    explorer = sampling_player(view.model.name, policy.sampler, policy.codec, explore)
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


def _examples(
    view: RunConfig,
    first: int,
    run: RunDir,
    policy: "TorchPolicy",
    environment: Environment,
    observer: TrainingObserver,
) -> ExampleSteps:
    assert view.data is not None  # the config has seen to that
    assert view.algorithm.batch is not None
    method = build_method(view.algorithm)
    return ExampleSteps(
        load=lambda: load_units(view, method.kind, run, policy, environment),
        method=method,
        objective=likelihood(),
        learner=policy.learner,
        batch=view.algorithm.batch,
        first=first,
        seed=view.data.seed,
        micro_batch_tokens=view.algorithm.micro_batch_tokens,
    )
