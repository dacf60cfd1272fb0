"""The host's own looks: each finds what it looks for where that is there."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.sandboxes.attacks_kernel import devices_below, names_in
from tests.sandboxes.host import Host, NothingToTry, Unconfined, held, innocent
from tests.sandboxes.looking import Seen, is_harmless_device, kernel_state, set_apart

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can show it")
REPOSITORY = Path(__file__).parents[2]


@contextmanager
def running(*command: str) -> Iterator[Seen]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield Seen(process.pid)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def python(script: str) -> tuple[str, ...]:
    return (sys.executable, "-c", f"{script}\nimport time\nprint(flush=True)\ntime.sleep(60)")


async def test_a_program_that_does_not_get_to_its_end_was_not_tried() -> None:
    with Host() as host:
        with pytest.raises(RuntimeError, match="not tried"):
            async with held(Unconfined({}), host, "raise SystemExit(3)"):
                pass
        assert host.marked() == []


async def test_a_program_is_held_after_its_last_line_and_then_ended() -> None:
    with Host() as host:
        path = host.folder / "made"
        script = f"time.sleep(0.2)\nopen({str(path)!r}, 'w').close()\n"
        async with held(Unconfined({}), host, script) as process:
            assert path.exists()
            assert process.is_running()
        assert not process.is_running()


async def test_a_program_that_tries_nothing_holds_nothing_open() -> None:
    with Host() as host:
        async with innocent(Unconfined({}), host) as process:
            assert process.files_beyond() == []
            assert process.parent.pid == os.getpid()
            assert set_apart(process) == set()


def test_open_files_are_seen_with_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    script = f"""
import os
os.open({str(path)!r}, os.O_RDONLY)
os.open({str(path)!r}, os.O_RDWR)
os.open("/dev/full", os.O_RDONLY)
"""
    with running(*python(script)) as process:
        read, written, device = sorted(process.files_beyond(), key=lambda file: file.number)
    own = path.stat()
    assert read.identity == written.identity == (own.st_dev, own.st_ino)
    assert (read.is_written, written.is_written) == (False, True)
    assert (read.is_device, device.is_device) == (False, True)
    assert (device.link, is_harmless_device(device.device)) == ("/dev/full", True)


def test_disks_and_memory_are_no_harmless_devices() -> None:
    assert not is_harmless_device(os.stat("/").st_dev)
    assert not any(is_harmless_device(os.makedev(1, minor)) for minor in (1, 2, 4, 11))
    assert not is_harmless_device(os.makedev(5, 1))
    assert is_harmless_device(devices_below("/dev")["/dev/null"])


@needs_root
def test_a_mount_in_a_namespace_of_its_own_is_seen(tmp_path: Path) -> None:
    script = f"mount -t tmpfs none {tmp_path} && touch {tmp_path}/inside && echo && sleep 60"
    before = kernel_state()
    with running("unshare", "--mount", "bash", "-c", script) as process:
        assert any(str(tmp_path) in line for line in process.mounts())
        assert set_apart(process) == {"mnt"}
        assert names_in(process, (str(tmp_path),)) == {"inside"}
    assert list(tmp_path.iterdir()) == []
    assert kernel_state() == before


@needs_root
def test_another_root_is_seen(tmp_path: Path) -> None:
    script = f"import os\nos.chroot({str(tmp_path)!r})"
    with running(*python(script)) as process:
        assert process.root() == (tmp_path.stat().st_dev, tmp_path.stat().st_ino)
        assert process.root() != Seen(os.getpid()).root()


@needs_root
def test_a_changed_name_of_the_machine_would_be_seen() -> None:
    """In a namespace of its own, so that it stays as it is for everybody else."""
    script = (
        "import socket\nfrom tests.sandboxes.looking import kernel_state\nbefore = kernel_state()\n"
        "socket.sethostname('another')\nafter = kernel_state()\n"
        "print(*(name for name in before if before[name] != after[name]))"
    )
    done = subprocess.run(
        ["unshare", "--uts", sys.executable, "-c", script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["hostname"]


def test_who_is_stopped_does_not_run() -> None:
    with running(*python("")) as process:
        assert process.is_running()
        os.kill(process.pid, signal.SIGSTOP)
        for _ in range(12_000):
            if not process.is_running():
                break
            time.sleep(0.01)
        assert not process.is_running()


def test_a_key_is_read_as_it_is() -> None:
    with Host() as host:
        try:
            number = host.put_key()
        except NothingToTry as reason:
            pytest.skip(str(reason))
        assert host.content_of_key(number) == b"untouched"


async def test_what_is_written_to_a_terminal_is_read() -> None:
    with Host() as host:
        terminal, name = host.put_terminal()
        await asyncio.to_thread(Path(name).write_text, "x")
        assert os.read(terminal, 10) == b"x"
