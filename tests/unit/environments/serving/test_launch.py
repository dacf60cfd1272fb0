"""A server in this process, and our own client on it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.environments.serving.toy import KEY, SETTINGS, ToyEnvironment, toy_task

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.trace import ToolCall
from practicum.core.trusted_code import remember, trust_secret
from practicum.environments.registry import build_environment
from practicum.environments.remote.remote_environment import RemoteEnvironment
from practicum.environments.serving.env_server import serve


@asynccontextmanager
async def remote_over(
    environment: ToyEnvironment, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[RemoteEnvironment]:
    """The environment as a client sees it; the server stops when its standard input ends."""
    reading, writing = os.pipe()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setenv("PRACTICUM_ENV_KEY", KEY)
        running = asyncio.create_task(
            serve(
                environment,
                replace(SETTINGS, port=0, step_timeout_s=0.5),
                lambda where, _: address.set_result(where),
                stop_with_stdin=True,
            )
        )
        remember(trust_secret("PRACTICUM_ENV_KEY", await address))
        remote = build_environment("remote", {"url": await address, **options})
        assert isinstance(remote, RemoteEnvironment)
        try:
            yield remote
        finally:
            await remote.close()
            os.close(writing)
            await asyncio.wait_for(running, 120)


async def test_tool_calls_go_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = ToyEnvironment(tools=True)
    async with remote_over(environment, monkeypatch) as remote:
        assert await asyncio.to_thread(lambda: remote.session_kind) == "tools"
        async with remote.open(toy_task(3)) as session:
            assert [tool.name for tool in session.tools()] == ["say"]
            assert session.prompt()[-1].content == "task 3"
            call = ToolCall(name="say", arguments={"word": "right"}, id="1")
            assert (await session.call(call)).terminated
            assert (await session.outcome()).success is True
    assert (environment.open_now, environment.is_closed) == (0, True)


async def test_evidence_and_pay_come_over_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async with remote_over(ToyEnvironment(pays=0.1), monkeypatch) as remote:
        async with remote.open(toy_task(0)) as session:
            assert [form.name for form in session.actions()] == ["right", "wrong", "more"]
            assert (await session.act("more")).reward == 0.1
            outcome = await session.outcome()
            with pytest.raises(EnvironmentFailure, match="episode is over"):
                await session.act("right")
        assert outcome.turn_rewards == (0.1,)
        assert outcome.evidence == {"said": ["more"], "sum": 0.5}


async def test_an_outcome_that_cannot_be_said_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with remote_over(ToyEnvironment(), monkeypatch) as remote:
        async with remote.open(toy_task(0)) as session:
            await session.act("unclear")
            outcome = await session.outcome()
        assert (outcome.success, outcome.turn_rewards) == (None, ())


@pytest.mark.parametrize("word", ["boom", "nan", "hang"])
async def test_a_failure_on_the_server_is_a_failure_here(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        remote_over(ToyEnvironment(), monkeypatch) as remote,
        remote.open(toy_task(0)) as session,
    ):
        with pytest.raises(EnvironmentFailure, match="the server"):
            await session.act(word)


async def test_a_check_that_fails_is_a_failure_here(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        remote_over(ToyEnvironment(), monkeypatch) as remote,
        remote.open(toy_task(0)) as session,
    ):
        await session.act("uncheckable")
        with pytest.raises(EnvironmentFailure, match="the check broke"):
            await session.outcome()


async def test_an_environment_that_does_not_open_is_a_failure_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environment = ToyEnvironment(fails_to_open=True)
    async with remote_over(environment, monkeypatch, open_timeout_s=60) as remote:
        with pytest.raises(EnvironmentFailure, match="no machine to be had"):
            async with remote.open(toy_task(0)):
                pass


async def test_a_port_in_use_is_one_sentence() -> None:
    taken = asyncio.Event()
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(UserError, match=f"port {port} cannot be listened on"):
        await serve(ToyEnvironment(), replace(SETTINGS, port=port), lambda *_: taken.set())
    assert not taken.is_set()
    server.close()
    await server.wait_closed()
