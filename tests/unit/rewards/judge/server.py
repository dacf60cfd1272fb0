"""A server on this machine that answers as an OpenAI-compatible one does."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def answering(
    answer: Callable[[dict[str, Any]], tuple[int, str]],
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Its address, and what it has been asked so far: path, key and the fields of the body."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append({"path": self.path, "key": self.headers.get("Authorization"), **content})
            status, body = answer(content)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *words: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}/v1", asked
        finally:
            listening.shutdown()
            thread.join()


def completion(text: str) -> str:
    """The body of a whole answer."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return json.dumps({"choices": [{"message": {"content": text}}], "usage": usage})
