"""Records of the LifelongAgentBench protocol, and its server of chat history items.

In LifelongAgentBench the messages before the instruction are "chat history items": the rules (item
0, from the user) and the agent's "OK." (item 1). They are on a server of their own, where a client
may replace them for all later episodes.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from practicum.core.trace import Message
from practicum.environments.serving.env_records import Refusal
from practicum.environments.serving.openenv import read_body


class SampleStatus(StrEnum):
    """Status of an episode, as LifelongAgentBench names it."""

    INITIAL = "initial"
    RUNNING = "running"
    COMPLETED = "completed"
    AGENT_VALIDATION_FAILED = "agent_validation_failed"
    TASK_LIMIT_REACHED = "task_limit_reached"
    TASK_ENVIRONMENT_ERROR = "task_environment_error"
    TASK_UNKNOWN_ERROR = "task_unknown_error"
    AGENT_CONTEXT_LIMIT = "agent_context_limit"
    AGENT_OUT_OF_MEMORY = "agent_out_of_memory"
    AGENT_UNKNOWN_ERROR = "agent_unknown_error"


AGENT_FAULTS = frozenset(
    {
        SampleStatus.AGENT_CONTEXT_LIMIT,
        SampleStatus.AGENT_OUT_OF_MEMORY,
        SampleStatus.AGENT_UNKNOWN_ERROR,
    }
)
"""Set by the client when its model gave no turn, which ends the episode."""


class EvaluationOutcome(StrEnum):
    """Verdict of an episode."""

    UNSET = "unset"
    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNKNOWN = "unknown"
    IGNORED = "ignored"


class ChatItem(BaseModel):
    """One message."""

    role: Literal["user", "agent"]
    content: str


class ChatHistory(BaseModel):
    """All messages of an episode; the client sends them with every request."""

    value: list[ChatItem] = Field(default_factory=list)


class EvaluationRecord(BaseModel):
    """The verdict and its details."""

    outcome: EvaluationOutcome = EvaluationOutcome.UNSET
    detail_dict: dict[str, float | int | bool | None] | None = None


class LifelongSession(BaseModel):
    """The record of an episode; it is in every request and every answer."""

    model_config = ConfigDict(extra="ignore")

    task_name: str
    sample_index: int | str
    sample_status: SampleStatus = SampleStatus.INITIAL
    chat_history: ChatHistory = Field(default_factory=ChatHistory)
    finish_reason: str | None = None
    task_output: dict[str, str | None] | None = None
    evaluation_record: EvaluationRecord = Field(default_factory=EvaluationRecord)

    def say(self, role: Literal["user", "agent"], content: str) -> None:
        """Add a message."""
        self.chat_history.value.append(ChatItem(role=role, content=content))

    def end(self, status: SampleStatus, reason: str | None = None) -> None:
        """End the episode; `task_output` stays empty, as the answer is in the evidence."""
        self.sample_status = status
        self.finish_reason = reason
        self.task_output = {}

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        return self.model_dump(mode="json")


class MetricRow(BaseModel):
    """A finished episode, as a client reports it for metrics."""

    model_config = ConfigDict(extra="ignore")

    sample_index: int | str
    sample_status: SampleStatus
    evaluation_record: EvaluationRecord


PREFIX = "/api"
NAMES = (
    "ping",
    "get_attribute",
    "set_attribute",
    "construct",
    "get_chat_history_item_dict_deep_copy",
    "set",
)
FACTORY_PATHS = frozenset(f"{PREFIX}/{name}" for name in NAMES)
"""Every route; none asks for a key."""

MOST_ITEMS = 100
"""Items a client may set; there are two, or a few more with examples."""

ACKNOWLEDGED = "OK."
"""The agent's answer to the rules: LifelongAgentBench's histories alternate user and agent."""


class ChatItems:
    """The messages before the instruction: the environment's own, or a client's replacements."""

    def __init__(self) -> None:
        self._replaced: dict[int, ChatItem] = {}

    def history(self, opening: Sequence[Message]) -> list[ChatItem]:
        """The first messages of an episode; the last one, its instruction, is never replaced."""
        own = alternating(opening)
        rules = {**dict(enumerate(own[:-1])), **self._replaced}
        ordered = [item for _, item in sorted(rules.items())]
        if ordered and ordered[-1].role == "user":
            ordered.append(ChatItem(role="agent", content=ACKNOWLEDGED))
        return [*ordered, *own[-1:]]

    def rules(self, opening: Sequence[Message]) -> dict[int, ChatItem]:
        """The items before the instruction, by number."""
        return dict(enumerate(self.history(opening)[:-1]))

    def set(self, index: int, item: ChatItem, opening: Sequence[Message]) -> None:
        """Replace one item for all later episodes, or add one after the last."""
        last = min(len(self.rules(opening)), MOST_ITEMS - 1)
        if not 0 <= index <= last:
            raise Refusal.invalid(f"items are numbered 0 to {last}, where {last} would be new")
        if item.role != ("user", "agent")[index % 2]:
            raise Refusal.invalid("even items are the user's and odd ones the agent's")
        self._replaced[index] = item


def alternating(messages: Sequence[Message]) -> list[ChatItem]:
    """Messages as alternating turns of user and agent, with "OK." where the agent has none."""
    history: list[ChatItem] = []
    for message in messages:
        agent = message.role == "assistant"
        if history and not agent and history[-1].role == "user":
            history.append(ChatItem(role="agent", content=ACKNOWLEDGED))
        history.append(ChatItem(role="agent" if agent else "user", content=message.content))
    return history


def factory_router(
    items: ChatItems, sample_opening: Callable[[], Awaitable[list[Message]]]
) -> APIRouter:
    """The routes of the server of chat history items.

    Args:
        items: Shared with the task server, so that what is set here is what episodes open with.
        sample_opening: Returns the prompt of some episode.
    """
    routes = APIRouter(prefix=PREFIX)

    async def rules() -> dict[int, ChatItem]:
        return items.rules(await sample_opening())

    async def ping() -> dict[str, str]:
        return {"response": "Hello, World!"}

    async def get_attribute() -> dict[str, None]:
        return {"instance_factory_type": None, "instance_factory_parameter_dict": None}

    async def set_attribute() -> None:
        raise Refusal(
            "attributes of this server cannot be set from outside; use /api/set for its items",
            status=403,
            code="VALIDATION_ERROR",
        )

    async def construct(request: Request) -> dict[str, ChatItem]:
        body = await read_body(request)
        found, role = (await rules()), body.get("expected_role")
        item = found.get(_number(body.get("chat_history_item_index")))
        if item is None or role not in (None, item.role):
            raise Refusal.unknown(
                f"there is no such item for {role or 'any role'}; there are {sorted(found)}"
            )
        return {"chat_history_item": item}

    async def every_item() -> dict[str, dict[str, dict[str, ChatItem]]]:
        found = {str(index): item for index, item in (await rules()).items()}
        return {"chat_history_item_dict": {"value": found}}

    async def reword(request: Request) -> None:
        body = await read_body(request)
        role, content = body.get("role"), body.get("content")
        if role not in ("user", "agent") or not isinstance(content, str):
            raise Refusal.invalid("an item has a role (user or agent) and a content (text)")
        item = ChatItem(role=role, content=content)
        items.set(_number(body.get("prompt_index")), item, await sample_opening())

    handlers: tuple[Callable[..., Awaitable[object]], ...] = (
        ping,
        get_attribute,
        set_attribute,
        construct,
        every_item,
        reword,
    )
    for name, handle in zip(NAMES, handlers, strict=True):
        routes.post(f"/{name}")(handle)
    return routes


def _number(value: object) -> int:
    text = str(value)
    return int(text) if text.isdigit() and len(text) < 6 else -1
