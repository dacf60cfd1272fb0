"""From an algorithm's config to its credit and loss."""

from typing import Any

from practicum.core.config import AlgorithmConfig, RolloutConfig
from practicum.core.interfaces import Algorithm, Objective, OfflineMethod

__all__ = ["build_algorithm", "build_method", "likelihood"]

OPTIONS = {
    "credit": "credit_by",
    "discount": "discount",
    "scale": "scale",
    "epochs": "epochs",
    "minibatches": "minibatches",
    "baseline": "baseline",
    "filter_cut_off": "drop_cut_off",
    "gae": "gae",
    "gae_lambda": "decay",
    "entropy": "entropy_bonus",
    "value_coef": "value_weight",
    "value_clip": "value_clip",
    "reward_coef": "reward_weight",
}
"""Options of a config, and what the methods call them."""

OFFLINE_OPTIONS = {
    "beta": "beta",
    "desirable": "desirable_weight",
    "undesirable": "undesirable_weight",
    "label_smoothing": "label_smoothing",
    "loss": "loss_type",
    "temperature": "temperature",
}

STALE_MAX_RATIO = 2.0
"""What a ratio counts at most where episodes may be stale and the config says nothing."""

WEIGHTS = {"exponential": "exp", "positive": "positive"}
"""How rewards become weights, and what the method calls it."""


def build_algorithm(config: AlgorithmConfig, rollouts: RolloutConfig) -> Algorithm:
    """The method on fresh episodes that a config names."""
    from practicum import algorithms

    methods: dict[str, Any] = {
        "grpo": algorithms.Grpo,
        "dr_grpo": algorithms.DrGrpo,
        "dapo": algorithms.Dapo,
        "gspo": algorithms.Gspo,
        "cispo": algorithms.Cispo,
        "rloo": algorithms.Rloo,
        "reinforce++": algorithms.ReinforcePlusPlus,
        "ppo": algorithms.Ppo,
        "distill": algorithms.Distill,
    }
    given = {theirs: getattr(config, ours) for ours, theirs in OPTIONS.items()}
    given |= _bounds(config) | _kl(config)
    if config.name in ("dapo", "ppo"):
        given["turn_limit"] = rollouts.max_tokens
    method: Algorithm = methods[config.name](**{k: v for k, v in given.items() if v is not None})
    max_ratio = config.max_ratio or (STALE_MAX_RATIO if rollouts.staleness else None)
    return method if max_ratio is None else algorithms.Truncated(method=method, max_ratio=max_ratio)


def _bounds(config: AlgorithmConfig) -> dict[str, float | None]:
    """How the ratio is clipped: one bound for both sides, or one for each."""
    if config.clip_high is None:
        return {"clip": config.clip}
    return {"clip_low": config.clip, "clip_high": config.clip_high}


def _kl(config: AlgorithmConfig) -> dict[str, float | None]:
    return {"kl_in_reward" if config.kl_in == "reward" else "kl": config.kl}


def build_method(config: AlgorithmConfig) -> OfflineMethod:
    """The method over recorded examples that a config names."""
    from practicum import algorithms

    methods: dict[str, Any] = {
        "sft": algorithms.Sft,
        "weighted_sft": algorithms.Sft,
        "kto": algorithms.Kto,
        "dpo": algorithms.Dpo,
    }
    given = {theirs: getattr(config, ours) for ours, theirs in OFFLINE_OPTIONS.items()}
    given["weigh"] = WEIGHTS[config.weigh] if config.weigh else None
    method: OfflineMethod = methods[config.name](
        **{k: v for k, v in given.items() if v is not None}
    )
    return method


def likelihood() -> Objective:
    """The loss of every method over recorded examples, once it has said what each counts."""
    from practicum.algorithms import Likelihood

    return Likelihood()
