"""The memory plan of a run, the policy it trains, and how the policy is updated in each stage."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.core.config.algorithm_config import (
    DistillConfig,
    KlConfig,
    OfflineGrpoConfig,
    PpoConfig,
    PreferenceConfig,
)
from practicum.core.config.config_sections import ModelConfig
from practicum.core.config.reward_config import JudgeComponent, LearnedComponent
from practicum.core.config.run_config import RunConfig, TrainingStageConfig
from practicum.core.errors import ConfigError, MissingExtra
from practicum.core.interfaces import LivePolicy
from practicum.core.user_code import names_code
from practicum.engine.models.loading import check_model_name, locate_model
from practicum.engine.planning.machine import (
    Machine,
    detect_machine,
    keep_heap,
    make_heap_compact,
    placement,
    process_devices,
    thread_count,
)
from practicum.engine.planning.memory import FIRST_SLOTS, Allotment, FrozenModel
from practicum.engine.planning.memory_plan import (
    MemoryPlan,
    check_fits,
    plan_allotment,
    plan_memory,
)
from practicum.engine.planning.model_shapes import find_shape
from practicum.rewards.learned.labeler import load_labeler

if TYPE_CHECKING:
    from practicum.engine.learning.learner import LearnerSettings, TorchLearner
    from practicum.engine.learning.process_group import ProcessGroup
    from practicum.engine.planning.memory import FrozenRole
    from practicum.engine.policy import TorchPolicy


SLOTS_IDLE = 8192
"""Cache slots of the engine here while replicas sample: it acts again once they are given up."""


def frozen_models(config: RunConfig) -> list[FrozenModel]:
    """The models that a run loads here and does not train: teachers, judges, embedders."""
    algorithms = [stage.algorithm for stage in config.all_stages]
    teachers = [one.teacher for one in algorithms if isinstance(one, DistillConfig)]
    local = [name for name in teachers if not name.startswith(("http://", "https://"))]
    found = [_frozen("teacher", config.model.model_copy(update={"name": name})) for name in local]
    rewards = [config.reward] if config.acts else []
    rewards += [
        stage.data.reward for stage in config.all_stages if stage.data and stage.data.reward
    ]
    parts = [part for reward in rewards for part in reward.components]
    # A judge is loaded once, whoever asks it; an embedder once for each reward that needs it.
    asked = [p.model for p in parts if isinstance(p, JudgeComponent) and not p.endpoint]
    judges = {name for name in asked if not names_code(name)}
    found += [_frozen("judge", ModelConfig(name=name)) for name in sorted(judges)]
    learned = {
        (p.labeler, p.form, p.minimum_confidence) for p in parts if isinstance(p, LearnedComponent)
    }
    labelers = [load_labeler(Path(folder)) for folder, *_ in sorted(learned)]
    embedders = [one.embedder_model for one in labelers if one.embedder]
    return found + [_frozen("embedder", ModelConfig(name=name)) for name in embedders]


def _frozen(role: "FrozenRole", model: ModelConfig) -> FrozenModel:
    dtype, device = placement(model)
    return FrozenModel(
        role=role, name=model.name, shape=find_shape(model.name), device=device, dtype=dtype
    )


def plan_run(config: RunConfig, machine: Machine) -> MemoryPlan | None:
    """The memory plan of a run and of every model that it loads, made before any is loaded."""
    check_model_name(config.model.name)
    return plan_memory(config, machine, frozen_models(config))


def fitting_plan(config: RunConfig) -> MemoryPlan | None:
    """The plan on this machine as it is now; `NotEnoughMemory` unless it fits."""
    machine = detect_machine()
    plan = plan_run(config, machine)
    if plan is not None:
        check_fits(plan, machine)
    return plan


def build_policy(
    config: RunConfig, plan: MemoryPlan | None = None, group: "ProcessGroup | None" = None
) -> LivePolicy:
    """The model with a fresh adapter, given its share of memory. Threads are pinned first.

    With a `group` every process of it builds a replica, and its learner is that of all of them.
    """
    MissingExtra.unless("torch", "train", f"training {config.model.name!r}")
    locate_model(config.model.name)  # before torch is loaded: the hub may have no such model
    plan = plan or plan_run(config, detect_machine())
    given = plan.allotment if plan else plan_allotment(config, detect_machine())
    threads = thread_count(config)
    if group is None and config.hardware.processes > 1:
        raise ConfigError(
            f"hardware.processes = {config.hardware.processes} is for practicum train and "
            "pr.train, which start them; give 1 here"
        )
    if config.sampler.is_elsewhere:
        MissingExtra.unless("httpx", "serve", f"sampler={config.sampler.kind}")
        given = replace(given, kv_slots=min(given.kv_slots, SLOTS_IDLE))
    if group is None:
        return _with_samplers(config, _build(config, given, threads))
    from practicum.engine.learning.data_parallel import DataParallelLearner
    from practicum.engine.learning.learner import TorchLearner

    places = process_devices(config, detect_machine())
    fewest = replace(given, kv_slots=FIRST_SLOTS)  # a replica never samples
    replicas = [ReplicaOrder(_on(config, place), fewest, threads) for place in places[1:]]
    group.send([None, *replicas])
    policy = _build_with_others(_on(config, places[0]), given, threads, group)
    assert isinstance(policy.learner, TorchLearner)
    learner = DataParallelLearner(policy.learner, group)
    return _with_samplers(config, replace(policy, learner=learner))


def _with_samplers(config: RunConfig, policy: "TorchPolicy") -> LivePolicy:
    """The policy, sampled where the config says."""
    if not config.sampler.is_elsewhere:
        return policy
    from practicum.assemble.elsewhere import sampled_elsewhere

    return sampled_elsewhere(config, policy)


def _on(config: RunConfig, device: str) -> RunConfig:
    model = config.model.model_copy(update={"device": device})
    return config.model_copy(update={"model": model})


def _build_with_others(
    config: RunConfig, given: Allotment, threads: int, group: "ProcessGroup"
) -> "TorchPolicy":
    """Build where all others do; where one cannot, all raise."""
    built: list[TorchPolicy] = []
    group.gathered(lambda: built.append(_build(config, given, threads, group)))
    return built[0]


@dataclass(frozen=True, slots=True)
class ReplicaOrder:
    """What a process of another rank is to hold."""

    config: RunConfig
    allotment: Allotment
    threads: int


def build_replica(order: ReplicaOrder, group: "ProcessGroup") -> "TorchLearner":
    """The learner of a process of another rank."""
    from practicum.engine.learning.learner import TorchLearner

    policy = _build_with_others(order.config, order.allotment, order.threads, group)
    assert isinstance(policy.learner, TorchLearner)
    return policy.learner


def _build(
    config: RunConfig, given: Allotment, threads: int, group: "ProcessGroup | None" = None
) -> "TorchPolicy":
    from practicum.engine.compute_thread import pin_threads
    from practicum.engine.policy import TorchPolicy, load_for_policy

    pin_threads(threads)
    dtype, device = placement(config.model)
    if device == "cpu":
        # What is not kept must not stay on the heap either, unless there is room enough.
        _ = make_heap_compact() if given.checkpointed else keep_heap()
    loaded = load_for_policy(config.model.name, dtype, device, config.model.chat_template)
    return TorchPolicy.build(
        loaded,
        config.lora,
        learner_settings(config, config.all_stages[0]),
        config.seed,
        max_slots=given.kv_slots,
        checkpointed=given.checkpointed,
        adapter_bin=config.checkpoints.adapter_bin,
        peers=group,
    )


def learner_settings(config: RunConfig, stage: TrainingStageConfig) -> "LearnerSettings":
    """How the adapter is updated in a stage."""
    from practicum.engine.learning.learner import LearnerSettings

    dtype, _ = placement(config.model)
    algorithm = stage.algorithm
    # The value head is made with the policy, whichever stage needs it.
    others = [other.algorithm for other in config.all_stages]
    value_lrs = [a.value_lr for a in (algorithm, *others) if isinstance(a, PpoConfig)]
    return LearnerSettings(
        lr=algorithm.lr,
        weight_decay=algorithm.weight_decay,
        max_grad_norm=algorithm.max_grad_norm,
        max_logprob_gap=config.hardware.gap_limit(dtype),
        held_to_start=isinstance(algorithm, KlConfig | PreferenceConfig | OfflineGrpoConfig)
        and algorithm.reference == "start",
        value_lr=value_lrs[0] if value_lrs else None,
    )


def stage_view(config: RunConfig, stage: TrainingStageConfig) -> RunConfig:
    """A run that has only this stage, with the micro-batch that was planned for it.

    That hangs on the memory there is and not on what is free, so it may be asked after loading.
    """
    view = config.of_stage(stage)
    tokens = plan_allotment(view, detect_machine(), frozen_models(config)).batch_tokens
    algorithm = stage.algorithm.model_copy(update={"micro_batch_tokens": tokens})
    return view.model_copy(update={"algorithm": algorithm})
