"""The episodes that are under way: opened, found by id, limited in number, closed when abandoned.

Nothing here knows a network protocol. Every failure of the environment ends its episode, and is a
`Refusal` that no client can take for a result.
"""

import asyncio
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from practicum.core.interfaces import Environment, Observation
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import ToolCall
from practicum.env_server.records import message_json, tool_json
from practicum.env_server.refusals import Refusal
from practicum.env_server.settings import ServerSettings

__all__ = ["Episode", "Episodes"]

T = TypeVar("T")


@dataclass(slots=True, eq=False, kw_only=True)
class Episode:
    """One live episode."""

    id: str
    task: Task
    session: Any
    opened: AbstractAsyncContextManager[Any]
    opening: dict[str, JSON] = field(default_factory=dict)
    """What the policy is shown first."""
    turns: int = 0
    is_over: bool = False
    outcome: Outcome | None = None
    last_used: float = field(default_factory=time.monotonic)
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the environment works on it: one turn at a time."""

    def action_names(self) -> tuple[str, ...]:
        """The actions to choose among now; none where the policy writes freely.

        An action with an argument has a syntax that only this process can follow, so it cannot be
        listed; then all are written freely.
        """
        listed = getattr(self.session, "actions", None)
        forms = () if listed is None or self.is_over else listed()
        if any(form.argument is not None for form in forms):
            return ()
        return tuple(form.name for form in forms)


class Episodes:
    """Every episode of one environment."""

    def __init__(self, environment: Environment, settings: ServerSettings) -> None:
        self.environment = environment
        self.settings = settings
        self._live: dict[str, Episode] = {}
        self._opening = 0

    def __len__(self) -> int:
        return len(self._live) + self._opening

    def get(self, episode_id: str) -> Episode:
        """The episode with this id."""
        episode = self._live.get(episode_id)
        if episode is None:
            raise Refusal.unknown(
                f"there is no episode {episode_id[:80]!r}: it was never opened, it ended, or it "
                f"was closed after {self.settings.idle_s:g} s of silence; open one with reset"
            )
        return episode

    async def open(self, task: Task, episode_id: str | None = None) -> Episode:
        """Start an episode; the id is made up here unless the client has one in mind."""
        if episode_id is not None and (not episode_id or len(episode_id) > 255):
            raise Refusal.invalid("episode_id must have 1 to 255 characters")
        if episode_id in self._live:
            raise Refusal.conflict(f"the episode {episode_id!r} is already under way")
        if len(self) >= self.settings.max_episodes:
            raise Refusal.full(self.settings.max_episodes)
        self._opening += 1
        try:
            opened = self.environment.open(task)
            session = await self._in_time(opened.__aenter__(), "opening the episode")
        finally:
            self._opening -= 1
        chosen = episode_id or secrets.token_urlsafe(16)
        episode = Episode(id=chosen, task=task, session=session, opened=opened)
        self._live[chosen] = episode
        async with self._working(episode):
            episode.opening = await self._in_time(_opening(episode), "the prompt")
        return episode

    async def act(self, episode: Episode, action: Mapping[str, Any]) -> Observation:
        """Carry out one turn."""
        if episode.is_over:
            raise Refusal.conflict("the episode is over; open another with reset")
        async with self._working(episode):
            seen = await self._in_time(_turn(episode.session, action), "the turn")
            if seen.reward is not None and not math.isfinite(seen.reward):
                raise Refusal.failed(f"the environment paid {seen.reward} for a turn")
            episode.turns += 1
            limit = self.settings.max_turns
            episode.is_over = seen.terminated or 0 < limit <= episode.turns
        return seen

    async def outcome(self, episode: Episode) -> Outcome:
        """The evidence; collected once, and nothing can be done in the episode afterwards."""
        async with self._working(episode):
            episode.is_over = True
            if episode.outcome is None:
                found = await self._in_time(episode.session.outcome(), "the check")
                episode.outcome = found
            return episode.outcome

    async def close(self, episode: Episode) -> None:
        """End an episode; what fails while closing concerns nobody any more."""
        if self._live.pop(episode.id, None) is not None:
            with suppress(Exception):
                async with asyncio.timeout(self.settings.step_timeout_s):
                    await episode.opened.__aexit__(None, None, None)

    async def close_idle(self, longer_than_s: float | None = None) -> int:
        """Close the episodes that nobody has used for so long; says how many."""
        limit = self.settings.idle_s if longer_than_s is None else longer_than_s
        now = time.monotonic()
        gone = [
            episode
            for episode in self._live.values()
            if not episode.busy.locked() and now - episode.last_used > limit
        ]
        await asyncio.gather(*(self.close(episode) for episode in gone))
        return len(gone)

    async def close_all(self) -> None:
        """The server stops: nothing of any episode may be left."""
        await asyncio.gather(*(self.close(episode) for episode in list(self._live.values())))

    @asynccontextmanager
    async def _working(self, episode: Episode) -> AsyncIterator[None]:
        """Hold the episode; an environment that fails, or is left in mid-work, ends it."""
        async with episode.busy:
            self.get(episode.id)  # it may have been closed while this request waited
            try:
                yield
            except BaseException as error:
                if not isinstance(error, Refusal) or error.status == 502:
                    await asyncio.shield(self.close(episode))
                raise
            finally:
                episode.last_used = time.monotonic()

    async def _in_time(self, work: Awaitable[T], what: str) -> T:
        """The result of the environment's work, or a refusal that says how it failed."""
        limit = self.settings.step_timeout_s
        try:
            async with asyncio.timeout(limit):
                return await work
        except Refusal:
            raise
        except TimeoutError:
            raise Refusal.failed(f"{what} took more than {limit:g} s") from None
        except Exception as error:
            raise Refusal.failed(f"{what} failed: {type(error).__name__}: {error}") from error


async def _opening(episode: Episode) -> dict[str, JSON]:
    listed = getattr(episode.session, "tools", None)
    return {
        "episode_id": episode.id,
        "task_id": episode.task.id,
        "messages": [message_json(message) for message in episode.session.prompt()],
        "actions": list(episode.action_names()),
        "tools": [tool_json(tool) for tool in listed()] if listed is not None else [],
    }


async def _turn(session: Any, action: Mapping[str, Any]) -> Observation:
    """One turn as the session takes it: a text, or a call of one of its tools."""
    seen: Observation
    if hasattr(session, "act"):
        text = action.get("text")
        if not isinstance(text, str):
            raise Refusal.invalid('an action is {"text": "..."} here')
        seen = await session.act(text)
        return seen
    tool, arguments = action.get("tool"), action.get("arguments", {})
    if not isinstance(tool, str) or not isinstance(arguments, dict):
        raise Refusal.invalid('an action is {"tool": "NAME", "arguments": {...}} here')
    call_id = action.get("id", "")
    if not isinstance(call_id, str):
        raise Refusal.invalid("the id of a tool call is a text")
    seen = await session.call(ToolCall(name=tool, arguments=arguments, id=call_id))
    return seen
