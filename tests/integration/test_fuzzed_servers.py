"""Any request at all: both servers answer or refuse it, in their shape, and go on.

Bodies are requests that would be answered, with parts of them replaced, dropped or added. What was
found this way is kept below as cases. The suite tries a hundred of each kind; this tries 10,000,
which takes some ten minutes a server:

    .venv/bin/python -m pytest --hypothesis-profile=many tests/integration/test_fuzzed_servers.py
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.clients.serving import serving
from tests.integration.test_one_guard import environment
from tests.unit.engine.reference import build_policy

PATIENCE_S = 60.0
"""After which an answer is taken to hang."""

MADE_UP = {"id": "t", "split": "train", "level": 1, "instruction": "i", "data": {}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
FUNCTION = {"name": "look", "description": "Look.", "parameters": SCHEMA}
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
CHAT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": "r"},
    ],
    "max_tokens": 3,
    "n": 1,
    "stream": False,
    "stream_options": {"include_usage": True},
    "temperature": 1.0,
    "top_p": 0.9,
    "top_k": 5,
    "seed": 1,
    "stop": ["END"],
    "logprobs": True,
    "top_logprobs": 2,
    "tools": [{"type": "function", "function": FUNCTION}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    "chat_template_kwargs": {},
    "structured_outputs": {},
}
RESPONSE = {
    "model": "m",
    "instructions": "s",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": "r"},
    ],
    "max_output_tokens": 3,
    "tools": [{"type": "function", **FUNCTION}],
    "tool_choice": {"type": "function", "name": "look"},
    "text": {"format": {"type": "text"}},
    "include": [],
    "stream": False,
    "previous_response_id": None,
}
MESSAGE = {
    "model": "m",
    "system": [{"type": "text", "text": "s"}],
    "messages": [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]},
    ],
    "max_tokens": 3,
    "tools": [{"name": "look", "input_schema": SCHEMA}],
    "tool_choice": {"type": "auto"},
    "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
    "stop_sequences": ["END"],
    "stream": False,
}
COMPLETION = {"model": "m", "prompt": "Once", "max_tokens": 3, "logprobs": 1, "stop": "END"}
GATEWAY = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSE,
    "/v1/messages": MESSAGE,
    "/v1/messages/count_tokens": MESSAGE,
    "/v1/completions": COMPLETION,
    "/v1/models": {},
    "/v1/models/x": {},
    "/nowhere": {},
}
TASK = {"id": "t", "split": "train", "level": 1, "instruction": "i", "data": {"equation": "x=1"}}
ENVIRONMENT = {
    "/reset": {"seed": 1, "split": "train", "task_id": "t", "task": TASK},
    "/step": {"episode_id": "e", "action": {"text": "a", "tool": "t", "arguments": {}, "id": "c"}},
    "/outcome": {"episode_id": "e"},
    "/close": {"episode_id": "e"},
    "/tasks/find": {"text": "t"},
    "/tasks/reference": {"seed": 1},
    "/tasks": {},
    "/state": {},
    "/practicum": {},
    "/nowhere": {},
}

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "\ud800", "\x00", "<|im_end|>", "<tool_call>", "{", "null", "a" * 3000, "auto", "-1"]
    ),
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([0, -1, 2**63, 10**400, 1e308, 1e-320]),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def changed(draw: st.DrawFn, value: Any, depth: int = 0) -> Any:
    """A value with parts of it replaced, dropped, doubled or added."""
    kind = draw(st.integers(0, 9))
    if kind == 0 or depth > 4:
        return draw(VALUES)
    if isinstance(value, dict):
        found = {}
        for name, one in value.items():
            what = draw(st.integers(0, 11))
            if what:
                found[name] = draw(changed(one, depth + 1)) if what < 4 else one
        if kind == 1:
            found[draw(TEXTS)] = draw(VALUES)
        return found
    if isinstance(value, list):
        found_items = [
            draw(changed(one, depth + 1)) if draw(st.booleans()) else one for one in value
        ]
        return found_items * draw(st.sampled_from([1, 1, 1, 0, 3]))
    return value if kind > 4 else draw(VALUES)


@st.composite
def requests(draw: st.DrawFn, routes: dict[str, Any]) -> tuple[str, str, bytes, str]:
    """A method, a path, a body and a content type."""
    path = draw(st.sampled_from(sorted(routes)))
    method = draw(st.sampled_from(["POST", "POST", "POST", "POST", "GET", "PUT", "DELETE"]))
    query = draw(st.sampled_from(["", "", "", "?seed=-1&offset=9&count=x", "?split=\ufffd&a"]))
    kind = draw(st.sampled_from(["application/json"] * 8 + ["text/plain", ""]))
    body = json.dumps(draw(changed(routes[path]))).encode()
    if draw(st.integers(0, 14)) == 0:
        body = draw(st.binary(max_size=50)) + body[: draw(st.integers(0, len(body)))]
    return method, path + query, body, kind


class Running:
    """A server in a thread of its own, and a client of it."""

    def __init__(self, address: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        self.client = httpx.Client(base_url=address, headers=headers, timeout=PATIENCE_S)

    def check(self, request: tuple[str, str, bytes, str]) -> None:
        """The request is answered or refused, as JSON or as events, and the server goes on."""
        method, path, body, kind = request
        headers = {"Content-Type": kind} if kind else {}
        answer = self.client.request(method, path, content=body, headers=headers)
        said = answer.text
        assert answer.status_code < 500 or answer.status_code == 503, (request, said)
        assert "Traceback" not in said
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            assert "the server failed" not in said, (request, said)
        else:
            json.loads(said)
        assert self.client.get("/health").status_code == 200


@contextmanager
def running(server: AbstractAsyncContextManager[tuple[str, str]]) -> Iterator[Running]:
    """Serves in a thread while the block runs."""
    loop, found, stop = asyncio.new_event_loop(), list[tuple[str, str]](), asyncio.Event()
    ready = threading.Event()

    async def serve() -> None:
        async with server as place:
            found.append(place)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(120)
    site = Running(*found[0])
    try:
        yield site
    finally:
        site.client.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join(240)
        loop.close()
    assert not thread.is_alive()


class GatewayServer:
    """The tiny model behind the gateway."""

    async def __aenter__(self) -> tuple[str, str]:
        self._serving = serving(build_policy(), max_tokens=3)
        served = await self._serving.__aenter__()
        return served.endpoint.url, served.endpoint.key

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)


class EnvironmentSite:
    """An environment behind its server."""

    async def __aenter__(self) -> tuple[str, str]:
        self._serving = environment(Path())
        target = await self._serving.__aenter__()
        return target.address, target.key

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)


@pytest.fixture(scope="module")
def gateway_site() -> Iterator[Running]:
    with running(GatewayServer()) as found:  # type: ignore[arg-type]
        # A rollout's address is not the server's, which has the health.
        base = str(found.client.base_url)
        found.client.base_url = httpx.URL(base.split("/rollouts")[0])
        yield found


@pytest.fixture(scope="module")
def environment_site() -> Iterator[Running]:
    with running(EnvironmentSite()) as found:  # type: ignore[arg-type]
        yield found


@given(requests(GATEWAY))
@example(
    ("POST", "/v1/chat/completions", b'{"messages": "\\ud800", "\\ud800": 1}', "application/json")
)
def test_the_gateway_answers_anything(
    gateway_site: Running, request_: tuple[str, str, bytes, str]
) -> None:
    gateway_site.check(request_)


@given(requests(ENVIRONMENT))
@example(("POST", "/reset", b'{"task_id": "\\ud800"}', "application/json"))
@example(("POST", "/reset", json.dumps({"task": MADE_UP}).encode(), "application/json"))
@example(
    (
        "POST",
        "/reset",
        json.dumps({"task": {**MADE_UP, "data": {"equation": ""}}}).encode(),
        "application/json",
    )
)
def test_the_environment_server_answers_anything(
    environment_site: Running, request_: tuple[str, str, bytes, str]
) -> None:
    environment_site.check(request_)
