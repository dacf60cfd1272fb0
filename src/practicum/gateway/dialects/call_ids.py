"""Ids of tool calls, as clients see them."""

__all__ = ["call_id"]


def call_id(answer_id: str, index: int) -> str:
    """The id of a turn's call: known before the turn is over, and unlike those of other turns.

    Clients file tool results by it, some of them for the whole conversation.

    >>> call_id("a1", 0)
    'call_a1_0'
    """
    return f"call_{answer_id}_{index}"
