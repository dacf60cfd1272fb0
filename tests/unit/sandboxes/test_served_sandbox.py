"""A sandbox seen from the host, against a first process that lies."""

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes import served_sandbox as served
from practicum.sandboxes.commands import SECOND_LOOK_S
from practicum.sandboxes.inside.frames import FRAME_LIMIT, LENGTH, pack, unpack
from practicum.sandboxes.served_sandbox import ServedSandbox

GOOD = [b"done", b"ok", b"0", b"3", b"0.5", b"out", b"err"]
Inside = Callable[[socket.socket], Awaitable[None]]


async def receive(end: socket.socket) -> list[bytes]:
    loop = asyncio.get_running_loop()

    async def exactly(size: int) -> bytes:
        taken = b""
        while len(taken) < size:
            piece = await loop.sock_recv(end, size - len(taken))
            if not piece:
                raise EOFError
            taken += piece
        return taken

    return unpack(await exactly(LENGTH.unpack(await exactly(4))[0]))


async def say(end: socket.socket, message: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(end, message)


def answers(*messages: bytes) -> Inside:
    """A first process that answers one request after the other with these bytes."""

    async def inside(end: socket.socket) -> None:
        for message in messages:
            await receive(end)
            await say(end, message)
        await asyncio.sleep(30)

    return inside


class Served:
    """A sandbox whose first process is played by the test."""

    def __init__(self, inside: Inside, oom_file: str = "") -> None:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self.closed = 0
        self.theirs = theirs
        self.box = ServedSandbox(
            ours,
            kind="fake",
            home="/work",
            output_bytes=99,
            oom_file=oom_file,
            on_close=self._closes,
        )
        self.task = asyncio.create_task(inside(theirs))  # type: ignore[arg-type]

    async def _closes(self) -> None:
        self.closed += 1

    async def __aenter__(self) -> ServedSandbox:
        return self.box

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.theirs.close()
        await self.box.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "GRACE_S", 0.2)
    monkeypatch.setattr(served, "FILE_S", 0.2)
    monkeypatch.setattr(served, "READY_S", 0.2)


async def test_a_command_is_sent_whole_and_its_result_is_read() -> None:
    heard: list[list[bytes]] = []

    async def inside(end: socket.socket) -> None:
        heard.append(await receive(end))
        await say(end, pack(GOOD))

    async with Served(inside) as box:
        result = await box.run(
            ["a", "é"], timeout_s=1.5, stdin=b"\0in", environment={"K": "v"}, cwd="/tmp"
        )
    assert result == CommandResult(
        status=CommandStatus.OK,
        exit_code=0,
        stdout="out",
        stderr="err",
        output_bytes=3,
        duration_s=0.5,
    )
    assert heard[0][:8] == [b"run", b"1500", b"99", b"/tmp", b"\0in", b"2", b"a", "é".encode()]
    settings = dict(zip(heard[0][8::2], heard[0][9::2], strict=True))
    assert settings[b"K"] == b"v"
    assert settings[b"HOME"] == b"/work"


async def test_a_checker_gets_an_environment_of_its_own() -> None:
    heard: list[list[bytes]] = []

    async def inside(end: socket.socket) -> None:
        heard.append(await receive(end))
        await say(end, pack(GOOD))

    async with Served(inside) as box:
        await box.judge(["check"], timeout_s=1)
    settings = dict(zip(heard[0][7::2], heard[0][8::2], strict=True))
    assert heard[0][0] == b"judge"
    assert settings[b"PATH"].split(b":")[:2] == [b"/usr/sbin", b"/usr/bin"]
    assert settings[b"PYTHONSAFEPATH"] == settings[b"PYTHONNOUSERSITE"] == b"1"


LIES = {
    "garbage": b"\0\0\0\x05abcde",
    "an empty message": pack([]),
    "too few parts": pack(GOOD[:-1]),
    "too many parts": pack([*GOOD, b""]),
    "another first word": pack([b"ready", *GOOD[1:]]),
    "no such status": pack([b"done", b"won", *GOOD[2:]]),
    "a status that only the host may tell": pack([b"done", b"died", *GOOD[2:]]),
    "the name of a class": pack([b"done", b"os.system", *GOOD[2:]]),
    "no number for a code": pack([b"done", b"ok", b"zero", *GOOD[3:]]),
    "a code that no command has": pack([b"done", b"ok", b"256", *GOOD[3:]]),
    "an end without a code": pack([b"done", b"ok", b"", *GOOD[3:]]),
    "a timeout with a code": pack([b"done", b"timeout", b"0", *GOOD[3:]]),
    "fewer bytes than none": pack([*GOOD[:3], b"-1", *GOOD[4:]]),
    "no number of bytes": pack([b"done", b"ok", b"0", b"", *GOOD[4:]]),
    "no number of seconds": pack([*GOOD[:4], b"soon", *GOOD[5:]]),
    "a message without end": LENGTH.pack(FRAME_LIMIT + 1) + bytes(1000),
    "the largest length": LENGTH.pack(0xFFFFFFFF),
    "half a message": LENGTH.pack(1000) + b"x" * 10,
    "half a length": b"\0\0",
}


@pytest.mark.parametrize("name", LIES)
async def test_a_lie_ends_the_sandbox(name: str) -> None:
    async with Served(answers(LIES[name], pack(GOOD))) as box:
        result = await box.run(["true"], timeout_s=0.1)
        assert result == CommandResult(status=CommandStatus.DIED, exit_code=None)
        again = await box.run(["true"], timeout_s=0.1)
        assert again.status is CommandStatus.DIED, "nothing it says later counts"


@pytest.mark.parametrize("name", ["nan", "inf", "-1", "1e999"])
async def test_a_time_that_cannot_be_is_no_result(name: str) -> None:
    async with Served(answers(pack([*GOOD[:4], name.encode(), *GOOD[5:]]))) as box:
        assert (await box.run(["true"], timeout_s=0.1)).status is CommandStatus.DIED


async def test_a_slow_drip_is_not_waited_for() -> None:
    async def inside(end: socket.socket) -> None:
        await receive(end)
        for byte in pack(GOOD):
            await say(end, bytes([byte]))
            await asyncio.sleep(0.05)

    async with Served(inside) as box:
        began = asyncio.get_running_loop().time()
        result = await box.run(["true"], timeout_s=0.1)
        assert asyncio.get_running_loop().time() - began < 1.5
        assert result.status is CommandStatus.DIED


async def test_who_hangs_up_midway_is_dead() -> None:
    async def inside(end: socket.socket) -> None:
        await receive(end)
        await say(end, pack(GOOD)[:9])
        end.shutdown(socket.SHUT_RDWR)

    async with Served(inside) as box:
        assert (await box.run(["true"], timeout_s=0.1)).status is CommandStatus.DIED


async def test_an_answer_that_comes_late_is_not_taken_for_the_next() -> None:
    async def inside(end: socket.socket) -> None:
        await receive(end)
        await asyncio.sleep(SECOND_LOOK_S + 0.4)
        await say(end, pack([b"done", b"late"]))
        await say(end, pack(GOOD))
        await asyncio.sleep(30)

    async with Served(inside) as box:
        with pytest.raises(EnvironmentFailure):
            await box.read("/file")
        await asyncio.sleep(0.4)
        assert (await box.run(["true"], timeout_s=0.2)).status is CommandStatus.DIED


async def test_who_is_cancelled_leaves_no_answer_to_the_next() -> None:
    async def inside(end: socket.socket) -> None:
        await receive(end)
        await asyncio.sleep(0.2)
        await say(end, pack(GOOD))
        await asyncio.sleep(30)

    async with Served(inside) as box:
        asking = asyncio.ensure_future(box.run(["true"], timeout_s=120))
        await asyncio.sleep(0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await box.run(["true"], timeout_s=0.5)).status is CommandStatus.DIED


async def test_it_must_say_that_it_is_ready() -> None:
    async def ready(end: socket.socket) -> None:
        await say(end, pack([b"ready"]))

    async def other(end: socket.socket) -> None:
        await say(end, pack([b"steady"]))

    async def nothing(end: socket.socket) -> None:
        await asyncio.sleep(30)

    async with Served(ready) as box:
        await box.wait_until_ready()
    for inside in (other, nothing):
        async with Served(inside) as box:
            with pytest.raises(EnvironmentFailure):
                await box.wait_until_ready()


async def test_files_and_their_errors() -> None:
    messages = [
        pack([b"done", b"content"]),
        pack([b"failed", b"%d no" % errno.ENOENT]),
        pack([b"failed", b"%d longer" % errno.EFBIG]),
        pack([b"failed", b"\xff"]),
        pack([b"done"]),
    ]
    async with Served(answers(*messages)) as box:
        assert await box.read("/a") == b"content"
        with pytest.raises(FileNotFoundError, match="/b"):
            await box.read("/b")
        with pytest.raises(ValueError, match="/c: longer"):
            await box.read("/c")
        with pytest.raises(ValueError, match="/d"):
            await box.read("/d")
        with pytest.raises(EnvironmentFailure):
            await box.write("/e", b"x")


async def test_a_file_beyond_a_message_is_refused_at_once() -> None:
    async with Served(answers()) as box:
        with pytest.raises(ValueError, match="longer"):
            await box.write("/big", bytes(FRAME_LIMIT // 2 + 1))


async def test_memory_is_told_by_the_kernels_count(tmp_path: Path) -> None:
    counts = tmp_path / "memory.oom_control"
    counts.write_text("under_oom 0\noom_kill 2\n")

    async def inside(end: socket.socket) -> None:
        await receive(end)
        counts.write_text("under_oom 0\noom_kill 3\n")
        await say(end, pack(GOOD))
        await receive(end)
        await say(end, pack(GOOD))

    async with Served(inside, str(counts)) as box:
        first = await box.run(["true"], timeout_s=1)
        second = await box.run(["true"], timeout_s=1)
    assert (first.status, first.exit_code, first.stdout) == (CommandStatus.OOM, None, "out")
    assert second.status is CommandStatus.OK


async def test_closing_twice_closes_once() -> None:
    made = Served(answers())
    async with made as box:
        await box.close()
        await box.close()
        assert (await box.run(["true"], timeout_s=1)).status is CommandStatus.DIED
    assert made.closed == 1


async def test_a_sandbox_that_memory_ended_stays_broken(tmp_path: Path) -> None:
    counts = tmp_path / "memory.events"
    counts.write_text("oom_kill 0\n")

    async def inside(end: socket.socket) -> None:
        await receive(end)
        counts.write_text("oom_kill 5\n")
        end.close()

    async with Served(inside, str(counts)) as box:
        assert (await box.run(["true"], timeout_s=1)).status is CommandStatus.OOM
        assert (await box.run(["true"], timeout_s=1)).status is CommandStatus.BROKEN
        assert (await box.judge(["true"], timeout_s=1)).status is CommandStatus.BROKEN


async def test_a_first_process_that_gives_up_says_who_broke_the_sandbox() -> None:
    async def inside(end: socket.socket) -> None:
        await receive(end)
        await say(end, pack([b"done", b"broken", b"", *GOOD[3:]]))
        end.close()

    async with Served(inside) as box:
        for _ in range(2):
            assert (await box.run(["true"], timeout_s=1)).status is CommandStatus.BROKEN


@pytest.mark.parametrize(
    ("processes", "status"), [(100, CommandStatus.BROKEN), (5, CommandStatus.DIED)]
)
async def test_a_sandbox_that_is_too_busy_to_answer_was_broken_by_what_runs_in_it(
    tmp_path: Path, processes: int, status: CommandStatus
) -> None:
    async def inside(end: socket.socket) -> None:
        await receive(end)
        await asyncio.sleep(60)

    (tmp_path / "memory.events").write_text("oom_kill 0\n")
    (tmp_path / "cgroup.procs").write_text("\n".join(map(str, range(processes))))
    async with Served(inside, str(tmp_path / "memory.events")) as box:
        late = await box.judge(["true"], timeout_s=0.1)
        again = await box.judge(["true"], timeout_s=0.1)
    assert [late.status, again.status] == [status, status]
