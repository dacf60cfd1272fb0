import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rewards.traces import make_task, make_trace

from practicum.assemble.wired_rewards import REWARDS
from practicum.core.config.parse_config import build_config
from practicum.core.config.reward_config import COMPONENTS, RewardConfig
from practicum.core.errors import ConfigError
from practicum.core.task import Outcome
from practicum.core.user_code import load_callable
from practicum.environments.registry import build_environment
from practicum.rewards.behaviour import (
    Efficiency,
    FormatCompliance,
    LengthPenalty,
    RepetitionPenalty,
    TaskCompletion,
    ToolSuccess,
)
from practicum.rewards.build_rewards import PLAIN
from practicum.rewards.code import SyntaxCheck
from practicum.rewards.composite import NormalisedComponents
from practicum.rewards.verifiable import AgentCompanyScore, OutcomeReward, TurnRewards


def test_each_environment_is_scored_by_what_it_is_made_for() -> None:
    auto = RewardConfig()
    assert REWARDS.reward(auto, build_environment("math")) == TurnRewards()
    assert REWARDS.reward(auto, build_environment("shell")) == OutcomeReward()


def test_a_reward_can_be_named_and_its_values_given() -> None:
    reward: Any = build_config({"env": "math", "reward": {"name": "os", "incorrect": 0}}).reward
    assert REWARDS.reward(reward, build_environment("math")) == OutcomeReward(incorrect=0.0)
    assert build_config({"env": "math", "reward": "turns"}).reward.name == "turns"


def test_a_reward_by_turn_is_refused_where_turns_pay_nothing() -> None:
    with pytest.raises(ConfigError, match="'shell' pays nothing for a turn; write reward: os"):
        REWARDS.reward(RewardConfig(name="turns"), build_environment("shell"))


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


def composed(*components: object, combine: str = "sum") -> RewardConfig:
    return build_config(
        {"env": "math", "reward": {"components": list(components), "combine": combine}}
    ).reward


def test_components_become_rewards_with_their_options() -> None:
    config = composed(
        {"name": "outcome", "incorrect": 0},
        {"name": "efficiency", "turns": 8, "weight": 0.2},
        {"name": "length", "limit": 100, "margin": 20, "of": "turn"},
        {"name": "repetition", "n": 4},
        {"name": "format", "must": ["x"], "turns": "final"},
        "tool_success",
        "task_completion",
        "agent_company",
        "syntax",
        "turns",
    )
    reward: Any = REWARDS.reward(config, build_environment("math"))
    assert [(part.label, part.weight) for part in reward.parts][:2] == [
        ("outcome", 1.0),
        ("efficiency", 0.2),
    ]
    assert [part.reward for part in reward.parts] == [
        OutcomeReward(incorrect=0.0),
        Efficiency(turns=8),
        LengthPenalty(limit=100, margin=20, of="turn"),
        RepetitionPenalty(n=4),
        FormatCompliance(must=("x",), turns="final"),
        ToolSuccess(),
        TaskCompletion(),
        AgentCompanyScore(),
        SyntaxCheck(),
        TurnRewards(),
    ]
    assert REWARDS.group_reward(config) is None


def test_turns_among_components_are_refused_where_turns_pay_nothing() -> None:
    with pytest.raises(ConfigError, match="'shell' pays nothing for a turn"):
        REWARDS.reward(composed("turns"), build_environment("shell"))


def test_every_component_of_the_config_is_built_by_something() -> None:
    built_by_hand = {"turns", "code_execution", "syntax", "judge", "learned"}
    plain = {name for name, kind in COMPONENTS.items() if kind in PLAIN}
    assert plain | built_by_hand == set(COMPONENTS)


def test_a_function_of_the_users_is_found_beside_where_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rewards_of_mine.py").write_text("def short(task, trace, outcome):\n    return 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    reward: Any = REWARDS.reward(composed("rewards_of_mine:short"), build_environment("math"))
    assert reward.parts[0].reward.function(None, None, None) == 3
    with pytest.raises(ConfigError, match="has no function 'long'; it has short"):
        REWARDS.reward(composed("rewards_of_mine:long"), build_environment("math"))


def test_a_function_of_a_file_is_found_as_an_agents_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def short(task, trace, outcome):\n    return 3\n")
    reward: Any = REWARDS.reward(composed(f"{file}:short"), build_environment("math"))
    [part] = reward.parts
    assert part.label == "short"
    assert part.reward.function is load_callable(f"{file}:short", "agent.path")


@pytest.mark.parametrize(
    "named", ["no_such_module:f", "none.py:f", "{file}:f", "{file}:", ":f", "{broken}:f"]
)
def test_what_cannot_be_loaded_is_said_as_of_an_agent(tmp_path: Path, named: str) -> None:
    file, broken = tmp_path / "mine.py", tmp_path / "broken.py"
    file.write_text("def short(task, trace, outcome):\n    return 3\n")
    broken.write_text("import nowhere_at_all")
    named = named.format(file=file, broken=broken)
    with pytest.raises(ConfigError) as of_agent:
        load_callable(named, "reward")
    with pytest.raises(ConfigError) as of_reward:
        REWARDS.reward(composed(named), build_environment("math"))
    assert str(of_reward.value) == str(of_agent.value)


def test_a_judge_waits_for_the_group_and_keeps_its_word_with_the_run(tmp_path: Path) -> None:
    judge = {"name": "judge", "model": "m", "endpoint": "http://localhost:1/v1", "weight": 0.5}
    config = composed("outcome", {**judge, "repeats": 3})
    reward: Any = REWARDS.reward(config, build_environment("math"))
    assert reward.judged_later == (("judge", 0.5),)
    group: Any = REWARDS.group_reward(config, folder=tmp_path)
    [step] = group.rewards
    assert (step.label, step.weight, step.repeats) == ("judge", 0.5, 3)
    here: Any = REWARDS.group_reward(composed({"name": "judge", "model": "tiny"}))
    assert here.rewards[0].model.name == "tiny here (weighing)"


def test_components_are_normalised_for_learning_and_not_for_reports() -> None:
    config = composed("turns", {"name": "efficiency", "turns": 8}, combine="normalise")
    learning: Any = REWARDS.group_reward(config)
    assert learning.rewards == (NormalisedComponents(turns="turns"),)
    assert REWARDS.group_reward(config, compares=False) is None


async def test_the_mean_is_of_what_can_be_scored() -> None:
    parts = ({"name": "syntax", "without": None}, {"name": "format", "weight": 3})
    words, code = make_trace("words"), make_trace("<b>\n```python\nx =\n```\n")
    summed = REWARDS.for_traces(composed(*parts))
    mean = REWARDS.for_traces(composed(*parts, combine="mean"))
    found = [
        (await mean.score(make_task(), one, Outcome(success=None))).value for one in (words, code)
    ]
    assert found == [1.0, 0.0]
    half = make_trace("words\n```python\nx =\n```\n")
    assert (await mean.score(make_task(), half, Outcome(success=None))).value == pytest.approx(
        3 / 4
    )
    assert (await summed.score(make_task(), words, Outcome(success=None))).value is None
    nothing = REWARDS.for_traces(composed(parts[0], combine="mean"))
    assert (await nothing.score(make_task(), words, Outcome(success=None))).value is None
