"""Builds the agent that a run's config names (`build_agent`), and checks that it can work."""

import shutil
from asyncio import Semaphore
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from practicum.agents.call_styles import CallStyle, NativeCalls, ReactCalls, TextCalls
from practicum.agents.command_agent import CommandAgent
from practicum.agents.function_agent import FunctionAgent, load_client
from practicum.agents.installation import has_gateway, installed_python
from practicum.agents.loops import ContextBudget, DiscreteAgent, ToolLoopAgent
from practicum.core.capabilities import ReadsTurns, session_kind, shows_data
from practicum.core.config.agent_config import AgentConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.conversation import ProgramAgent, RolloutLimits
from practicum.core.errors import ConfigError, MissingExtra
from practicum.core.interfaces import Agent, Environment
from practicum.core.trusted_code import require_command
from practicum.core.user_code import check_call, load_callable, made_of


def build_loop(environment: Environment, config: RunConfig, codec: Any = None) -> Agent:
    """The built-in agent loop for an environment's kind of sessions."""
    agent, rollouts = config.agent, config.rollouts
    kind = session_kind(environment)
    budget = None
    if agent.context_tokens and codec is not None:
        budget = ContextBudget(
            codec=codec,
            tokens=agent.context_tokens,
            turn_tokens=rollouts.max_tokens,
            fold=bool(agent.fold),
        )
    if kind == "tools":
        return ToolLoopAgent(
            max_turns=rollouts.max_turns,
            style=_style(agent, codec),
            budget=budget,
            on_text=agent.on_text or "ask",
        )
    return DiscreteAgent(max_turns=rollouts.max_turns, budget=budget, frozen=agent.frozen or ())


def build_agent(
    environment: Environment, config: RunConfig, codec: Any, run: Path | None
) -> Agent | ProgramAgent:
    """The agent that a run's config names."""
    agent = config.agent
    check_agent(environment, agent)
    if agent.name == "function":
        load_client()
        return FunctionAgent(
            function=_function(agent),
            name=str(agent.path),
            success_at=_number(agent.success_at),
            is_scored_elsewhere=config.reward.name != "auto" or bool(config.reward.components),
        )
    if agent.name == "command":
        return _command(environment, agent)
    if agent.name == "openhands":
        return _openhands(config, run)
    return build_loop(environment, config, codec)


def check_agent(environment: Environment, agent: AgentConfig) -> None:
    """Raises `ConfigError` if the agent cannot work in the environment; loads nothing."""
    kind = session_kind(environment)
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
        _function(agent)
    elif agent.name == "command":
        _command(environment, agent)
    elif agent.name == "openhands":
        if kind != "tools":
            raise ConfigError(
                f"agent = 'openhands' cannot be used: it works with commands, and "
                f"{environment.name!r} offers no tools with these options; write env: "
                "{name: shell, protocol: tools}"
            )
        installed_python()


def _function(agent: AgentConfig) -> Callable[..., Any]:
    """The user's function; of a class, an object of it, which is called."""
    named = str(agent.path)
    function = load_callable(named, "agent.path")
    if isinstance(function, type):
        function = made_of(function, named, "agent.path")
    check_call(function, named, "agent.path", ("task", "client"), ("task", "client", "session"))
    return cast("Callable[..., Any]", function)


def program_limits(config: RunConfig) -> RolloutLimits:
    """Limits on one episode of an agent that is a program."""
    return RolloutLimits(
        max_turns=config.rollouts.max_turns,
        deadline_s=config.agent.deadline or 0.0,
    )


def _style(agent: AgentConfig, codec: Any) -> CallStyle:
    if agent.style == "react":
        return ReactCalls()
    read = codec.read if isinstance(codec, ReadsTurns) else None
    if agent.style == "native" and codec is not None and read is None:
        raise ConfigError(
            "agent.style = 'native' cannot be used: this model's codec does not read tool calls; "
            "write style: text"
        )
    return TextCalls() if agent.style == "text" or read is None else NativeCalls(read=read)


def _command(environment: Environment, agent: AgentConfig) -> CommandAgent:
    score = agent.score or "evidence"
    made = CommandAgent(
        command=_absolute(agent.command or (), "agent.command"),
        inherit=agent.inherit or (),
        workdir=_folder(agent.workdir or "new"),
        score=score if isinstance(score, str) else _absolute(score, "agent.score"),
        hide=agent.hide or (),
        shows_data=shows_data(environment),
        success_at=_number(agent.success_at),
    )
    where = agent.workdir or "", agent.inherit or ()
    require_command(agent.command or (), "agent.command", *where)
    if not isinstance(score, str):
        require_command(score, "agent.score", *where)
    return made


def _absolute(command: tuple[str, ...], key: str) -> tuple[str, ...]:
    """The command with absolute paths, since it runs in another folder."""
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


def _openhands(config: RunConfig, run: Path | None) -> ProgramAgent:
    from practicum.agents.openhands.openhands_agent import OpenHandsAgent

    return OpenHandsAgent(
        python=installed_python(),
        max_turns=config.rollouts.max_turns,
        prompt=config.agent.prompt or "short",
        keep_in=run,
        slots=Semaphore(config.agent.at_once or 1),
    )
