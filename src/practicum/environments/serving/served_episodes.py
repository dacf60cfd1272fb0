"""Settings of an environment server, and its live episodes: opened, found by id, closed when idle.

Nothing here depends on a network protocol. A failure of the environment closes its episode and is a
`Refusal`, which no client can mistake for a result.
"""

import asyncio
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from practicum.core.capabilities import HasRoles, actions_of, tools_of
from practicum.core.errors import UserError, is_failure
from practicum.core.interfaces import DiscreteSession, Environment, Observation
from practicum.core.loopback import is_loopback
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import ToolCall
from practicum.environments.serving.env_records import Refusal, message_json, tool_json

KEY_VARIABLE = "PRACTICUM_ENV_KEY"
"""Environment variable for the key: unlike a command line in /proc, a process's environment is not
readable by other users of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How one environment is served."""

    key: str
    """The bearer token of all routes but LifelongAgentBench's and `/health`."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one."""
    names: tuple[str, ...] = ()
    """Values of the Host header that are accepted besides `host`."""
    max_episodes: int = 128
    """Most live episodes; one more is refused until another ends."""
    idle_s: float = 600.0
    """Seconds without a request after which an episode is closed: its client is gone."""
    step_timeout_s: float = 300.0
    """Time limit of opening an episode, of a turn and of the check; beyond it the episode fails."""
    max_turns: int = 0
    """Turns after which an episode is over; 0 leaves that to the environment and the client."""
    max_body_bytes: int = 4 * 1024 * 1024
    """Limit of a request's body."""
    lifelong: bool = False
    """Whether the LifelongAgentBench routes are there. They have no key, so only on loopback."""
    factory_port: int = 8001
    """Port of LifelongAgentBench's chat history items; 0 for none."""
    samples: int = 500
    """Number of tasks that LifelongAgentBench sees."""

    def __post_init__(self) -> None:
        """Refuse what would be unsafe, before anything listens."""
        if self.lifelong and not is_loopback(self.host):
            raise UserError(
                f"--lifelong cannot be used with --host {self.host}: its client sends no key, so "
                "anyone who reaches that address could use it; leave --host away and reach the "
                "server through an SSH tunnel"
            )


T = TypeVar("T")


@dataclass(slots=True, eq=False, kw_only=True)
class ServedEpisode:
    """One live episode."""

    id: str
    task: Task
    session: Any
    opened: AbstractAsyncContextManager[Any]
    first_observation: dict[str, JSON] = field(default_factory=dict)
    """What `reset` returns: prompt, actions and tools."""
    turns: int = 0
    is_over: bool = False
    outcome: Outcome | None = None
    last_used: float = field(default_factory=time.monotonic)
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the environment works on it: concurrent requests take turns."""

    def action_names(self) -> tuple[str, ...]:
        """The actions to choose from now; none where the policy writes free text.

        The syntax of an argument is a function of this process and cannot be sent, so where an
        action has one, none is listed.
        """
        forms = () if self.is_over else actions_of(self.session)
        if any(form.argument is not None for form in forms):
            return ()
        return tuple(form.name for form in forms)


class ServedEpisodes:
    """The live episodes of one environment. All methods run on one event loop."""

    def __init__(self, environment: Environment, settings: ServerSettings) -> None:
        self.environment = environment
        self.settings = settings
        self._live: dict[str, ServedEpisode] = {}
        self._pending = 0  # being opened; they count towards the limit

    def __len__(self) -> int:
        return len(self._live) + self._pending

    def get(self, episode_id: str) -> ServedEpisode:
        """The episode with this id."""
        episode = self._live.get(episode_id)
        if episode is None:
            raise Refusal.unknown(
                f"there is no episode {episode_id[:80]!r}: it was never opened, it ended, or it "
                f"was closed after {self.settings.idle_s:g} s of silence; open one with reset"
            )
        return episode

    async def open(self, task: Task, episode_id: str | None = None) -> ServedEpisode:
        """Start an episode, under the client's id or a random one."""
        if episode_id is not None and (not episode_id or len(episode_id) > 255):
            raise Refusal.invalid("episode_id must have 1 to 255 characters")
        if episode_id in self._live:
            raise Refusal.conflict(f"the episode {episode_id!r} is already under way")
        if len(self) >= self.settings.max_episodes:
            raise Refusal.full(self.settings.max_episodes)
        self._pending += 1
        try:
            opened, session = await self._with_timeout(self._enter(task), "opening the episode")
        finally:
            self._pending -= 1
        chosen = episode_id or secrets.token_urlsafe(16)
        episode = ServedEpisode(id=chosen, task=task, session=session, opened=opened)
        self._live[chosen] = episode
        async with self._exclusive(episode):
            episode.first_observation = await self._with_timeout(
                _first_observation(episode), "the prompt"
            )
        return episode

    async def _enter(self, task: Task) -> tuple[AbstractAsyncContextManager[Any], Any]:
        opened = self.environment.open(task)
        return opened, await opened.__aenter__()

    async def act(self, episode: ServedEpisode, action: Mapping[str, Any]) -> Observation:
        """Carry out one turn."""
        if episode.is_over:
            raise Refusal.conflict("the episode is over; open another with reset")
        async with self._exclusive(episode):
            seen = await self._with_timeout(_turn(episode.session, action), "the turn")
            if seen.reward is not None and not math.isfinite(seen.reward):
                raise Refusal.failed(f"the environment paid {seen.reward} for a turn")
            episode.turns += 1
            limit = self.settings.max_turns
            episode.is_over = seen.terminated or 0 < limit <= episode.turns
        return seen

    async def outcome(self, episode: ServedEpisode) -> Outcome:
        """The outcome; checked once, and the episode takes no turns afterwards."""
        async with self._exclusive(episode):
            episode.is_over = True
            if episode.outcome is None:
                found = await self._with_timeout(episode.session.outcome(), "the check")
                episode.outcome = found
            return episode.outcome

    async def close(self, episode: ServedEpisode) -> None:
        """End an episode; errors while closing are ignored, since its result is known."""
        if self._live.pop(episode.id, None) is not None:
            with suppress(Exception):
                async with asyncio.timeout(self.settings.step_timeout_s):
                    await episode.opened.__aexit__(None, None, None)

    async def close_idle(self, longer_than_s: float | None = None) -> int:
        """Close the episodes that had no request for `longer_than_s`; returns their number."""
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
        """Close every episode, as the server stops."""
        await asyncio.gather(*(self.close(episode) for episode in list(self._live.values())))

    @asynccontextmanager
    async def _exclusive(self, episode: ServedEpisode) -> AsyncIterator[None]:
        """Hold the episode's lock; a failure or a cancelled request inside closes the episode.

        After a cancellation the session is in an unknown state. The shield lets the closing finish
        although this request is cancelled.
        """
        async with episode.busy:
            self.get(episode.id)  # raises if it was closed while this request waited
            try:
                yield
            except BaseException as error:
                if not isinstance(error, Refusal) or error.status == 502:
                    await asyncio.shield(self.close(episode))
                raise
            finally:
                episode.last_used = time.monotonic()

    async def _with_timeout(self, work: Awaitable[T], what: str) -> T:
        """Await the environment, with the time limit; any failure becomes a `Refusal`."""
        limit = self.settings.step_timeout_s
        try:
            async with asyncio.timeout(limit):
                return await work
        except Refusal:
            raise
        except TimeoutError:
            raise Refusal.failed(f"{what} took more than {limit:g} s") from None
        except BaseException as error:
            if not is_failure(error):
                raise
            raise Refusal.failed(f"{what} failed: {type(error).__name__}: {error}") from error


async def _first_observation(episode: ServedEpisode) -> dict[str, JSON]:
    if isinstance(episode.session, HasRoles):
        raise Refusal.failed(
            f"several act in an episode of {episode.task.env!r}, each in a conversation of its "
            "own, and a client here has one; train where the environment is"
        )
    return {
        "episode_id": episode.id,
        "task_id": episode.task.id,
        "messages": [message_json(message) for message in episode.session.prompt()],
        "actions": list(episode.action_names()),
        "tools": [tool_json(tool) for tool in tools_of(episode.session)],
    }


async def _turn(session: Any, action: Mapping[str, Any]) -> Observation:
    """One turn: a text for a discrete session, a tool call for any other."""
    if isinstance(session, DiscreteSession):
        text = action.get("text")
        if not isinstance(text, str):
            raise Refusal.invalid('an action is {"text": "..."} here')
        return await session.act(text)
    tool, arguments = action.get("tool"), action.get("arguments", {})
    if not isinstance(tool, str) or not isinstance(arguments, dict):
        raise Refusal.invalid('an action is {"tool": "NAME", "arguments": {...}} here')
    call_id = action.get("id", "")
    if not isinstance(call_id, str):
        raise Refusal.invalid("the id of a tool call is a text")
    seen: Observation = await session.call(ToolCall(name=tool, arguments=arguments, id=call_id))
    return seen
