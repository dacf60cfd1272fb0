import dataclasses
from typing import Any

import pytest
from tests.unit.core.config.test_algorithm import NAMES, OTHER, run_with, settings

from practicum.assemble.algorithms import build_algorithm, build_method
from practicum.core.config import build_config
from practicum.core.config.algorithm import OFFLINE, TAKES

ELSEWHERE = {"teacher", "value_lr", "batch", "reference"}
"""Options that the learner or the stage reads, not the method."""


def built(name: str, **options: Any) -> Any:
    config = build_config(run_with(settings(name, **options)))
    if name in OFFLINE:
        return build_method(config.algorithm)
    return build_algorithm(config.algorithm, config.rollouts)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_builds_a_method(name: str) -> None:
    method = built(name)
    if name in OFFLINE:
        assert method.kind == {"weighted_sft": "sft"}.get(name, name)
    else:
        assert method.epochs == TAKES[name]["epochs"]
        assert method.minibatches == TAKES[name]["minibatches"]


@pytest.mark.parametrize(
    ("name", "option"),
    [(name, option) for name in NAMES for option in TAKES[name] if option not in ELSEWHERE],
)
def test_every_option_reaches_the_method(name: str, option: str) -> None:
    """An option that changed nothing would be taken and ignored."""
    value = OTHER[option]
    if TAKES[name][option] == value:
        value = {"none": "std"}[value]
    beside = {"kl": 0.1} if option == "kl_in" else {}
    usual, changed = built(name, **beside), built(name, **beside, **{option: value})
    if option == "max_ratio":  # goes around the method
        assert (changed.method, changed.max_ratio) == (usual, value)
        return
    differing = [
        field.name
        for field in dataclasses.fields(usual)
        if getattr(usual, field.name) != getattr(changed, field.name)
    ]
    assert differing
    assert len(differing) == (2 if option == "kl_in" else 1)
    if option not in {"kl_in", "weigh"}:
        assert getattr(changed, differing[0]) == value


def test_where_the_kl_is_decides_what_a_method_asks_for() -> None:
    in_loss, in_reward = built("grpo", kl=0.1), built("grpo", kl=0.1, kl_in="reward")
    assert in_loss.loss_needs == in_reward.credit_needs == {"base"}
    assert in_loss.credit_needs == in_reward.loss_needs == set()


def test_a_turn_as_long_as_its_limit_counts_as_cut_off() -> None:
    values = run_with(settings("ppo")) | {"rollouts": {"max_tokens": 33}}
    config = build_config(values)
    assert build_algorithm(config.algorithm, config.rollouts).turn_limit == 33  # type: ignore[attr-defined]
