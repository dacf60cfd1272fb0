"""The stages of a run: what each learns from, by which method."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from practicum.assemble.build_policy import learner_settings, stage_view
from practicum.assemble.policies import sampling_params, trained_policy
from practicum.assemble.wired_rewards import REWARDS
from practicum.core.config.algorithm_config import (
    AlgorithmConfig,
    DistillConfig,
    OfflineConfig,
    OwnAlgorithmConfig,
)
from practicum.core.config.config_sections import RolloutConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.interfaces import Curriculum, Environment, LivePolicy, Teacher
from practicum.core.trusted_code import require_secrets
from practicum.engine.planning.machine import placement
from practicum.environments.reference_policies import Imitator, ReferenceGuide
from practicum.store.run_dir import RunDir
from practicum.training.algorithms.build_algorithms import (
    build_algorithm,
    build_method,
    objective_of,
)
from practicum.training.curriculum import SharedCurriculum
from practicum.training.example_steps import HeldOutSteps
from practicum.training.loop import TrainingObserver
from practicum.training.overlapped_steps import OverlappedSteps
from practicum.training.rollout_steps import RolloutSteps
from practicum.training.stages import StepSource, TrainingStage

if TYPE_CHECKING:
    from practicum.training.stage_data import StageData


def with_own_options(config: RunConfig) -> RunConfig:
    """The config with the options of algorithms of the user's own, checked by their classes.

    Each is tried on a made-up step too, so that what is wrong with it is told before a model is
    loaded. What is left out of the config gets the class's defaults, and is saved with the run.
    """
    algorithm = _checked(config.algorithm, config.rollouts)
    stages = tuple(
        stage.model_copy(update={"algorithm": _checked(stage.algorithm, config.rollouts_of(stage))})
        for stage in config.stages
    )
    return config.model_copy(update={"stages": stages, "algorithm": algorithm})


def _checked(given: AlgorithmConfig, rollouts: RolloutConfig) -> AlgorithmConfig:
    if not isinstance(given, OwnAlgorithmConfig):
        return given
    from practicum.training.algorithms.own_algorithm import checked_own

    return checked_own(given, rollouts)


def build_stages(
    run: RunDir,
    policy: LivePolicy,
    environment: Environment | None,
    curriculum: SharedCurriculum,
    observer: TrainingObserver,
    config: RunConfig,
) -> list[TrainingStage]:
    """All stages of a run, one after the other; without an environment none of them acts."""
    stages: list[TrainingStage] = []
    for number, stage in enumerate(config.all_stages, start=1):
        first = stages[-1].last + 1 if stages else 1
        view = stage_view(config, stage)
        if stage.algorithm.is_offline:
            data = _stage_data(view, number, run, policy, environment, observer)
            source: StepSource = _examples(data, policy, first)
        else:
            assert environment is not None  # the config has seen to that
            source = _rollouts(view, run, policy, environment, curriculum, observer)
            if ahead := view.rollouts.staleness:
                shared, last = (policy.sampler, curriculum), first + stage.steps - 1
                source = OverlappedSteps(source, *shared, staleness=ahead, last=last)
        stages.append(
            TrainingStage(
                name=stage.algorithm.label,
                first=first,
                steps=stage.steps,
                source=source,
                settings=learner_settings(config, stage),
                rate_share=stage.algorithm.rate_share,
            )
        )
    return stages


def _rollouts(
    view: RunConfig,
    run: RunDir,
    policy: LivePolicy,
    environment: Environment,
    curriculum: Curriculum,
    observer: TrainingObserver,
) -> RolloutSteps:
    explore = sampling_params(view.rollouts, view.rollouts.temperature)
    handle = trained_policy(view.model.name, policy, explore)
    parts = handle.parts(environment, view, run=run.path, learns=True)
    if view.rollouts.jump_start:
        imitator = Imitator(view.model.name, policy.spell, policy.codec)
        parts = replace(parts, guide=partial(ReferenceGuide, imitator, environment))
    return RolloutSteps(
        parts=parts,
        rollouts=view.rollouts,
        seed=view.seed,
        micro_batch_tokens=view.algorithm.micro_batch_tokens,
        sampler=policy.sampler,
        learner=policy.learner,
        algorithm=build_algorithm(view.algorithm, view.rollouts),
        curriculum=curriculum,
        on_episode=observer.episode_done,
        teacher=_teacher(view, policy),
    )


def _stage_data(
    view: RunConfig,
    number: int,
    run: RunDir,
    policy: LivePolicy,
    environment: Environment | None,
    observer: TrainingObserver,
) -> "StageData":
    from practicum.assemble.datasets import build_dataset
    from practicum.training.stage_data import StageData

    imitator = Imitator(view.model.name, policy.spell, policy.codec)
    return StageData(
        view=view,
        number=number,
        method=build_method(view.algorithm),
        run=run.path,
        codec=policy.codec,
        longest=policy.max_positions,
        build=partial(build_dataset, environment=environment, imitator=imitator),
        reward_for=REWARDS.for_traces,
        warn=observer.warned,
    )


def _examples(stage: "StageData", policy: LivePolicy, first: int) -> HeldOutSteps:
    view = stage.view
    assert isinstance(view.algorithm, OfflineConfig)
    last, every = first + view.steps - 1, view.eval.every
    return HeldOutSteps(
        load=stage.train,
        load_heldout=stage.heldout,
        is_reported=lambda step: step == last or bool(every and step % every == 0),
        is_reported_before=view.eval.before,
        method=stage.method,
        objective=objective_of(stage.method),
        learner=policy.learner,
        batch=view.algorithm.batch,
        first=first,
        updates=view.algorithm.updates,
        seed=stage.data.seed_in(view.seed),
        micro_batch_tokens=view.algorithm.micro_batch_tokens,
    )


def _teacher(view: RunConfig, policy: LivePolicy) -> Teacher | None:
    """The teacher a config names: a model here, or an endpoint; None where it names none."""
    if not isinstance(view.algorithm, DistillConfig):
        return None
    name = view.algorithm.teacher
    if name.startswith(("http://", "https://")):
        from practicum.engine.learning.teachers import RemoteTeacher

        require_secrets({"teacher": name}, "algorithm")
        return RemoteTeacher(name)
    from practicum.engine.learning.teachers import TorchTeacher
    from practicum.engine.policy import load_for_policy
    from practicum.training.prefix_tree import build_batches

    dtype, device = placement(view.model)
    loaded = load_for_policy(name, dtype, device)
    budget = view.algorithm.micro_batch_tokens
    return TorchTeacher(
        loaded, policy.codec, lay_out=lambda samples: build_batches(samples, budget)
    )
