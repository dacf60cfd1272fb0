"""One line of JSON for each request, and the counters of the same: never what was said."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from practicum.gateway.serving.serving_metrics import ServingMetrics
from practicum.gateway.serving.traffic_recorder import RECORDED_HEADER

EXCHANGE = "practicum.exchange"
"""Key of the ASGI scope under which a request's `Exchange` is."""

QUIET_PATHS = frozenset({"/health", "/ready", "/metrics"})
"""Asked every few seconds by machines: not logged, and not counted."""

OTHER = "other"
"""The route of a path that the server does not have; paths are no labels of a metric."""


@dataclass(slots=True)
class Exchange:
    """What is noted of a request while it is answered."""

    key: str = ""
    """The key's name."""
    route: str = OTHER
    id: str = ""
    model: str = ""
    fingerprint: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    queue_s: float = 0.0
    is_streamed: bool = False
    is_recorded: bool = False
    recorded_told: str = ""
    """What the client is told of that; nothing where the server records nothing."""


class AccessLog:
    """ASGI middleware around everything else, the guard too: refused requests are logged.

    Args:
        app: What it is around.
        metrics: Where requests are counted.
        write: Takes one line; None writes none.
    """

    def __init__(
        self, app: ASGIApp, metrics: ServingMetrics, write: Callable[[str], None] | None
    ) -> None:
        self._app, self._metrics, self._write = app, metrics, write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and notes how it went."""
        if scope["type"] != "http" or scope["path"] in QUIET_PATHS:
            await self._app(scope, receive, send)
            return
        exchange = scope[EXCHANGE] = Exchange()
        started, at, status = time.monotonic(), time.time(), 499

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _headers(exchange, message["headers"])}
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except Exception:
            status = 500  # answered so outside of all middleware
            raise
        finally:
            seconds = time.monotonic() - started
            self._metrics.requests[(exchange.route, exchange.model, str(status))] += 1
            if status < 400:
                self._metrics.seconds[(exchange.route, exchange.model)].add(seconds)
            if self._write is not None:
                self._write(json.dumps(_line(scope, exchange, at, seconds, status)))


IDS = (b"x-request-id", b"request-id")
"""Where OpenAI's and Anthropic's clients look for an answer's id."""


def _headers(exchange: Exchange, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """An answer's head: one id, the exchange's own where it has one, and the weights it is from."""
    rest = [(name, value) for name, value in given if name not in IDS]
    exchange.id = exchange.id or next((v.decode() for name, v in given if name in IDS), "")
    said = {
        **dict.fromkeys(IDS, exchange.id),
        b"x-practicum-fingerprint": exchange.fingerprint,
        RECORDED_HEADER.encode(): exchange.recorded_told,
    }
    return [*rest, *((name, value.encode()) for name, value in said.items() if value)]


def _line(
    scope: Scope, exchange: Exchange, at: float, seconds: float, status: int
) -> dict[str, Any]:
    client = scope.get("client")
    return {
        "at": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
        "id": exchange.id,
        "client": client[0] if client else "",
        "key": exchange.key,
        "method": scope["method"],
        "path": scope["path"][:200],
        "status": status,
        "seconds": round(seconds, 4),
        "queue_s": round(exchange.queue_s, 4),
        "model": exchange.model,
        "fingerprint": exchange.fingerprint,
        "prompt_tokens": exchange.prompt_tokens,
        "completion_tokens": exchange.completion_tokens,
        "stream": exchange.is_streamed,
        "recorded": exchange.is_recorded,
    }
