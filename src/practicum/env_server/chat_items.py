"""The messages that open every LifelongAgentBench episode, and the small server that holds them.

That project keeps the rules (item 0, from the user) and the agent's "OK." (item 1) on a server of
their own, where a client may reword them for all episodes to come.
"""

from collections.abc import Awaitable, Callable, Sequence

from fastapi import APIRouter, Request

from practicum.core.trace import Message
from practicum.env_server.lifelong_records import ChatItem
from practicum.env_server.openenv import read_body
from practicum.env_server.refusals import Refusal

__all__ = ["FACTORY_PATHS", "ChatItems", "factory_router"]

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
"""What the agent says to the rules: that project's histories alternate between user and agent."""


class ChatItems:
    """The opening messages: the environment's own, or what a client has put in their place."""

    def __init__(self) -> None:
        self._reworded: dict[int, ChatItem] = {}

    def history(self, opening: Sequence[Message]) -> list[ChatItem]:
        """An episode's opening messages; the last is its instruction and stays its own."""
        own = alternating(opening)
        rules = {**dict(enumerate(own[:-1])), **self._reworded}
        ordered = [item for _, item in sorted(rules.items())]
        if ordered and ordered[-1].role == "user":
            ordered.append(ChatItem(role="agent", content=ACKNOWLEDGED))
        return [*ordered, *own[-1:]]

    def rules(self, opening: Sequence[Message]) -> dict[int, ChatItem]:
        """The items before the instruction, by number."""
        return dict(enumerate(self.history(opening)[:-1]))

    def set(self, index: int, item: ChatItem, opening: Sequence[Message]) -> None:
        """Reword one item for all episodes to come, or add one after the last."""
        last = min(len(self.rules(opening)), MOST_ITEMS - 1)
        if not 0 <= index <= last:
            raise Refusal.invalid(f"items are numbered 0 to {last}, where {last} would be new")
        if item.role != ("user", "agent")[index % 2]:
            raise Refusal.invalid("even items are the user's and odd ones the agent's")
        self._reworded[index] = item


def alternating(messages: Sequence[Message]) -> list[ChatItem]:
    """Messages as a history of user and agent in turn, the agent agreeing where it has no turn."""
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
    """The routes of the items' own server.

    Args:
        items: Shared with the task server, so that what is set here is what episodes open with.
        sample_opening: Gives the opening messages of some episode.
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
