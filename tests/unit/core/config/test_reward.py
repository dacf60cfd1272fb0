import json
from typing import Any

import pytest

from practicum.core.config.parse_config import build_config
from practicum.core.config.reward_config import COMPONENTS, EfficiencyComponent, component_of
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError


def config(reward: Any) -> RunConfig:
    return build_config({"env": "math", "reward": reward})


def test_parts_are_given_by_name_with_options_of_their_own() -> None:
    reward = config(
        {
            "components": [
                "outcome",
                {"name": "efficiency", "turns": 8, "weight": 0.2},
                {"name": "format", "must": ["x"], "label": "has_x"},
                {"name": "my_rewards:politeness", "weight": -1},
            ],
            "combine": "normalise",
        }
    ).reward
    assert [(p.logged_as, p.weight) for p in reward.components] == [
        ("outcome", 1.0),
        ("efficiency", 0.2),
        ("has_x", 1.0),
        ("politeness", -1.0),
    ]
    assert isinstance(reward.components[1], EfficiencyComponent)
    assert reward.components[1].turns == 8


def test_a_saved_config_is_read_back_as_it_was() -> None:
    before = config({"components": ["outcome", {"name": "length", "limit": 9}, "a.b:c"]})
    for dumped in (before.model_dump(), json.loads(before.model_dump_json())):
        assert build_config(dumped) == before
    assert before != config({"components": ["outcome", {"name": "length", "limit": 8}, "a.b:c"]})


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        ({"components": ["speed"]}, "there is no component 'speed'; there are outcome, turns"),
        ({"components": "outcome"}, "components are a list"),
        ({"components": [3]}, "3 is no component; write it as"),
        ({"components": [{"weight": 1}]}, "is no component"),
        (
            {"components": [{"name": "efficiency", "turn": 3}]},
            "efficiency has no option 'turn'; did you mean 'turns'",
        ),
        ({"components": ["efficiency"]}, "efficiency: a budget is missing; give tokens"),
        ({"components": ["length"]}, "length needs the option 'limit'"),
        ({"components": [{"name": "length", "limit": 5, "margin": 6}]}, "margin is larger"),
        ({"components": [{"name": "format", "must": ["("]}]}, "is no regular expression"),
        ({"components": [{"name": "outcome", "weight": "much"}]}, "outcome: weight = 'much'"),
        ({"components": [{"name": "outcome", "label": "a b"}]}, "a label is one word"),
        ({"components": ["judge"]}, "the judge's model is missing"),
        (
            {"components": [{"name": "judge", "model": "m", "endpoint": "localhost"}]},
            "the endpoint is no address",
        ),
        ({"components": ["outcome", "outcome"]}, "two components are called outcome"),
        ({"components": ["outcome"], "name": "os"}, "name cannot be given beside components"),
        ({"components": ["outcome"], "correct": 2}, "correct cannot be given beside components"),
        ({"combine": "normalise"}, "combine is for components"),
        ({"components": [{"name": "outcome", "weight": float("inf")}]}, "outcome: weight = inf"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(reward: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(reward)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_part_knows_its_own_name() -> None:
    needed = {
        "efficiency": {"turns": 1},
        "length": {"limit": 1},
        "judge": {"model": "m"},
        "learned": {"labeler": "folder"},
    }
    for name, kind in COMPONENTS.items():
        found = component_of({"name": name, **needed.get(name, {})})
        assert type(found) is kind
        assert found.logged_as == name
