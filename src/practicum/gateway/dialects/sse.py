"""Server-sent events that carry their own type, as two of the dialects have them."""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["typed_event"]


def typed_event(event: Mapping[str, Any]) -> str:
    r"""One event with its blank line.

    >>> typed_event({"type": "ping"})
    'event: ping\ndata: {"type":"ping"}\n\n'
    """
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n"
