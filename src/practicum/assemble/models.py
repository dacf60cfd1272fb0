"""Models by name: known ones, and one with a fresh adapter to train."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from practicum.core.config import ModelConfig, RunConfig, TrainingStageConfig
from practicum.hardware import (
    choose_device,
    choose_dtype,
    detect_machine,
    keep_heap,
    make_heap_compact,
    plan_allotment,
    plan_threads,
)

if TYPE_CHECKING:
    from practicum.policy.learner import LearnerSettings
    from practicum.policy.models import DTypeName
    from practicum.policy.pull import ListedModel, Pulled
    from practicum.policy.torch_policy import TorchPolicy

__all__ = [
    "build_policy",
    "learner_settings",
    "list_models",
    "placement",
    "pull_model",
    "stage_view",
    "thread_count",
]


def list_models() -> "list[ListedModel]":
    """Every known model, and whether it is here."""
    from practicum.policy.pull import list_models

    return list_models()


def pull_model(
    name: str, progress: Callable[[str, int, int], None], *, keep_download: bool = False
) -> "Pulled | None":
    """Fetch a model; None for one that is made on the spot."""
    from practicum.policy.pull import pull

    return pull(name, progress, keep_download=keep_download)


def placement(model: ModelConfig) -> "tuple[DTypeName, str]":
    """The precision and the device of a model, as its config says or the machine allows."""
    device = choose_device(detect_machine(), model.device)
    return choose_dtype(device, model.dtype), device


def build_policy(config: RunConfig) -> "TorchPolicy":
    """The model with a fresh adapter, given its share of memory. Threads are pinned first."""
    from practicum.policy.threads import pin_threads
    from practicum.policy.torch_policy import TorchPolicy, load_for_policy

    pin_threads(thread_count(config))
    dtype, device = placement(config.model)
    given = plan_allotment(config, detect_machine())
    if device == "cpu":
        # What is not kept must not stay on the heap either, unless there is room enough.
        _ = make_heap_compact() if given.checkpointed else keep_heap()
    loaded = load_for_policy(config.model.name, dtype, device)
    settings = learner_settings(config, config.all_stages[0])
    return TorchPolicy.build(loaded, config.lora, settings, config.seed, max_slots=given.kv_slots)


def learner_settings(config: RunConfig, stage: TrainingStageConfig) -> "LearnerSettings":
    """How the adapter is updated in a stage."""
    from practicum.policy.learner import LearnerSettings

    dtype, _ = placement(config.model)
    value_lrs = [s.algorithm.value_lr for s in config.all_stages if s.algorithm.value_lr]
    return LearnerSettings(
        lr=stage.algorithm.lr,
        weight_decay=stage.algorithm.weight_decay,
        max_grad_norm=stage.algorithm.max_grad_norm,
        max_logprob_gap=config.hardware.gap_limit(dtype),
        checkpointed=plan_allotment(config, detect_machine()).checkpointed,
        held_to_start=stage.algorithm.reference == "start",
        # The value head is made with the policy, whichever stage needs it.
        value_lr=stage.algorithm.value_lr or (value_lrs[0] if value_lrs else None),
    )


def stage_view(config: RunConfig, stage: TrainingStageConfig) -> RunConfig:
    """A run that has only this stage, with the micro-batch that suits the machine."""
    view = config.model_copy(
        update={
            "algorithm": stage.algorithm,
            "rollouts": config.rollouts_of(stage),
            "data": stage.data,
            "stages": (),
            "steps": stage.steps,
        }
    )
    tokens = plan_allotment(view, detect_machine()).batch_tokens
    algorithm = stage.algorithm.model_copy(update={"micro_batch_tokens": tokens})
    return view.model_copy(update={"algorithm": algorithm})


def thread_count(config: RunConfig) -> int:
    """The threads a config asks for, or as many as the machine allows."""
    return config.hardware.threads or plan_threads(detect_machine())
