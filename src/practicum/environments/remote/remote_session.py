"""Sessions on a server, and the validation of everything it sends.

Malformed data (a reward that is no number, a message without text, turns after the end) is an
`EnvironmentFailure`, which masks the episode; it never becomes a reward.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, get_args

from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message, Role, ToolCall, ToolSpec
from practicum.environments.remote.servers import RemoteOptions, Server
from practicum.environments.remote.wire import EpisodeSocket, NetworkThread, ServerBusy


def read_number(value: Any, what: str) -> float | None:
    """A finite number or None. OpenEnv allows booleans: True is 1, False is 0."""
    if value is None:
        return None
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise EnvironmentFailure(f"the server gave {value!r} as {what}, which is no number")
    return float(value)


def read_texts(value: Any, what: str) -> tuple[str, ...]:
    """A list of strings."""
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise EnvironmentFailure(f"the server gave no list of texts as {what}")
    return tuple(value)


def read_messages(value: Any) -> list[Message]:
    """The messages that the policy sees; at least one."""
    if not isinstance(value, list) or not value:
        raise EnvironmentFailure("the server showed no messages")
    return [_message(one) for one in value]


def _message(value: Any) -> Message:
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    role: Any = fields.get("role")
    content, call = fields.get("content"), fields.get("tool_call_id")
    if role not in get_args(Role) or not isinstance(content, str):
        raise EnvironmentFailure(f"the server's message {str(value)[:80]!r} cannot be read")
    return Message(role=role, content=content, tool_call_id=call if isinstance(call, str) else None)


def read_tools(value: Any) -> list[ToolSpec]:
    """The tools of an episode."""
    tools = []
    for one in value if isinstance(value, list) else [None]:
        fields: Mapping[str, Any] = one if isinstance(one, Mapping) else {}
        name, about = fields.get("name"), fields.get("description", "")
        parameters = fields.get("parameters", {})
        if not isinstance(name, str) or not isinstance(parameters, dict):
            raise EnvironmentFailure(f"the server's tool {str(one)[:80]!r} cannot be read")
        tools.append(ToolSpec(name=name, description=str(about), parameters=parameters))
    return tools


def read_outcome(value: Mapping[str, Any]) -> Outcome:
    """The evidence of an episode."""
    success, rewards = value.get("success"), value.get("turn_rewards")
    evidence = value.get("evidence")
    known = success is None or isinstance(success, bool)
    if not known or not isinstance(rewards, list) or not isinstance(evidence, dict):
        raise EnvironmentFailure(f"the server's outcome {str(value)[:80]!r} cannot be read")
    paid = [read_number(reward, "a turn's reward") for reward in rewards]
    if None in paid:
        raise EnvironmentFailure("the server's outcome has a turn without a reward")
    return Outcome(
        success=success, turn_rewards=tuple(p for p in paid if p is not None), evidence=evidence
    )


def read_task(value: Any, env: str) -> Task:
    """A task from a Practicum server, see `Task.to_json`."""
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    split: Split = "heldout" if fields.get("split") == "heldout" else "train"
    level, data = fields.get("level"), fields.get("data")
    named = isinstance(fields.get("id"), str) and isinstance(fields.get("instruction"), str)
    if not named or not isinstance(level, int) or not isinstance(data, dict):
        raise EnvironmentFailure(f"the server's task {str(value)[:80]!r} cannot be read")
    return Task(
        id=fields["id"],
        env=env,
        split=split,
        level=level,
        instruction=fields["instruction"],
        data=data,
    )


class RemoteEpisode:
    """The connection of one episode; its requests run on the network thread."""

    def __init__(
        self, socket: EpisodeSocket, network: NetworkThread, server: Server, options: RemoteOptions
    ) -> None:
        self._socket = socket
        self._network = network
        self._server = server
        self.options = options
        self.is_over = False

    async def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """One request and its answer."""
        try:
            return await self._network.run_async(
                self._socket.ask(kind, data, self.options.call_timeout_s)
            )
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
        """Report that the episode ended normally."""
        self._server.report_success()


def read_result(answer: Mapping[str, Any]) -> tuple[Mapping[str, Any], float | None]:
    """The observation and the reward of an answer to reset or step."""
    seen, done = answer.get("observation"), answer.get("done")
    if not isinstance(seen, Mapping) or not isinstance(done, bool):
        raise EnvironmentFailure(f"the server's answer {str(answer)[:80]!r} cannot be read")
    return seen, read_number(answer.get("reward"), "a reward")


class _PracticumEpisode:
    """What both kinds of session on a Practicum server share; `first` is what `reset` returned."""

    def __init__(self, episode: RemoteEpisode, first: Mapping[str, Any]) -> None:
        self._episode = episode
        self._prompt = read_messages(first.get("messages"))
        self._tools = read_tools(first.get("tools"))
        self._action_names = read_texts(first.get("actions"), "actions")

    def prompt(self) -> list[Message]:
        """The messages that open the conversation."""
        return list(self._prompt)

    async def outcome(self) -> Outcome:
        """The evidence, collected on the server."""
        found = read_outcome(await self._episode.ask("outcome", {}))
        self._episode.ended()
        return found

    async def _turn(self, action: dict[str, Any]) -> Observation:
        seen, _ = await self._episode.step(action)
        self._action_names = read_texts(seen.get("actions"), "actions")
        [message] = read_messages(seen.get("messages"))[:1]
        paid = read_number(seen.get("paid"), "a turn's reward")
        return Observation(message=message, reward=paid, terminated=self._episode.is_over)


class PracticumSession(_PracticumEpisode):
    """An episode of text turns; implements `DiscreteSession`."""

    def actions(self) -> tuple[ActionForm, ...]:
        """The actions to choose from; none where the policy writes free text."""
        return tuple(ActionForm(name=name) for name in self._action_names)

    async def act(self, text: str) -> Observation:
        """Carry out the action written as `text`."""
        return await self._turn({"text": text})


class PracticumToolSession(_PracticumEpisode):
    """An episode of tool calls; implements `Session`."""

    def tools(self) -> list[ToolSpec]:
        """Tools the policy may call."""
        return list(self._tools)

    async def call(self, call: ToolCall) -> Observation:
        """Carry out one tool call."""
        action = {"tool": call.name, "arguments": dict(call.arguments), "id": call.id}
        return await self._turn(action)


class OpenEnvSession:
    """An episode on any OpenEnv server; it succeeds when its rewards add up to `success_at`.

    Implements `DiscreteSession`.
    """

    def __init__(self, episode: RemoteEpisode, first: Mapping[str, Any], action_field: str) -> None:
        self._episode = episode
        self._first = first
        self._action_field = action_field
        self._rewards: list[float | None] = []

    def prompt(self) -> list[Message]:
        """The config's instruction, and the first observation."""
        told = self._episode.options.instruction
        system = [Message(role="system", content=told)] if told else []
        return [*system, Message(role="user", content=self._text(self._first))]

    def actions(self) -> tuple[ActionForm, ...]:
        """None are known: the policy writes free text."""
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
