from typing import Any

import pytest

from practicum.assemble import build_reward
from practicum.core.config import RewardConfig, build_config
from practicum.core.errors import ConfigError
from practicum.environments import build_environment
from practicum.rewards import OutcomeReward, TurnRewards


def test_each_environment_is_scored_by_what_it_is_made_for() -> None:
    auto = RewardConfig()
    assert build_reward(auto, build_environment("math")) == TurnRewards()
    assert build_reward(auto, build_environment("shell")) == OutcomeReward()


def test_a_reward_can_be_named_and_its_values_given() -> None:
    reward: Any = build_config({"env": "math", "reward": {"name": "os", "incorrect": 0}}).reward
    assert build_reward(reward, build_environment("math")) == OutcomeReward(incorrect=0.0)
    assert build_config({"env": "math", "reward": "turns"}).reward.name == "turns"


def test_a_reward_by_turn_is_refused_where_turns_pay_nothing() -> None:
    with pytest.raises(ConfigError, match="'shell' pays nothing for a turn; write reward: os"):
        build_reward(RewardConfig(name="turns"), build_environment("shell"))


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        ("best", "reward.name = 'best'"),
        ({"name": "turns", "correct": 2}, "correct is for the reward `os`"),
        ({"name": "turns", "malformed": -1}, "malformed is for the reward `os`"),
        ({"name": "os", "right": 2}, "unknown key 'reward.right'"),
    ],
)
def test_a_wrong_reward_is_refused_in_a_sentence(reward: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        build_config({"env": "math", "reward": reward})


def test_a_saved_config_is_read_back_as_it_was() -> None:
    config = build_config({"env": "math", "reward": "turns"})
    assert build_config(config.model_dump()) == config
