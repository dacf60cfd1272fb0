"""The process that starts sandboxes, with a starter that starts none."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from practicum.core.command import SandboxSpec
from practicum.sandboxes.bubblewrap.bwrap_command import MESSAGE_LIMIT, StartError
from practicum.sandboxes.bubblewrap.launcher import Launcher


@dataclass
class FakeStarted:
    """A sandbox that is only remembered; it is gone at the second look."""

    connection: int
    oom_file: str = "/count"
    ended: int = 0
    looks: int = 0
    waited: int = 0

    def end(self) -> None:
        self.ended += 1

    def is_removed(self) -> bool:
        self.looks += 1
        return self.looks > 1

    def wait_until_removed(self) -> None:
        self.waited += 1


@dataclass
class FakeStarter:
    """Hands out one end of a pipe for each sandbox."""

    started: list[FakeStarted] = field(default_factory=list)
    specs: list[SandboxSpec] = field(default_factory=list)
    fails: Exception | None = None

    def start(self, spec: SandboxSpec) -> FakeStarted:
        if self.fails is not None:
            raise self.fails
        reading, writing = os.pipe()
        os.write(writing, b"hello")
        os.close(writing)
        self.specs.append(spec)
        self.started.append(FakeStarted(reading))
        return self.started[-1]


@dataclass
class Owner:
    """The other side of a launcher that runs."""

    line: socket.socket
    starter: FakeStarter
    thread: threading.Thread

    def ask(self, **request: Any) -> tuple[dict[str, Any], list[int]]:
        self.line.send(json.dumps(request).encode())
        message, fds, _, _ = socket.recv_fds(self.line, MESSAGE_LIMIT, 4)
        return json.loads(message), fds

    def hang_up(self) -> None:
        self.line.close()
        self.thread.join(120)
        assert not self.thread.is_alive()


@pytest.fixture
def owner() -> Iterator[Owner]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(120)
    starter = FakeStarter()
    launcher = Launcher(theirs, starter)  # type: ignore[arg-type]
    thread = threading.Thread(target=launcher.serve)
    thread.start()
    made = Owner(ours, starter, thread)
    yield made
    made.hang_up()
    theirs.close()


def test_a_sandbox_is_started_and_its_connection_handed_over(owner: Owner) -> None:
    spec = SandboxSpec(profile="code", memory_mb=7)
    answer, (fd,) = owner.ask(do="open", spec=asdict(spec))
    assert answer == {"number": 1, "oom_file": "/count"}
    assert os.read(fd, 10) == b"hello"
    os.close(fd)
    assert owner.starter.specs == [spec]


def test_sandboxes_are_ended_by_number_and_once(owner: Owner) -> None:
    for _ in range(2):
        os.close(owner.ask(do="open", spec=asdict(SandboxSpec()))[1][0])
    assert owner.ask(do="close", number=2) == ({"number": 2}, [])
    assert owner.ask(do="close", number=2) == ({"number": 2}, [])
    assert owner.ask(do="close", number=99) == ({"number": 99}, [])
    assert [started.ended for started in owner.starter.started] == [0, 1]


def test_a_start_that_fails_is_told_and_the_launcher_goes_on(owner: Owner) -> None:
    for error in (StartError("no room"), OSError("no fork")):
        owner.starter.fails = error
        assert owner.ask(do="open", spec=asdict(SandboxSpec())) == ({"failed": str(error)}, [])
    owner.starter.fails = None
    answer, fds = owner.ask(do="open", spec=asdict(SandboxSpec()))
    assert answer["number"] == 1
    os.close(fds[0])


def test_an_unknown_request_is_told(owner: Owner) -> None:
    assert "dance" in owner.ask(do="dance")[0]["failed"]


def test_everything_ends_with_the_owner(owner: Owner) -> None:
    for _ in range(3):
        os.close(owner.ask(do="open", spec=asdict(SandboxSpec()))[1][0])
    owner.ask(do="close", number=1)
    owner.hang_up()
    assert [started.ended > 0 for started in owner.starter.started] == [True] * 3
    assert [started.waited for started in owner.starter.started[1:]] == [1, 1]
