import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from practicum.core.errors import RunBusy
from practicum.store.run_dir import hold_lock, lock_holder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.fixture
def other(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    code = f"""
import sys
from pathlib import Path
from practicum.store.run_dir import hold_lock
with hold_lock(Path({str(path)!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_holder_is_refused_and_told_the_pid(
    path: Path, other: subprocess.Popen[str]
) -> None:
    with pytest.raises(RunBusy, match=f"process {other.pid};") as caught, hold_lock(path):
        pytest.fail("two processes held the lock")
    assert str(path.parent) in str(caught.value)


def test_the_holder_can_be_asked_for(path: Path, other: subprocess.Popen[str]) -> None:
    assert lock_holder(path) == other.pid


def test_the_lock_of_a_killed_process_is_no_obstacle(
    path: Path, other: subprocess.Popen[str]
) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert path.read_text() == str(other.pid)
    assert lock_holder(path) is None
    with hold_lock(path):
        assert lock_holder(path) == os.getpid()


def test_one_process_cannot_hold_it_twice(path: Path) -> None:
    with hold_lock(path), pytest.raises(RunBusy), hold_lock(path):
        pytest.fail("the lock was held twice")


def test_the_lock_is_free_after_the_block_even_when_it_failed(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_lock(path):
        _ = 1 / 0
    with hold_lock(path):
        pass
    assert lock_holder(path) is None


def test_a_lock_that_never_was_has_no_holder(path: Path) -> None:
    assert lock_holder(path) is None
