"""`JudgeRelay`: lets graders in a machine without a network ask the model that judges.

A grader's questions come to a port inside the machine and are passed on to the endpoint from here,
with the key, which the machine never sees. The port is there only while a grader runs.
"""

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRelay:
    """Where the judge is, and how it is called."""

    endpoint: str
    """Of an OpenAI-compatible server, such as `http://127.0.0.1:8000/v1`."""
    model: str
    key: str = ""

    def environment(self, port: int) -> dict[str, str]:
        """What TheAgentCompany's graders read to find their judge."""
        return {
            "LITELLM_API_KEY": "kept-outside",
            "LITELLM_BASE_URL": f"http://127.0.0.1:{port}/v1",
            "LITELLM_MODEL": f"openai/{self.model}",
        }

    @contextmanager
    def serving(self, listener: socket.socket) -> Iterator[list[str]]:
        """Serve a listening socket of the machine; yields a list of what went wrong."""
        faults: list[str] = []
        relay = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, answer = relay.ask(body, faults)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *words: object) -> None:
                """Say nothing on standard error."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = listener
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield faults
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def ask(self, body: bytes, faults: list[str]) -> tuple[int, bytes]:
        """The judge's answer to a request; a judge that does not answer is one of the faults."""
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        url = f"{self.endpoint.rstrip('/')}/chat/completions"
        try:
            request = urllib.request.Request(url, body, headers)
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            faults.append(f"the judge at {self.endpoint} answered {error.code}")
            return error.code, error.read()
        except (OSError, ValueError) as error:
            faults.append(f"the judge at {self.endpoint} did not answer: {error}")
            return 502, json.dumps({"error": {"message": str(error)}}).encode()
