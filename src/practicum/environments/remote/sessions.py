"""Episodes on a server."""

import json
from collections.abc import Mapping
from typing import Any

from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.environments.remote.answers import (
    finite,
    read_messages,
    read_outcome,
    read_tools,
    texts,
)
from practicum.environments.remote.network import NetworkThread
from practicum.environments.remote.options import RemoteOptions
from practicum.environments.remote.servers import Server
from practicum.environments.remote.wire import Line, ServerBusy

__all__ = ["ForeignSession", "OwnSession", "OwnToolSession", "RemoteEpisode", "read_result"]


class RemoteEpisode:
    """The line to one episode; its calls run on the network's thread."""

    def __init__(
        self, line: Line, network: NetworkThread, server: Server, options: RemoteOptions
    ) -> None:
        self._line = line
        self._network = network
        self._server = server
        self.options = options
        self.is_over = False

    async def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """One call."""
        try:
            return await self._network.go(self._line.ask(kind, data, self.options.call_timeout_s))
        except ServerBusy as busy:
            raise EnvironmentFailure(f"the server: {busy}") from None

    async def step(self, action: dict[str, Any]) -> tuple[Mapping[str, Any], float | None]:
        """One turn: what is observed, and its reward."""
        if self.is_over:
            raise RuntimeError("the episode is over; open a new session for another one")
        answer = await self.ask("step", action)
        seen, reward = read_result(answer)
        self.is_over = answer["done"]
        return seen, reward

    def ended(self) -> None:
        """The episode came to its end as it should."""
        self._server.answered()


def read_result(answer: Mapping[str, Any]) -> tuple[Mapping[str, Any], float | None]:
    """The observation and the reward of an answer to reset or step."""
    seen, done = answer.get("observation"), answer.get("done")
    if not isinstance(seen, Mapping) or not isinstance(done, bool):
        raise EnvironmentFailure(f"the server's answer {str(answer)[:80]!r} cannot be read")
    return seen, finite(answer.get("reward"), "a reward")


class _OwnEpisode:
    """What both kinds of session on a Practicum server share."""

    def __init__(self, episode: RemoteEpisode, opening: Mapping[str, Any]) -> None:
        self._episode = episode
        self._opening = read_messages(opening.get("messages"))
        self._tools = read_tools(opening.get("tools"))
        self._names = texts(opening.get("actions"), "actions")

    def prompt(self) -> list[Message]:
        """The messages that open the conversation."""
        return list(self._opening)

    async def outcome(self) -> Outcome:
        """The evidence, collected on the server."""
        found = read_outcome(await self._episode.ask("outcome", {}))
        self._episode.ended()
        return found

    async def _turn(self, action: dict[str, Any]) -> Observation:
        seen, _ = await self._episode.step(action)
        self._names = texts(seen.get("actions"), "actions")
        [message] = read_messages(seen.get("messages"))[:1]
        paid = finite(seen.get("paid"), "a turn's reward")
        return Observation(message=message, reward=paid, terminated=self._episode.is_over)


class OwnSession(_OwnEpisode):
    """An episode of text turns; implements `DiscreteSession`."""

    def actions(self) -> tuple[ActionForm, ...]:
        """The actions to choose among; none where the policy writes freely."""
        return tuple(ActionForm(name=name) for name in self._names)

    async def act(self, text: str) -> Observation:
        """Carry out the action written as `text`."""
        return await self._turn({"text": text})


class OwnToolSession(_OwnEpisode):
    """An episode of tool calls; implements `Session`."""

    def tools(self) -> list[ToolSpec]:
        """Tools the policy may call."""
        return list(self._tools)

    async def call(self, call: ToolCall) -> Observation:
        """Carry out one tool call."""
        action = {"tool": call.name, "arguments": dict(call.arguments), "id": call.id}
        return await self._turn(action)


class ForeignSession:
    """An episode on any OpenEnv server: text in, text out, rewards added up.

    Implements `DiscreteSession`.
    """

    def __init__(
        self, episode: RemoteEpisode, opening: Mapping[str, Any], action_field: str
    ) -> None:
        self._episode = episode
        self._opening = opening
        self._action_field = action_field
        self._rewards: list[float | None] = []

    def prompt(self) -> list[Message]:
        """The config's instruction, and the first observation."""
        told = self._episode.options.instruction
        system = [Message(role="system", content=told)] if told else []
        return [*system, Message(role="user", content=self._text(self._opening))]

    def actions(self) -> tuple[ActionForm, ...]:
        """None are known: the policy writes freely."""
        return ()

    async def act(self, text: str) -> Observation:
        """Send the text as an action."""
        seen, reward = await self._episode.step({self._action_field: text})
        self._rewards.append(reward)
        message = Message(role="user", content=self._text(seen))
        return Observation(message=message, reward=reward, terminated=self._episode.is_over)

    async def outcome(self) -> Outcome:
        """Whether the rewards add up to a success."""
        paid = tuple(reward or 0.0 for reward in self._rewards)
        self._episode.ended()
        return Outcome(
            success=sum(paid) >= self._episode.options.success_at,
            turn_rewards=paid if any(r is not None for r in self._rewards) else (),
            evidence={"total_reward": sum(paid), "done": self._episode.is_over},
        )

    def _text(self, seen: Mapping[str, Any]) -> str:
        wanted = self._episode.options.observation_field
        if not wanted:
            return json.dumps(dict(seen), ensure_ascii=False)
        if wanted not in seen:
            there = ", ".join(map(str, seen)) or "nothing"
            raise EnvironmentFailure(f"the observation has no {wanted!r}; it has {there}")
        part = seen[wanted]
        return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
