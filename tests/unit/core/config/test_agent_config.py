from typing import Any

import pytest

from practicum.core.config.agent_config import AgentConfig
from practicum.core.config.parse_config import apply_overrides, build_config
from practicum.core.errors import ConfigError


def agent(value: Any) -> AgentConfig:
    return build_config({"env": "math", "agent": value}).agent


def test_the_environment_decides_unless_told() -> None:
    assert build_config({"env": "math"}).agent.name == "auto"
    assert not agent("auto").is_program
    assert agent("auto").deadline is None


def test_programs_have_a_deadline_unless_told_another() -> None:
    function = {"name": "function", "path": "my_agent.py:rollout"}
    assert agent(function).is_program
    assert agent(function).deadline == 600.0
    assert agent({**function, "deadline_s": 5}).deadline == 5.0
    assert agent({"name": "tools", "deadline_s": 5}).deadline == 5.0


def test_a_name_alone_can_be_given_options_on_the_command_line() -> None:
    values = apply_overrides({"env": "math", "agent": "tools"}, ["agent.style=react"])
    assert build_config(values).agent.style == "react"


def test_a_command_is_a_list_of_words_and_has_its_defaults() -> None:
    found = agent({"name": "command", "command": ["sleep", 3]})
    assert found.command == ("sleep", "3")
    assert (found.workdir, found.score, found.hide) == ("new", "evidence", ("answer",))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": "tools", "path": "a.py:b"}, "path is not an option of the agent tools"),
        ({"name": "actions", "style": "react"}, "style is not an option of the agent actions"),
        ("function", "needs a path, FILE.py:NAME"),
        ({"name": "function", "path": "rollout"}, "needs a path, FILE.py:NAME"),
        ("command", "needs a command"),
        ({"name": "command", "command": []}, "needs a command"),
        ({"name": "command", "command": ["a"], "score": []}, "the scoring command has no words"),
        ({"name": "command", "command": ["a"], "sandbox": "code"}, "cannot reach the model"),
        ({"name": "tools", "retries": -1}, "greater than or equal to 0"),
        ({"name": "tools", "deadline_s": 0}, "greater than 0"),
        ({"name": "robot"}, "'auto', 'actions', 'tools', 'function', 'command' or 'openhands'"),
    ],
)
def test_a_mistake_is_one_sentence(value: Any, said: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        agent(value)
    assert said in str(wrong.value)
    assert "\n" not in str(wrong.value)
