"""The agents there are, and the installation of those that need one."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from practicum.core.errors import UserError

__all__ = ["AgentEntry", "has_gateway", "install_agent", "known_agents"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEntry:
    """One agent as the list shows it."""

    name: str
    about: str
    ready: bool = True
    missing: str = ""
    """What to type where it is not ready."""


ABOUT = {
    "auto": "the built-in loop that the environment is made for",
    "actions": "one action a turn, in environments whose turns are actions",
    "tools": "a loop over tool calls: native, text or ReAct",
    "function": "a Python function of yours: async def rollout(task, client) -> float",
    "command": "any executable that takes the model's address from environment variables",
    "openhands": "the OpenHands SDK, working in the sandbox of a shell task",
}
PROGRAMS = frozenset({"function", "command", "openhands"})


def has_gateway() -> bool:
    """Whether the packages that programs reach the model through are installed."""
    return all(find_spec(name) is not None for name in ("httptools", "starlette", "uvicorn"))


def known_agents() -> list[AgentEntry]:
    """Every agent that a config can name."""
    from practicum.assemble.openhands import installed

    found = []
    for name, about in ABOUT.items():
        missing = ""
        if name in PROGRAMS and not has_gateway():
            missing = "type: pip install 'practicum[gateway]'"
        elif name == "openhands" and installed() is None:
            missing = "type: practicum agents install openhands"
        found.append(AgentEntry(name=name, about=about, ready=not missing, missing=missing))
    return found


def install_agent(name: str, say: Callable[[str], None]) -> dict[str, str]:
    """Install an agent; `say` is told what is going on."""
    if name != "openhands":
        known = "needs no installing" if name in ABOUT else "is no agent"
        raise UserError(
            f"{name!r} {known}; only openhands does: practicum agents install openhands"
        )
    from practicum.assemble.openhands import install

    done = install(say)
    return {"name": name, "version": done.version, "python": str(Path(done.python))}
