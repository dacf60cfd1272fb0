"""The built-in agent loops: `DiscreteAgent` (actions) and `ToolLoopAgent` (tool calls)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from practicum.agents.call_styles import CallStyle, ParsedCall, TextCalls
from practicum.agents.waiting import timed_boundary
from practicum.core.capabilities import Foldable, HasRoles, TakesRoles, fewest_tokens
from practicum.core.errors import ContextFull, EnvironmentFailure, MessageTooLong
from practicum.core.interfaces import ChatCodec, Conversation, DiscreteSession, Session
from practicum.core.sampling import Actions, Completion
from practicum.core.trace import LONE_SURROGATE, Message, StopReason, ToolCall, Tools, readable


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextBudget:
    """Most tokens of a conversation, its next turn included."""

    codec: ChatCodec
    tokens: int
    turn_tokens: int
    """Most tokens of the next turn."""
    fold: bool = False
    """Whether results that the model has answered are shortened before the budget is exceeded."""

    def within(self, conversation: Conversation) -> "BudgetedConversation":
        """The conversation with this limit."""
        return BudgetedConversation(conversation, self)


FOLDED_CHARS = 100
"""Characters of an earlier result that stay when it is folded."""


def folded(message: Message) -> Message:
    """A result as it is shown once it is old: its beginning, and how much is left out.

    >>> folded(Message(role="tool", content="x" * 1100)).content[-45:]
    'xx [folded: 1000 of 1100 characters left out]'
    """
    text = message.content
    notice = f" [folded: {len(text) - FOLDED_CHARS} of {len(text)} characters left out]"
    if len(text) <= FOLDED_CHARS + len(notice):
        return message
    return replace(message, content=text[:FOLDED_CHARS] + notice)


class BudgetedConversation:
    """A conversation that raises `ContextFull` before a turn that might exceed the budget."""

    def __init__(self, conversation: Conversation, budget: ContextBudget) -> None:
        self._conversation = conversation
        self._budget = budget
        self._used = 0
        self._ended_turn: bool | None = None

    async def complete(
        self, messages: Sequence[Message], actions: Actions = (), tools: Tools = ()
    ) -> Completion:
        """See `Conversation`."""
        codec, budget = self._budget.codec, self._budget
        if (least := fewest_tokens(codec, messages)) > budget.tokens:
            raise MessageTooLong(
                f"the environment's text has {least} tokens or more and agent.context_tokens is "
                f"{budget.tokens}; shorten it, or raise agent.context_tokens"
            )
        if self._ended_turn is None:
            given = codec.open(messages, tools)
        else:
            given = codec.extend(messages, self._ended_turn)
        needed = self._used + len(given) + budget.turn_tokens
        if needed > budget.tokens and budget.fold and isinstance(self._conversation, Foldable):
            needed -= self._used
            self._used = self._conversation.fold(folded)
            needed += self._used
        if needed > budget.tokens:
            raise ContextFull(
                f"the next turn may need {needed} tokens and agent.context_tokens is "
                f"{budget.tokens}; raise it, or lower rollouts.max_tokens"
            )
        completion = await self._conversation.complete(messages, actions, tools)
        self._used += len(given) + len(completion.token_ids)
        self._ended_turn = completion.ended_turn
        return completion


def _checked(opening: Sequence[Message]) -> Sequence[Message]:
    """The messages that open a conversation; raises where no model can be given them."""
    for message in opening:
        if found := LONE_SURROGATE.search(message.content):
            raise ValueError(
                f"the task's {message.role} prompt has {found.group()!r} at character "
                f"{found.start() + 1}, half of a surrogate pair, which is no text; mend it in the "
                "task"
            )
    return opening


def _unreadable(call: ToolCall) -> str:
    """What is wrong with arguments that no environment could encode; empty for all others."""
    written = json.dumps(dict(call.arguments), ensure_ascii=False)
    found = LONE_SURROGATE.search(written)
    return f"an argument has {found.group()!r}, which is no character" if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteAgent:
    """Samples an action, performs it in the session, and shows the model the observation."""

    max_turns: int = 8
    budget: ContextBudget | None = None
    """Limits the conversation's length; None leaves it to the model's context."""
    frozen: tuple[str, ...] = ()
    """Roles that act and do not learn."""

    async def run(self, session: DiscreteSession, conversation: Conversation) -> StopReason:
        """Runs the session to its end, or to `max_turns` of all roles together."""
        by_role: dict[str, Conversation] = {}
        messages: Sequence[Message] = ()
        for _ in range(self.max_turns):
            async with timed_boundary(EnvironmentFailure, "the environment"):
                role = session.role() if isinstance(session, HasRoles) else ""
                if role not in by_role:
                    messages = _checked(session.prompt())
                actions = tuple(session.actions())
            own = by_role.setdefault(role, self._within_budget(conversation))
            if role and isinstance(conversation, TakesRoles):
                conversation.speak_as(role, learns=role.partition("/")[0] not in self.frozen)
            completion = await own.complete(messages, actions)
            async with timed_boundary(EnvironmentFailure, "the environment"):
                observation = await session.act(completion.text)
            if observation.terminated:
                return StopReason.FINISHED
            messages = [readable(observation.message)]
        return StopReason.MAX_TURNS

    def _within_budget(self, conversation: Conversation) -> Conversation:
        return conversation if self.budget is None else self.budget.within(conversation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLoopAgent:
    """Samples a turn, runs its tool calls in order, and shows the model their results.

    A call that cannot be parsed costs a turn; its result is an error message.
    """

    max_turns: int = 8
    style: CallStyle = field(default_factory=TextCalls)
    budget: ContextBudget | None = None
    """Limits the conversation's length; None leaves it to the model's context."""
    on_text: Literal["ask", "finish"] = "ask"
    """A turn without a call is answered with how to call a tool. With `finish` this happens once,
    and the next such turn ends the episode."""

    async def run(self, session: Session, conversation: Conversation) -> StopReason:
        """Runs the session to its end, or to `max_turns`."""
        if self.budget is not None:
            conversation = self.budget.within(conversation)
        async with timed_boundary(EnvironmentFailure, "the environment"):
            offered = tuple(session.tools())
            messages, shown = self.style.show_tools(_checked(session.prompt()), offered)
        was_asked = False
        for _ in range(self.max_turns):
            completion = await conversation.complete(messages, tools=shown)
            calls = self.style.parse_calls(completion, offered)
            if self.on_text == "finish" and calls[0].is_text:
                if was_asked:
                    return StopReason.FINISHED
                was_asked = True
            messages, is_over = await self._carry_out(session, calls)
            if is_over:
                return StopReason.FINISHED
        return StopReason.MAX_TURNS

    async def _carry_out(
        self, session: Session, calls: Sequence[ParsedCall]
    ) -> tuple[list[Message], bool]:
        """The results of a turn's calls, in order; calls after the session's end are not run."""
        results: list[Message] = []
        for parsed in calls:
            if error := parsed.error or _unreadable(parsed.call):
                message = Message(role="tool", content=f"Error: {error}.", is_error=True)
                message = readable(message)  # it may quote what the policy wrote
            else:
                async with timed_boundary(EnvironmentFailure, "the environment"):
                    observation = await session.call(parsed.call)
                if observation.terminated:
                    return results, True
                message = readable(observation.message)
            results.append(self.style.show_result(message, parsed.call))
        return results, False
