"""Which agent does the work, by a run's config."""

import shutil
from asyncio import Semaphore
from pathlib import Path
from typing import Any

from practicum.agents import (
    CallStyle,
    CommandAgent,
    ContextBudget,
    DiscreteAgent,
    FunctionAgent,
    NativeCalls,
    ReactCalls,
    TextCalls,
    ToolLoopAgent,
)
from practicum.agents.clients import load_client
from practicum.assemble.agent_list import has_gateway
from practicum.core.config import AgentConfig, RunConfig
from practicum.core.conversing import RolloutLimits
from practicum.core.errors import ConfigError, MissingExtra
from practicum.core.interfaces import Agent, Environment
from practicum.core.working import WorkingAgent
from practicum.user_code import load_callable

__all__ = ["build_agent", "build_loop", "check_agent", "program_limits"]

AT_ONCE = 16
"""Requests that one episode may have under way: agents with sub-agents ask several at once."""


def build_loop(environment: Environment, config: RunConfig, codec: Any = None) -> Agent:
    """The built-in agent for an environment's sessions; `session_kind` says which they are."""
    agent, rollouts = config.agent, config.rollouts
    kind = _session_kind(environment)
    budget = None
    if agent.context_tokens and codec is not None:
        budget = ContextBudget(
            codec=codec, tokens=agent.context_tokens, turn_tokens=rollouts.max_tokens
        )
    if kind == "tools":
        return ToolLoopAgent(
            max_turns=rollouts.max_turns,
            style=_style(agent, codec),
            budget=budget,
            on_text=agent.on_text or "ask",
        )
    return DiscreteAgent(max_turns=rollouts.max_turns, budget=budget)


def build_agent(
    environment: Environment, config: RunConfig, codec: Any, run: Path | None
) -> Agent | WorkingAgent:
    """The agent that a run's config names."""
    agent = config.agent
    check_agent(environment, agent)
    if agent.name == "function":
        load_client()
        return FunctionAgent(
            function=load_callable(str(agent.path), "agent.path"),
            name=str(agent.path),
            success_at=_number(agent.success_at),
        )
    if agent.name == "command":
        return _command(environment, agent)
    if agent.name == "openhands":
        return _openhands(config, run)
    return build_loop(environment, config, codec)


def check_agent(environment: Environment, agent: AgentConfig) -> None:
    """Refuse an agent that cannot work in an environment, before anything is made or loaded."""
    kind = _session_kind(environment)
    if agent.name in ("actions", "tools") and (agent.name == "tools") != (kind == "tools"):
        fitting = "tools" if kind == "tools" else "actions"
        raise ConfigError(
            f"agent = {agent.name!r} cannot be used: the sessions of {environment.name!r} are "
            f"driven by {fitting}; write agent: {fitting}, or leave it out"
        )
    for key in ("style", "on_text"):
        if getattr(agent, key) is not None and kind != "tools":
            raise ConfigError(
                f"agent.{key} cannot be used: {environment.name!r} offers no tools with these "
                "options; take it out"
            )
    if agent.name == "command" and agent.score == "evidence" and kind == "tools":
        raise ConfigError(
            f"agent.score = 'evidence' cannot be used: a command cannot reach the tools of "
            f"{environment.name!r}; write score: exit_code, or a scoring command"
        )
    if agent.is_program and not has_gateway():
        raise MissingExtra.for_extra("gateway", f"the agent {agent.name!r}")
    if agent.name == "function":
        load_callable(str(agent.path), "agent.path")
    elif agent.name == "command":
        _command(environment, agent)
    elif agent.name == "openhands":
        if kind != "tools":
            raise ConfigError(
                f"agent = 'openhands' cannot be used: it works with commands, and "
                f"{environment.name!r} offers no tools with these options; write env: "
                "{name: shell, protocol: tools}"
            )
        _openhands_python()


def program_limits(config: RunConfig) -> RolloutLimits:
    """What one episode of a program may use of the model."""
    return RolloutLimits(
        max_turns=config.rollouts.max_turns,
        deadline_s=config.agent.deadline or 0.0,
        concurrency=AT_ONCE,
    )


def _session_kind(environment: Environment) -> str:
    return str(getattr(environment, "session_kind", "discrete"))


def _style(agent: AgentConfig, codec: Any) -> CallStyle:
    if agent.style == "react":
        return ReactCalls()
    read = getattr(codec, "read", None)
    if agent.style == "native" and codec is not None and read is None:
        raise ConfigError(
            "agent.style = 'native' cannot be used: this model's codec does not read tool calls; "
            "write style: text"
        )
    return TextCalls() if agent.style == "text" or read is None else NativeCalls(read=read)


def _command(environment: Environment, agent: AgentConfig) -> CommandAgent:
    score = agent.score or "evidence"
    return CommandAgent(
        command=_absolute(agent.command or (), "agent.command"),
        inherit=agent.inherit or (),
        workdir=_folder(agent.workdir or "new"),
        score=score if isinstance(score, str) else _absolute(score, "agent.score"),
        hide=agent.hide or (),
        shows_data=bool(getattr(environment, "shows_data", False)),
        success_at=_number(agent.success_at),
    )


def _absolute(command: tuple[str, ...], key: str) -> tuple[str, ...]:
    """A command that means the same in another folder."""
    words = [str(Path(word).resolve()) if Path(word).is_file() else word for word in command]
    if shutil.which(words[0]) is None:
        raise ConfigError(
            f"{key}: there is no program {command[0]!r} here or on PATH; give its path, or install "
            "it"
        )
    return tuple(words)


def _folder(workdir: str) -> str:
    if workdir == "new":
        return workdir
    folder = Path(workdir).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"agent.workdir: there is no folder {workdir}; make it, or write new")
    return str(folder)


def _number(value: float | None) -> float:
    return 1.0 if value is None else value


def _openhands(config: RunConfig, run: Path | None) -> WorkingAgent:
    from practicum.agents.openhands import OpenHandsAgent

    return OpenHandsAgent(
        python=_openhands_python(),
        max_turns=config.rollouts.max_turns,
        prompt=config.agent.prompt or "short",
        keep_in=run,
        places=Semaphore(config.agent.at_once or 1),
    )


def _openhands_python() -> Path:
    from practicum.assemble.openhands import installed_python

    return installed_python()
