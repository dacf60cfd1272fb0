"""The environment server as its users meet it: a process, many clients, deaths on either side."""

import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts, run_episode
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Task
from practicum.core.trace import StopReason
from practicum.core.trusted_code import remember, trust_secret
from practicum.environments.checker import check_environment
from practicum.environments.reference_policies import random_action_text
from practicum.environments.registry import build_environment
from practicum.environments.remote.remote_environment import RemoteEnvironment
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import TurnRewards

KEY = "a-key-for-tests-0123"
PRACTICUM = [str(Path(sys.executable).with_name("practicum"))]


class Served:
    """A server process, its address, and a client that has its key."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        headers = {"Authorization": f"Bearer {KEY}"}
        self.http = httpx.Client(base_url=address, headers=headers, timeout=240, verify=False)

    def episodes(self) -> int:
        return int(self.http.get("/practicum").json()["episodes"])

    def wait_for_episodes(self, wanted: int) -> None:
        for _ in range(6000):
            if self.episodes() == wanted:
                return
            time.sleep(0.02)
        raise AssertionError(f"{self.episodes()} episodes, {wanted} expected")


@contextlib.contextmanager
def serving(*words: str, key: str = KEY) -> Iterator[Served]:
    process = subprocess.Popen(
        [*PRACTICUM, "env", "serve", *words, "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PRACTICUM_ENV_KEY": key},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), process.stderr.read()
    remember(trust_secret("PRACTICUM_ENV_KEY", address))
    served = Served(process, address)
    try:
        yield served
    finally:
        served.http.close()
        process.send_signal(signal.SIGTERM)
        process.wait(240)
        process.stdout.close()
        process.stderr.close()


@pytest.fixture(scope="module")
def math_server() -> Iterator[Served]:
    with serving("math", "level=[1,2]", "--max-episodes=80") as served:
        yield served


@pytest.fixture
async def on_server(
    math_server: Served, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RemoteEnvironment]:
    monkeypatch.setenv("PRACTICUM_ENV_KEY", KEY)
    environment = build_environment("remote", {"url": math_server.address})
    assert isinstance(environment, RemoteEnvironment)
    yield environment
    await environment.close()


async def play(environment: Any, task: Task, seed: int) -> Outcome:
    """An episode whose turns only the task and the seed decide."""
    dice = random.Random(f"{task.id}/{seed}")
    solution = iter(environment.reference(task))
    async with environment.open(task) as session:
        for _ in range(8):
            forms = session.actions()
            text = random_action_text(forms, dice) if seed % 2 else next(solution)
            if (await session.act(text)).terminated:
                break
        outcome: Outcome = await session.outcome()
    return outcome


def test_pages_far_ahead_are_refused_and_the_server_answers_and_ends_on_sigterm() -> None:
    with serving("math") as served:
        for offset in (1_000_000_000, 2**63, 10**30):
            answer = served.http.get("/tasks", params={"offset": offset})
            assert answer.status_code == 422
            assert "error" in answer.json()
        assert served.http.get("/health").json() == {"status": "healthy"}
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(240) == 0


async def test_64_episodes_at_once_end_as_one_at_a_time_and_as_without_a_server(
    on_server: RemoteEnvironment,
) -> None:
    tasks = await asyncio.to_thread(lambda: list(islice(on_server.tasks("heldout", 5), 64)))
    together = await asyncio.gather(*(play(on_server, t, n) for n, t in enumerate(tasks)))
    alone = [await play(on_server, task, n) for n, task in enumerate(tasks[:20])]
    local = build_environment("math", {"level": [1, 2]})
    here = list(islice(local.tasks("heldout", 5), 64))
    assert [task.id for task in here] == [task.id for task in tasks]
    without = [await play(local, task, n) for n, task in enumerate(here)]
    assert together[:20] == alone
    assert together == without
    assert [outcome.success for outcome in together[::2]] == [True] * 32
    assert any(outcome.success is False for outcome in together)


async def test_the_remote_environment_keeps_the_contract(on_server: RemoteEnvironment) -> None:
    tasks = await asyncio.to_thread(lambda: list(islice(on_server.tasks("heldout", 0), 120)))
    assert len({task.id for task in tasks}) == 120, "pages follow each other"
    one_level = build_environment("remote", {"serve": "math", "options": {"level": 1}})
    report = await check_environment(lambda level: one_level, levels=[1], n=6, seed=3)
    assert report.levels[0].problems == ()
    assert report.is_sound
    await one_level.close()  # type: ignore[attr-defined]


async def test_a_task_is_found_by_its_text(on_server: RemoteEnvironment) -> None:
    task = await asyncio.to_thread(on_server.find, "3x + 7 = 16")
    assert (await play(on_server, task, 0)).success is True
    with pytest.raises(UserError, match="no task"):
        await asyncio.to_thread(on_server.find, "cheese")


async def test_a_wrong_key_is_the_users_mistake(
    math_server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_ENV_KEY", "another-key-0123456789")
    environment = build_environment("remote", {"url": math_server.address})
    assert isinstance(environment, RemoteEnvironment)
    with pytest.raises(UserError, match=r"env\.key_file"):
        await asyncio.to_thread(lambda: next(environment.tasks("train", 0)))
    await environment.close()


async def test_episodes_of_a_client_that_vanishes_are_closed(math_server: Served) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    line = await connect(
        "ws" + math_server.address.removeprefix("http") + "/ws", additional_headers=headers
    )
    await line.send(json.dumps({"type": "reset", "data": {}}))
    await line.recv()
    assert math_server.episodes() == 1
    line.transport.abort()  # no goodbye
    await asyncio.to_thread(math_server.wait_for_episodes, 0)


def test_episodes_that_nobody_uses_are_closed() -> None:
    with serving("math", "server.idle_s=0.2") as served:
        assert served.http.post("/reset", json={"episode_id": "left"}).status_code == 200
        served.wait_for_episodes(0)
        turn = {"episode_id": "left", "action": {"text": "simplify"}}
        assert served.http.post("/step", json=turn).status_code == 404


def test_beyond_the_limit_an_episode_is_refused_and_stopping_ends_those_that_are_open() -> None:
    with serving("math", "--max-episodes=2") as served:
        for name in ("a", "b"):
            assert served.http.post("/reset", json={"episode_id": name}).status_code == 200
        assert served.http.post("/reset", json={}).status_code == 429
        served.http.post("/close", json={"episode_id": "a"})
        assert served.http.post("/reset", json={}).status_code == 200
        port = int(served.address.rpartition(":")[2])
    assert served.process.returncode == 0
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


async def test_a_killed_server_fails_its_episodes_and_is_started_again() -> None:
    environment = build_environment("remote", {"serve": "math", "max_restarts": 1})
    assert isinstance(environment, RemoteEnvironment)
    tasks = list(islice(environment.tasks("train", 0), 4))
    try:
        async with contextlib.AsyncExitStack() as stack:
            sessions = [await stack.enter_async_context(environment.open(t)) for t in tasks]
            first = environment.server_pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            for session in sessions:
                with pytest.raises(EnvironmentFailure):
                    await session.act("simplify")
        outcomes = await asyncio.gather(*(play(environment, t, 0) for t in tasks))
        assert [outcome.success for outcome in outcomes] == [True] * 4
        assert environment.server_pid not in (None, first)
    finally:
        await environment.close()
    assert environment.server_pid is None


async def test_an_episode_whose_server_is_killed_is_masked_and_not_scored() -> None:
    environment = build_environment("remote", {"serve": "math"})
    assert isinstance(environment, RemoteEnvironment)
    kills = [True, False]

    def converse(task: Task, seed: int) -> ScriptedConversation:
        def choose(actions: tuple[ActionForm, ...]) -> str:
            pid = environment.server_pid
            if kills.pop(0) and pid is not None:
                os.kill(pid, signal.SIGKILL)
            return "identify_operation"

        return ScriptedConversation(choose, name="killer")

    parts = RolloutParts(
        environment=environment,
        agent=DiscreteAgent(max_turns=1),
        reward=TurnRewards(),
        converse=converse,
    )
    task = next(environment.tasks("train", 0))
    try:
        masked, sound = [await run_episode(parts, task, str(n), n) for n in range(2)]
    finally:
        await environment.close()
    assert masked.trace.is_masked
    assert masked.trace.stop is StopReason.ENVIRONMENT_FAILED
    assert masked.score.value is None
    assert not sound.trace.is_masked
    assert sound.score.value == 1.5


def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = """
import asyncio, os, signal
from practicum.environments.registry import build_environment
async def main():
    environment = build_environment("remote", {"serve": "math"})
    async with environment.open(next(environment.tasks("train", 0))):
        print(environment.server_pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False
    )
    pid = int(done.stdout)
    for _ in range(12_000):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    raise AssertionError("the server outlived its client")


TINY = (
    "model=tiny",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=3",
    "rollouts.max_turns=3",
    "eval.n=4",
    "hardware.threads=1",
)


def fingerprints(run: Path) -> list[str]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    found = [part for line in lines for part in find_all(json.loads(line), "fingerprint")]
    assert len(found) >= 2
    return found


def find_all(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == key:
                yield inner
            else:
                yield from find_all(inner, key)


@pytest.mark.rare
@pytest.mark.slow
def test_a_run_goes_on_when_its_server_is_killed(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    metrics = tmp_path / "run" / "metrics.jsonl"
    killed: list[int] = []

    def kill_once() -> None:
        for _ in range(60_000):
            if metrics.exists() and metrics.read_text().count("\n") >= 2:
                killed.extend(servers_of(os.getpid()))
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_once)
    killer.start()
    answer = practicum(
        "train", "remote", "env.serve=math", "steps=6", *TINY, f"runs_dir={tmp_path}",
        "--name", "run",
    )  # fmt: skip
    killer.join()
    assert answer.code == 0, answer.err
    assert len(killed) == 1
    assert servers_of(os.getpid()) == []
    assert len(fingerprints(tmp_path / "run")) >= 6


def servers_of(parent: int) -> list[int]:
    """Servers that a process has started and that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            status = (folder / "status").read_text()
            if (
                b"server.stop_with_stdin=true" in words
                and f"PPid:\t{parent}\n" in status
                and "State:\tZ" not in status
            ):
                found.append(int(folder.name))
    return found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mathe"], "did you mean 'math'"),
        (["math", "levle=2"], "did you mean 'env.level'"),
        (["math", "server.idel_s=2"], "did you mean 'server.idle_s'"),
        (["math", "server.idle_s=0"], "greater than 0"),
        (["math", "--host=0.0.0.0"], "--key-file"),
        (["math", "--host=0.0.0.0", "--lifelong"], "SSH tunnel"),
        (
            ["math", "--port=1", "--host=203.0.113.5", "--key-file=KEY"],
            "choose another with --port",
        ),
    ],
)
def test_a_mistake_of_the_user_is_one_sentence(
    words: list[str],
    sentence: str,
    practicum: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRACTICUM_ENV_KEY", raising=False)
    answer = practicum("env", "serve", *words)
    assert answer.code == 2
    assert sentence in answer.sentence


def test_the_lifelong_routes_and_their_chat_items_are_served_side_by_side() -> None:
    with serving("math", "--lifelong", f"--factory-port={free_port()}") as served:
        asked = served.http.post(
            "/api/get_attribute", json={"name": "chat_history_item_factory"}
        ).json()
        items = asked["instance_factory_parameter_dict"]["parameters"]["server_address"]
        with httpx.Client(verify=False) as plain:
            assert plain.post(f"{served.address}/api/ping").json()["response"] == "Hello, World!"
            body = {"chat_history_item_index": 1, "expected_role": "agent"}
            item = plain.post(f"{items}/construct", json=body).json()
        assert item == {"chat_history_item": {"role": "agent", "content": "OK."}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
