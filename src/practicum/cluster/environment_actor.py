"""Episodes of an environment in an actor: several at once, each opened, played and judged there."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from practicum.cluster.actor_link import Answering
from practicum.core.capabilities import Closable, HasRoles, actions_of, sandbox_kind, tools_of
from practicum.core.interfaces import DiscreteSession, Environment, Observation
from practicum.core.sampling import Actions
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, ToolCall, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a session shows before a turn."""

    prompt: tuple[Message, ...]
    actions: Actions
    tools: tuple[ToolSpec, ...]
    role: str | None
    """Who acts next; None where the session has no roles."""
    is_discrete: bool


@dataclass(slots=True)
class LiveEpisode:
    """A session that is open."""

    opening: AbstractAsyncContextManager[Any]
    session: Any
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A turn that was given up may still be ending when the outcome is asked for."""

    def shown(self, *, is_first: bool = False) -> Shown:
        """What it shows now; its prompt and tools at first, and a prompt whenever another acts."""
        session = self.session
        role = session.role() if isinstance(session, HasRoles) else None
        return Shown(
            prompt=tuple(session.prompt()) if is_first or role is not None else (),
            actions=actions_of(session),
            tools=tuple(tools_of(session)) if is_first else (),
            role=role,
            is_discrete=isinstance(session, DiscreteSession),
        )


class EnvironmentActor(Answering):
    """Holds the environment where it runs; it is made when it is first asked about."""

    def __init__(self, make: Callable[[], Environment]) -> None:
        super().__init__()
        self._make = make
        self._environment: Environment | None = None
        self._live: dict[str, LiveEpisode] = {}

    def _opened(self) -> Environment:
        if self._environment is None:
            self._environment = self._make()
        return self._environment

    async def do_about(self) -> Mapping[str, str]:
        """Make the environment; what commands of its episodes are kept in."""
        return {"sandbox_kind": await asyncio.to_thread(sandbox_kind, self._opened())}

    async def do_open(self, episode: str, task: Task) -> Shown:
        """Open a session."""
        opening = self._opened().open(task)
        live = LiveEpisode(opening=opening, session=await opening.__aenter__())
        self._live[episode] = live
        return live.shown(is_first=True)

    async def do_act(self, episode: str, text: str) -> tuple[Observation, Shown | None]:
        """A turn of text."""
        live = self._live[episode]
        async with live.busy:
            seen: Observation = await live.session.act(text)
        return seen, None if seen.terminated else live.shown()

    async def do_call(self, episode: str, call: ToolCall) -> tuple[Observation, Shown | None]:
        """A call of a tool."""
        live = self._live[episode]
        async with live.busy:
            seen: Observation = await live.session.call(call)
        return seen, None if seen.terminated else live.shown()

    async def do_outcome(self, episode: str) -> Outcome:
        """What the episode has come to."""
        live = self._live[episode]
        async with live.busy:
            found: Outcome = await live.session.outcome()
        return found

    async def do_close(self, episode: str) -> None:
        """Close a session; nothing happens where it is closed."""
        live = self._live.pop(episode, None)
        if live is not None:
            async with live.busy:
                await live.opening.__aexit__(None, None, None)

    async def do_end(self) -> None:
        """Close what the environment holds: it is not asked for anything more."""
        for episode in list(self._live):
            await self.do_close(episode)
        environment: object = self._environment
        if isinstance(environment, Closable):
            await environment.close()
