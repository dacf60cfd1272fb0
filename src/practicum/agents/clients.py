"""The client that a function of the user's is given: OpenAI's where it is installed."""

import importlib
import json
import urllib.error
import urllib.request
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from practicum.core.conversing import Endpoint

__all__ = ["PlainClient", "load_client", "open_client"]

TIMEOUT_S = 600.0


def open_client(endpoint: Endpoint, *, blocking: bool) -> Any:
    """A client bound to one rollout, to be used as a context manager.

    `openai.AsyncOpenAI` (or `openai.OpenAI` for a blocking function) where the package is there,
    else a `PlainClient`.
    """
    try:
        import openai
    except ImportError:
        return nullcontext(PlainClient(base_url=f"{endpoint.url}/v1", api_key=endpoint.key))
    address: dict[str, Any] = {"base_url": f"{endpoint.url}/v1", "api_key": endpoint.key}
    # On this machine there is no proxy between, and no certificate to load for each rollout.
    direct: dict[str, Any] = {"verify": False, "trust_env": False, "timeout": TIMEOUT_S}
    if blocking:
        return openai.OpenAI(**address, http_client=openai.DefaultHttpxClient(**direct))
    return openai.AsyncOpenAI(**address, http_client=openai.DefaultAsyncHttpxClient(**direct))


def load_client() -> None:
    """Import OpenAI's package now, where it is there: the first episode should not wait for it."""
    with suppress(ImportError):
        importlib.import_module("openai")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainClient:
    """Where the model is reached, for programs that bring a client of their own.

    `post` is enough for a first function without one.
    """

    base_url: str
    api_key: str

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send a JSON body, such as `client.post("chat/completions", {"messages": [...]})`.

        It blocks; await it as `asyncio.to_thread(client.post, path, body)`.
        """
        request = urllib.request.Request(
            f"{self.base_url}/{path}",
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.api_key}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            said = error.read(2000).decode("utf-8", "replace")
            raise RuntimeError(f"the model's server answered {error.code}: {said}") from None
        return found
