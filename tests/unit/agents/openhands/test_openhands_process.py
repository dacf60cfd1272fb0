"""Processes of OpenHands: what they are given, and that none is left."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from practicum.agents.openhands import openhands_agent as process
from practicum.agents.openhands.openhands_agent import RUNNER, ConversationHost, OpenHandsAgent
from practicum.core.conversation import Assignment, Endpoint
from practicum.core.errors import AgentFailure
from practicum.core.interfaces import Observation
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum_envs.shell.protocol import TOOLS


def stand_in(folder: Path, program: str) -> Path:
    """An executable in the place of the environment's Python, which runs a program of a test."""
    folder.mkdir(exist_ok=True)
    (folder / "program.py").write_text(program)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/program.py "$@"\n')
    python.chmod(0o755)
    return python


SDK_LESS = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("runner", sys.argv[2])
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)
runner.LOADED = ()
def run_conversation(link):
    job = link.receive()
    {body}
runner.run_conversation = run_conversation
sys.argv = sys.argv[2:]
runner.main()
"""
"""The runner's own handling of processes, with something else in place of the SDK's part."""


def runner(folder: Path, body: str) -> Path:
    return stand_in(folder, SDK_LESS.replace("{body}", body.replace("\n", "\n    ")))


class Silent:
    """A session whose commands print nothing."""

    def prompt(self) -> list[Message]:
        return [Message(role="user", content="Do it.")]

    def tools(self) -> list[ToolSpec]:
        return list(TOOLS)

    async def call(self, call: ToolCall) -> Observation:
        return Observation(message=Message(role="tool", content=""))

    async def outcome(self) -> Outcome:
        return Outcome(success=None)


class Nowhere:
    """A conversation at an address that nobody reaches."""

    def endpoint(self) -> Endpoint:
        return Endpoint(url="http://127.0.0.1:9", key="rk_secret")


async def work(python: Path) -> Any:
    task = Task(id="t", env="shell", split="train", instruction="Do it.")
    assignment = Assignment(task=task, trace_id="t/0")
    return await OpenHandsAgent(python=python).work(assignment, Silent(), Nowhere())  # type: ignore[arg-type]


async def test_an_environment_that_does_not_start_is_a_failure_with_its_last_words(
    tmp_path: Path,
) -> None:
    python = stand_in(tmp_path / "a", "import sys; sys.exit('no module named openhands')")
    with pytest.raises(AgentFailure, match="died before it was done: no module named openhands"):
        await work(python)


async def test_a_conversation_that_dies_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    python = runner(tmp_path / "a", "raise RuntimeError('out of luck')")
    with pytest.raises(AgentFailure, match="RuntimeError: out of luck"):
        await work(python)


async def test_a_process_gets_nothing_of_this_ones_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    body = (
        "import os\nlink.send({'ended': 'error', 'final': '', 'code': '', "
        "'error': ' '.join(sorted(os.environ))})"
    )
    with pytest.raises(AgentFailure) as failed:
        await work(runner(tmp_path / "a", body))
    names = str(failed.value).split(": ", 1)[1].split()
    assert {"HOME", "PATH", "TMPDIR"} <= set(names)
    assert not {"SECRET_OF_THE_HOST", "USER", "SHELL", "PYTHONPATH"} & set(names)


async def test_the_key_is_in_no_list_of_processes(tmp_path: Path) -> None:
    body = (
        "import os, pathlib\n"
        "mine = pathlib.Path('/proc/self')\n"
        "text = (mine / 'cmdline').read_bytes() + (mine / 'environ').read_bytes()\n"
        "assert job['api_key'] == 'rk_secret'\n"
        "link.send({'ended': 'error', 'final': '', 'code': '', 'error': str(b'rk_' in text)})"
    )
    with pytest.raises(AgentFailure, match="False"):
        await work(runner(tmp_path / "a", body))


SPAWNS = (
    "import subprocess, time\n"
    "child = subprocess.Popen(['sleep', '600'])\n"
    "link.send({'pids': [child.pid, __import__('os').getpid()]})\n"
    "time.sleep(600)"
)


async def test_conversations_are_ended_with_their_children_and_do_not_disturb_each_other(
    tmp_path: Path,
) -> None:
    host = ConversationHost(runner(tmp_path / "a", SPAWNS))
    folders = [tmp_path / name for name in "xy"]
    for folder in folders:
        folder.mkdir()
    async with host.conversation({}, folders[0]) as first:
        kept = (await first.receive() or {})["pids"]
        async with host.conversation({}, folders[1]) as second:
            ended = (await second.receive() or {})["pids"]
            assert os.getsid(ended[1]) == ended[1], "a session of its own"
        assert not any(alive(pid) for pid in ended)
        assert all(alive(pid) for pid in kept)
    assert not any(alive(pid) for pid in kept)


async def test_what_a_conversation_leaves_is_ended_before_its_line_is(tmp_path: Path) -> None:
    body = (
        "import subprocess\n"
        "pids = [subprocess.Popen(['sleep', '600']).pid for _ in range(20)]\n"
        "link.send({'pids': pids})"
    )
    host = ConversationHost(runner(tmp_path / "a", body))
    async with host.conversation({}, tmp_path) as line:
        left = (await line.receive() or {})["pids"]
        assert len(left) == 20
        assert await line.receive() is None, "it has ended"
        assert not any(alive(pid) for pid in left)


async def test_a_loaded_process_is_shared_and_gone_with_its_last_conversation(
    tmp_path: Path,
) -> None:
    body = "import os, time\nlink.send({'parent': os.getppid()})\ntime.sleep(600)"
    host = ConversationHost(runner(tmp_path / "a", body))

    async def parent() -> int:
        async with host.conversation({}, tmp_path) as line:
            return int((await line.receive() or {})["parent"])

    with host.keep_loaded():
        assert await parent() == (shared := await parent())
        assert alive(shared)
    assert not alive(shared)
    assert await parent() != shared


async def test_an_episode_that_is_given_up_while_the_sdk_loads_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "END_TIMEOUT_S", 0.2)
    host = ConversationHost(stand_in(tmp_path / "a", "import time; time.sleep(600)"))
    async with asyncio.timeout(240):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3), host.conversation({}, tmp_path) as line:
                await line.receive()
    assert host._parent is None


async def test_a_long_answer_and_a_long_command_pass_whole(tmp_path: Path) -> None:
    body = (
        "link.send({'command': 'x' * 3_000_000})\nlink.send({'heard': len(link.receive()['text'])})"
    )
    host = ConversationHost(runner(tmp_path / "a", body))
    async with asyncio.timeout(240):
        async with host.conversation({}, tmp_path) as line:
            asked = await line.receive()
            assert asked is not None
            assert len(asked["command"]) == 3_000_000
            await line.send({"text": "é" * 1_000_000})
            assert await line.receive() == {"heard": 1_000_000}
            assert await line.receive() is None


def test_the_runner_is_a_file_that_needs_nothing_of_practicum() -> None:
    assert "practicum" not in RUNNER.read_text().replace("Practicum", "").split('"""', 2)[2]


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
