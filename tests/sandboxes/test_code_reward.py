"""Code that a policy wrote, run for its reward: what is hostile in it harms nothing."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.rewards.traces import fenced, make_task, make_trace

from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.rewards.code import BorrowedSandboxes, CodeExecution, SyntaxCheck
from practicum.sandboxes.opening import unchecked_sandboxes

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")

ADD = """
def add(a, b):
    return a + b

if __name__ == "__main__":
    print(sum(map(int, input().split())))
"""
TESTS = [
    {"call": "add(2, 3)", "expect": 5},
    {"call": "add([1], [2])", "expect": [1, 2]},
    {"stdin": "4 5\n", "stdout": "9"},
]


def reward(timeout_s: float = 120.0) -> CodeExecution:
    boxes = BorrowedSandboxes(unchecked_sandboxes("bubblewrap", lambda line: None))
    return CodeExecution(
        sandboxes=boxes, turns="all", timeout_s=timeout_s, memory_mb=96, processes=16
    )


async def score_of(*blocks: str, tests: object = None, timeout_s: float = 120.0) -> Score:
    task = make_task(tests=tests) if tests else make_task()
    trace = make_trace(*blocks)
    return await reward(timeout_s).score(task, trace, Outcome(success=None))


async def test_good_and_bad_code_get_what_they_deserve() -> None:
    score = await score_of(
        fenced("print(1 + 1)"), fenced("1 / 0"), fenced("test -d /", "bash"), fenced("exit 3", "sh")
    )
    assert score.value == 0.5


async def test_tests_are_passed_by_solving_them() -> None:
    assert (await score_of(fenced(ADD), tests=TESTS)).value == 1.0
    wrong = ADD.replace("a + b", "a - b")
    assert (await score_of(fenced(wrong), tests=TESTS)).value == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "print('{\"value\": 4}')\nraise SystemExit(0)",
        "class Any:\n    def __eq__(self, other): return True\ndef add(a, b): return Any()",
        "import builtins\nbuiltins.eval = lambda *a: 0\ndef add(a, b): return 0",
    ],
    ids=["leaves", "exits", "forges", "equals-all", "patches"],
)
async def test_tests_are_not_passed_by_tricks(code: str) -> None:
    assert (await score_of(fenced(code), tests=TESTS)).value == 0.0


FORK_BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
HUGE_OUTPUT = "while True: print('x' * 10_000)"
MEMORY = "x = []\nwhile True: x.append(bytearray(1_000_000))"


@pytest.mark.parametrize(
    "code",
    [FORK_BOMB, "while True: pass", HUGE_OUTPUT, MEMORY],
    ids=["fork bomb", "endless loop", "huge output", "memory"],
)
async def test_what_would_use_up_the_machine_ends_at_its_limits(code: str) -> None:
    before = len(os.listdir("/proc"))
    for timeout_s in (2.0, 30.0):  # a busy machine may take longer for the next one
        score = await score_of(
            fenced(code), fenced("print('the next one still runs')"), timeout_s=timeout_s
        )
        if score.value == 0.5:
            break
    assert score.value == 0.5, score.reason
    assert len(os.listdir("/proc")) < before + 50


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A file of the user's, and nobody may read or remove it."""
    path = Path.home() / f".practicum-test-{os.getpid()}"
    path.write_text("private")
    yield path
    path.unlink()


async def test_files_of_the_host_are_neither_read_nor_removed(
    precious: Path, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("kept")
    read = f"print(open({str(precious)!r}).read())"
    remove = (
        "import os, shutil\n"
        f"for path in ({str(precious)!r}, {str(tmp_path)!r}):\n"
        "    shutil.rmtree(path, ignore_errors=True)\n"
        "    try: os.remove(path)\n"
        "    except OSError: pass\n"
    )
    shell = f"rm -rf {precious} {tmp_path} 2>/dev/null; cat {precious}"
    score = await score_of(fenced(read), fenced(remove), fenced(shell, "bash"))
    assert score.value == pytest.approx(1 / 3)  # the removal reports nothing, so it ends with 0
    assert precious.read_text() == "private"
    assert (tmp_path / "kept").read_text() == "kept"


async def test_nothing_is_reached_over_the_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        dial = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=1)"
        score = await score_of(fenced(dial))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert score.value == 0.0


async def test_one_reward_serves_many_at_once_and_leaves_nothing_open() -> None:
    one = reward()
    again = [
        await one.score(make_task(), make_trace(fenced(f"print({n})")), Outcome(success=None))
        for n in range(2)
    ]
    assert [score.value for score in again] == [1.0, 1.0]
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    names = [(Path("/proc") / child / "comm").read_text().strip() for child in children]
    assert "bwrap" not in names


async def test_shell_scripts_are_checked_and_not_run() -> None:
    boxes = BorrowedSandboxes(unchecked_sandboxes("bubblewrap", lambda line: None))
    trace = make_trace(fenced("exit 7", "bash") + fenced("if true; then", "bash"))
    score = await SyntaxCheck(sandboxes=boxes).score(make_task(), trace, Outcome(success=None))
    assert score.value == 0.5
