"""An OpenEnv server that is not ours, and that can be told to misbehave."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

SCHEMA = {
    "action": {
        "properties": {"message": {"type": "string"}, "metadata": {"type": "object"}},
        "required": ["message"],
    }
}
FULL = json.dumps({"type": "error", "data": {"message": "at capacity", "code": "CAPACITY_REACHED"}})
SILENCE = "silence"
"""An answer that never comes."""


@dataclass
class Foreign:
    """Counts down from 3; each turn pays 0.5, the last one ends the episode."""

    address: str = ""
    schema: Any = field(default_factory=lambda: SCHEMA)
    step: Any = None
    """What steps are answered with in place of the truth: text as it is, or `SILENCE`."""
    reset: Any = None
    seeds: list[Any] = field(default_factory=list)
    open_now: int = 0
    refuses: int = 0
    """So many resets are answered with "at capacity"."""
    turns_away: int = 0
    """So many connections are told that before they ask, and closed."""

    async def talk(self, socket: ServerConnection) -> None:
        left = 3
        if self.turns_away:
            self.turns_away -= 1
            await socket.send(FULL)
            return
        self.open_now += 1
        try:
            async for raw in socket:
                message = json.loads(raw)
                if message["type"] == "close":
                    return
                left = 3 if message["type"] == "reset" else left - 1
                await self._answer(socket, message, left)
        finally:
            self.open_now -= 1

    async def _answer(self, socket: ServerConnection, message: Any, left: int) -> None:
        is_reset = message["type"] == "reset"
        if is_reset:
            self.seeds.append(message["data"].get("seed"))
        if is_reset and self.refuses:
            self.refuses -= 1
            await socket.send(FULL)
            return
        wrong = self.reset if is_reset else self.step
        if wrong == SILENCE:
            await socket.wait_closed()
        elif wrong == "hang up":
            await socket.close()
        elif wrong is not None:
            await socket.send(wrong)
        else:
            said = "" if is_reset else message["data"]["message"]
            seen = {"left": left, "said": said}
            data = {
                "observation": seen,
                "reward": None if is_reset else 0.5,
                "done": left == 0,
            }
            await socket.send(json.dumps({"type": "observation", "data": data}))

    def over_http(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == "/ws":
            return None
        found = {"/schema": self.schema, "/health": {"status": "healthy"}}.get(request.path)
        status = HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK
        body = json.dumps(found if found is not None else {"detail": "Not Found"}).encode()
        headers = Headers({"Content-Length": str(len(body)), "Connection": "close"})
        return Response(status.value, status.phrase, headers, body)


@asynccontextmanager
async def foreign_server() -> AsyncIterator[Foreign]:
    foreign = Foreign()
    async with serve(
        foreign.talk, "127.0.0.1", 0, process_request=foreign.over_http, close_timeout=0.2
    ) as server:
        [socket] = server.sockets
        foreign.address = f"http://127.0.0.1:{socket.getsockname()[1]}"
        yield foreign
