import sys
from pathlib import Path
from typing import Any

import pytest

from practicum.agents.build_agents import build_agent, build_loop, program_limits
from practicum.agents.call_styles import NativeCalls, ReactCalls, TextCalls
from practicum.agents.command_agent import CommandAgent
from practicum.agents.function_agent import FunctionAgent
from practicum.agents.installation import install_agent, known_agents
from practicum.agents.loops import DiscreteAgent, ToolLoopAgent
from practicum.core.config.agent_config import AGENT_OPTIONS
from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, UserError
from practicum.core.trace import Message
from practicum.core.trusted_code import remember
from practicum.core.user_code import consents_to
from practicum.environments.registry import build_environment

MATH = build_environment("math")
SHELL = build_environment("shell", {"protocol": "tools"})


class Codec:
    def read(self, token_ids: Any, tools: Any = ()) -> Message:
        raise NotImplementedError


def config_of(agent: Any) -> RunConfig:
    return build_config({"env": "math", "agent": agent, "rollouts": {"max_turns": 3}})


def test_the_sessions_decide_which_loop_it_is() -> None:
    math, shell = (build_agent(e, config_of("auto"), Codec(), None) for e in (MATH, SHELL))
    assert isinstance(math, DiscreteAgent)
    assert isinstance(shell, ToolLoopAgent)
    assert math.max_turns == shell.max_turns == 3
    assert math.budget is None


@pytest.mark.parametrize(
    ("style", "kind"),
    [
        ("auto", NativeCalls),
        ("native", NativeCalls),
        ("text", TextCalls),
        ("react", ReactCalls),
    ],
)
def test_a_style_is_how_calls_are_read(style: str, kind: type) -> None:
    agent = build_agent(SHELL, config_of({"name": "tools", "style": style}), Codec(), None)
    assert isinstance(agent, ToolLoopAgent)
    assert type(agent.style) is kind


def test_a_policy_without_a_model_calls_in_text() -> None:
    loop = build_loop(SHELL, config_of("auto"))
    assert isinstance(loop, ToolLoopAgent)
    assert type(loop.style) is TextCalls


def test_a_budget_counts_the_next_turn_too() -> None:
    config = config_of({"name": "tools", "context_tokens": 500, "on_text": "finish"})
    agent = build_agent(SHELL, config, Codec(), None)
    assert isinstance(agent, ToolLoopAgent)
    assert agent.budget is not None
    assert (agent.budget.tokens, agent.budget.turn_tokens) == (500, config.rollouts.max_tokens)
    assert agent.on_text == "finish"


def test_words_of_a_command_that_name_files_here_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_agent.py").write_text("")
    value = {
        "name": "command",
        "command": [sys.executable, "my_agent.py", "--fast"],
        "score": [sys.executable, "my_agent.py"],
    }
    remember(consents_to(value))
    agent = build_agent(MATH, config_of(value), None, None)
    assert isinstance(agent, CommandAgent)
    assert agent.command[1:] == (str(tmp_path / "my_agent.py"), "--fast")
    assert agent.score[1] == str(tmp_path / "my_agent.py")
    assert not agent.shows_data


def test_limits_of_a_program_are_those_of_its_episode() -> None:
    limits = program_limits(config_of({"name": "function", "path": "a.py:b", "deadline_s": 9}))
    assert (limits.max_turns, limits.deadline_s) == (3, 9.0)


def test_a_function_is_loaded_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def rollout(task, client):\n    return 1.0\n")
    path = f"{tmp_path}/mine.py:rollout"
    agent = build_agent(MATH, config_of({"name": "function", "path": path}), None, None)
    assert isinstance(agent, FunctionAgent)
    assert agent.function(None, None) == 1.0


@pytest.mark.parametrize(
    ("environment", "agent", "said"),
    [
        (MATH, "tools", "are driven by actions; write agent: actions"),
        (SHELL, "actions", "are driven by tools; write agent: tools"),
        (MATH, {"name": "auto", "style": "react"}, "agent.style cannot be used: 'math' offers no"),
        (SHELL, {"name": "command", "command": ["ls"]}, "cannot reach the tools of 'shell'"),
        (MATH, {"name": "command", "command": ["no-such-program"]}, "there is no program"),
        (MATH, {"name": "command", "command": ["ls"], "workdir": "nowhere"}, "no folder nowhere"),
        (MATH, {"name": "function", "path": "nowhere.py:f"}, "there is no file nowhere.py"),
    ],
)
def test_an_agent_that_cannot_work_there_is_refused_in_one_sentence(
    environment: Any, agent: Any, said: str
) -> None:
    with pytest.raises(ConfigError) as wrong:
        build_agent(environment, config_of(agent), None, None)
    assert said in str(wrong.value)


def test_the_list_has_every_agent_a_config_takes() -> None:
    assert [one.name for one in known_agents()] == list(AGENT_OPTIONS)
    assert all(one.ready or one.missing.startswith("type: ") for one in known_agents())


@pytest.mark.parametrize(
    ("name", "said"), [("tools", "'tools' needs no installing"), ("robot", "'robot' is no agent")]
)
def test_only_what_needs_installing_is_installed(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        install_agent(name, print)
