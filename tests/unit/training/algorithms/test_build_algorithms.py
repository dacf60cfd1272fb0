from typing import Any

import numpy as np
import pytest
from tests.unit.core.config.test_algorithm_config import (
    NAMES,
    OTHER,
    own_options,
    run_with,
    settings,
)
from tests.unit.training.algorithms.cases import group, make_episode, paid, random_terms, turns_of
from tests.unit.training.algorithms.rows import Row

from practicum.core.config.algorithm_config import ALGORITHMS
from practicum.core.config.parse_config import build_config
from practicum.core.sample import Episode, Estimates
from practicum.core.trace import StopReason
from practicum.training.algorithms.build_algorithms import build_algorithm, build_method
from practicum.training.algorithms.credit import loss_lengths

ELSEWHERE = {"teacher", "value_lr", "batch", "batch_size", "updates", "reference"}
"""Options that the learner or the stage reads, not the method."""


def built(name: str, **options: Any) -> Any:
    config = build_config(run_with(settings(name, **options)))
    if ALGORITHMS[name].is_offline:
        return build_method(config.algorithm)
    return build_algorithm(config.algorithm, config.rollouts)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds_a_method(name: str) -> None:
    method = built(name)
    if ALGORITHMS[name].is_offline:
        assert method.kind == {"weighted_sft": "sft", "offline_grpo": "grpo"}.get(name, name)
    else:
        fields = ALGORITHMS[name].model_fields
        assert method.epochs == fields["epochs"].default
        assert method.minibatches == fields["minibatches"].default


def behaviour(method: Any) -> Any:
    """What a method makes of the same episodes and terms, or of the same examples, in numbers."""
    if hasattr(method, "advantages"):
        rows = [
            Row(label=i < 3, reward=float(i), pair=str(i // 2), chosen=i % 2 == 0) for i in range(4)
        ]
        sums = np.arange(4.0) ** 2, np.zeros(4)
        found, loss, _ = method.advantages(rows, *sums, sums)
        own = method.loss(random_terms(0, apart=2.0)).loss if hasattr(method, "loss") else None
        return found.tolist(), loss, own if own is None else float(own.detach())
    a = make_episode((5, 6), (7,), (8, 9), score=paid(1.0, -2.0, 0.5), name="a")
    b = make_episode((5, 6), (9,), score=paid(0.0, 3.0), name="b", stop=StopReason.MAX_TURNS)
    estimates = {e.trace.id: estimated(e) for e in (a, b)}
    credits = [c for g in method.credit([group(a, b)], estimates) for c in g]
    turns = [
        (np.concatenate([np.ravel(t) for t in c.advantages]).tolist(), c.counts) for c in credits
    ]
    terms = random_terms(0, apart=2.0)
    return method.epochs, method.minibatches, turns, float(method.loss(terms).loss.detach())


def estimated(episode: Episode) -> Estimates:
    lengths = loss_lengths(episode.trace)
    return Estimates(
        logprobs=turns_of(*([-1.0] * n for n in lengths)),
        base_logprobs=turns_of(*(np.linspace(-1.5, -3.0, n) for n in lengths)),
        teacher_logprobs=turns_of(*(np.linspace(-0.5, -2.0, n) for n in lengths)),
        values=turns_of(*(np.linspace(0.1, 0.4, n) for n in lengths)),
    )


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, option) for name in NAMES for option in sorted(own_options(name) - ELSEWHERE)],
)
def test_every_option_changes_what_the_method_does(name: str, option: str) -> None:
    """An option that changed nothing would be taken and ignored."""
    value = {"scale": "std"}.get(option) if name == "dr_grpo" else None
    beside = {"kl": 0.1} if option == "kl_in" else {}
    given = {option: value or OTHER[option]}
    assert behaviour(built(name, **beside)) != behaviour(built(name, **beside, **given))


def test_where_the_kl_is_decides_what_a_method_asks_for() -> None:
    in_loss, in_reward = built("grpo", kl=0.1), built("grpo", kl=0.1, kl_in="reward")
    assert in_loss.loss_needs == in_reward.credit_needs == {"base"}
    assert in_loss.credit_needs == in_reward.loss_needs == set()


def test_a_turn_as_long_as_its_limit_counts_as_cut_off() -> None:
    values = run_with(settings("ppo")) | {"rollouts": {"max_tokens": 33}}
    config = build_config(values)
    assert build_algorithm(config.algorithm, config.rollouts).turn_limit == 33  # type: ignore[attr-defined]
