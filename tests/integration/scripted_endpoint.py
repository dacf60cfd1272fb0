"""A chat-completions server that says what a test wrote down, for agents that need an address."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "rk_a_key_that_must_not_be_written_down"

Reply = dict[str, Any] | int | Callable[[dict[str, Any]], dict[str, Any]]
"""A message, a status to refuse with, or a function of the request."""


@dataclass
class Endpoint:
    """What `Conversation.endpoint` gives, and what was asked there."""

    url: str
    key: str = KEY
    requests: list[dict[str, Any]] = field(default_factory=list)

    def endpoint(self) -> "Endpoint":
        return self

    @property
    def last_seen(self) -> str:
        """The text of the last message the model was shown."""
        content = self.requests[-1]["messages"][-1]["content"]
        return content if isinstance(content, str) else "".join(part["text"] for part in content)


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """An assistant's message that calls tools."""
    made = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(wanted)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def run(command: str) -> dict[str, Any]:
    """A call of OpenHands' terminal."""
    return calls(("terminal", {"command": command}))


def finish(message: str) -> dict[str, Any]:
    """A call of OpenHands' finish."""
    return calls(("finish", {"message": message}))


def says(text: str) -> dict[str, Any]:
    """A message without a call."""
    return {"role": "assistant", "content": text}


@contextmanager
def scripted(script: Sequence[Reply], delay_s: float = 0.0) -> Iterator[Endpoint]:
    """Serve the script, one reply a request; the last is repeated."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert self.headers["authorization"] == f"Bearer {KEY}"
            served.requests.append(body)
            time.sleep(delay_s)
            reply = script[min(len(served.requests), len(script)) - 1]
            if isinstance(reply, int):
                self._send(reply, {"error": {"message": "no more room", "type": "bad"}})
                return
            message = reply(body) if callable(reply) else reply
            self._send(200, _answer(message))

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # a client that was killed
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = Endpoint(url=f"http://127.0.0.1:{server.server_port}/rollouts/test")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    reason = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "policy",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
