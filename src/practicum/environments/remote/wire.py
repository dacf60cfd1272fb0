"""Connections to a server: a WebSocket for each episode, HTTP otherwise, on a thread of their own.

Every error (no answer, malformed answer, closed connection) is an `EnvironmentFailure`, so that the
episode is masked.

The main event loop samples and learns, and is blocked for seconds at a time. On a separate thread
connections stay alive meanwhile, and a timeout measures the server and not the learner.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from practicum.core.errors import EnvironmentFailure, MissingExtra

try:
    import httpx
    import websockets.asyncio.client as sockets
    from websockets.exceptions import ConnectionClosed, WebSocketException
except ImportError:
    raise MissingExtra.for_extra("serve", "the environment 'remote'") from None


LONGEST_ANSWER = 64 * 1024 * 1024
"""Bytes; a longer answer is an error."""

CLOSING_S = 5.0


class ServerBusy(Exception):
    """The server is at its limit of episodes; worth trying again."""


class EpisodeSocket:
    """One WebSocket connection, which carries one episode."""

    def __init__(self, socket: sockets.ClientConnection) -> None:
        self._socket = socket

    async def ask(self, kind: str, data: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a message and read its answer's data."""
        message = json.dumps({"type": kind, **({"data": data} if kind != "state" else {})})
        try:
            async with asyncio.timeout(timeout_s):
                # A full server sends its error and closes without waiting for a request.
                with suppress(ConnectionClosed):
                    await self._socket.send(message)
                raw = await self._socket.recv()
        except TimeoutError:
            raise EnvironmentFailure(
                f"the server did not answer {kind!r} within {timeout_s:g} s"
            ) from None
        except (WebSocketException, OSError) as error:
            raise EnvironmentFailure(f"the connection broke at {kind!r}: {error}") from None
        return _answer(raw, kind)

    async def close(self) -> None:
        """Close the connection, and with it the episode."""
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._socket.send(json.dumps({"type": "close"}))
                await self._socket.close()
        except (TimeoutError, WebSocketException, OSError):
            self._socket.transport.abort()


async def connect(address: str, key: str, timeout_s: float) -> EpisodeSocket:
    """A connection to the server at an http address."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    url = "ws" + address.removeprefix("http") + "/ws"
    try:
        socket = await sockets.connect(
            url,
            additional_headers=headers,
            open_timeout=timeout_s,
            max_size=LONGEST_ANSWER,
            ping_interval=None,  # timeouts of requests find a dead server sooner
            proxy=None,
        )
    except (TimeoutError, WebSocketException, OSError, EOFError) as error:
        raise EnvironmentFailure(
            f"no connection to {address}: {str(error) or type(error).__name__}"
        ) from None
    return EpisodeSocket(socket)


async def http_request(
    address: str, path: str, key: str, timeout_s: float, *, body: Any = None
) -> tuple[int, Any]:
    """Status and JSON body of a GET, or of a POST where there is a `body`; None for no JSON."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        # Loading the certificates takes long, so only where one has to be verified.
        encrypted = address.startswith("https:")
        async with httpx.AsyncClient(
            timeout=timeout_s, trust_env=False, verify=encrypted
        ) as client:
            if body is None:
                answer = await client.get(address + path, headers=headers)
            else:
                answer = await client.post(address + path, headers=headers, json=body)
    except (httpx.HTTPError, OSError) as error:
        raise EnvironmentFailure(
            f"{address}{path} does not answer: {str(error) or type(error).__name__}"
        ) from None
    try:
        return answer.status_code, answer.json()
    except ValueError:
        return answer.status_code, None


def _answer(raw: str | bytes, kind: str) -> dict[str, Any]:
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        raise EnvironmentFailure(f"the answer to {kind!r} is no JSON: {raw[:80]!r}") from None
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict):
        raise EnvironmentFailure(f"the answer to {kind!r} has no data: {raw[:80]!r}")
    if answer.get("type") == "error":
        if data.get("code") == "CAPACITY_REACHED":
            raise ServerBusy(str(data.get("message")))
        raise EnvironmentFailure(f"the server: {data.get('message')} ({data.get('code')})")
    return data
