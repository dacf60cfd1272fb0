"""From an algorithm's config to the algorithm. Imports inside functions: they load torch."""

from practicum.core.config.algorithm_config import (
    ALGORITHMS,
    AlgorithmConfig,
    OnlineConfig,
    OwnAlgorithmConfig,
)
from practicum.core.config.config_sections import RolloutConfig
from practicum.core.interfaces import Algorithm, Objective, OfflineMethod

STALE_MAX_RATIO = 2.0
"""Default of `max_ratio` with stale episodes (`rollouts.staleness` above 0)."""


def build_algorithm(config: AlgorithmConfig, rollouts: RolloutConfig) -> Algorithm:
    """The online algorithm that a config names."""
    from practicum.training.algorithms.own_algorithm import load_class, make, options_of

    if isinstance(config, OwnAlgorithmConfig):
        config = options_of(load_class(config.name), config)
    assert isinstance(config, OnlineConfig)  # the caller checks `is_offline`
    if config.max_ratio is None and rollouts.staleness:
        config = config.model_copy(update={"max_ratio": STALE_MAX_RATIO})
    if config.name not in ALGORITHMS:
        return make(load_class(config.name), config, rollouts)
    from practicum.training.algorithms.cispo import Cispo
    from practicum.training.algorithms.dapo import Dapo
    from practicum.training.algorithms.distill import Distill
    from practicum.training.algorithms.grpo import DrGrpo, Grpo
    from practicum.training.algorithms.gspo import Gspo
    from practicum.training.algorithms.ppo import Ppo
    from practicum.training.algorithms.reinforce_pp import ReinforcePlusPlus
    from practicum.training.algorithms.rloo import Rloo

    methods = (
        *(Grpo, DrGrpo, Dapo, Gspo, Cispo),
        *(Rloo, ReinforcePlusPlus, Ppo, Distill),
    )
    [method] = [method for method in methods if method.name == config.name]
    return method(config, turn_limit=rollouts.max_tokens)


def build_method(config: AlgorithmConfig) -> OfflineMethod:
    """The offline method that a config names."""
    from practicum.training.algorithms.dpo import Dpo
    from practicum.training.algorithms.kto import Kto
    from practicum.training.algorithms.offline_grpo import OfflineGrpo
    from practicum.training.algorithms.sft import Sft, WeightedSft

    methods = (Sft, WeightedSft, Kto, Dpo, OfflineGrpo)
    [method] = [method for method in methods if method.name == config.name]
    return method(config)


def objective_of(method: OfflineMethod) -> Objective:
    """What an offline method updates by: its own loss where it has one, else the likelihood."""
    from practicum.training.algorithms.losses import Likelihood
    from practicum.training.algorithms.offline_grpo import OfflineGrpo

    return method if isinstance(method, OfflineGrpo) else Likelihood()
