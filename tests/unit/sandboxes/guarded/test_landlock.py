"""What a command in a landlock sandbox can and cannot do, judged from the host's side."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.errors import UserError
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.guarded import guarded_sandboxes as landlock
from practicum.sandboxes.guarded.confinement import FIRST_UID, why_no_landlock
from practicum.sandboxes.guarded.guarded_sandboxes import LandlockSandboxes

pytestmark = pytest.mark.skipif(
    why_no_landlock() is not None or not Path("/usr/bin/python3").exists(),
    reason=f"no landlock sandbox here: {why_no_landlock()}",
)
SPEC = SandboxSpec(memory_mb=96, disk_mb=8, processes=16, output_bytes=4096)


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[Sandboxes]:
    made = LandlockSandboxes()
    yield made
    asyncio.run(made.close())


@pytest.fixture
async def box(sandboxes: Sandboxes) -> AsyncIterator[Sandbox]:
    opened = await sandboxes.open(SPEC)
    yield opened
    await opened.close()


async def shell(box: Sandbox, script: str, timeout_s: float = 10.0) -> CommandResult:
    return await box.run(["bash", "-c", script], timeout_s=timeout_s)


async def python(box: Sandbox, script: str, timeout_s: float = 10.0) -> CommandResult:
    command = ["/usr/bin/python3", "-I", "-S", "-u", "-c", script]
    return await box.run(command, timeout_s=timeout_s)


async def test_commands_run_in_a_folder_of_their_own(box: Sandbox) -> None:
    done = await box.run(["bash", "-c", "cat > in; cat in; exit 3"], timeout_s=120, stdin=b"text")
    assert (done.status, done.exit_code, done.stdout) == (CommandStatus.OK, 3, "text")
    assert (await shell(box, "ls; ls -d $HOME $TMPDIR | uniq | wc -l")).stdout == "in\n1\n"
    assert (box.kind, done.output_bytes) == ("landlock", 4)


@pytest.fixture
def open_run_environment() -> Iterator[Path]:
    """A folder of the host in which anyone may do anything, unless Landlock forbids it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


async def test_host_files_can_neither_be_read_nor_made(
    box: Sandbox, open_run_environment: Path
) -> None:
    secret = open_run_environment / "secret"
    secret.write_text("do not read")
    secret.chmod(0o666)
    open_folder = open_run_environment / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    done = await shell(
        box,
        f"cat {secret}; ln -s {secret} link; cat link; cat /etc/passwd; : > {open_folder}/made;"
        f"echo more >> {secret}; rm {secret}; mv {secret} .; ln {secret} hard;"
        f"mkfifo {open_folder}/fifo",
    )
    assert done.stdout == ""
    assert list(open_folder.iterdir()) == []
    assert secret.read_text() == "do not read"
    with pytest.raises(ValueError, match="link"):
        await box.read("link")


async def test_a_host_file_is_not_emptied_by_who_may_not_write_it(
    box: Sandbox, open_run_environment: Path
) -> None:
    victim = open_run_environment / "victim"
    victim.write_text("content")
    victim.chmod(0o666)
    script = f"""
import os
for attempt in (
    lambda: os.truncate({str(victim)!r}, 0),
    lambda: os.open({str(victim)!r}, os.O_RDONLY | os.O_TRUNC),
    lambda: os.open({str(victim)!r}, os.O_WRONLY | os.O_TRUNC),
):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(error.errno)
"""
    assert "done" not in (await python(box, script)).stdout
    assert victim.read_text() == "content"


async def test_modes_and_times_of_host_files_stay(box: Sandbox, open_run_environment: Path) -> None:
    victim = open_run_environment / "victim"
    victim.write_text("content")
    victim.chmod(0o666)
    before = victim.stat()
    script = f"""
import os
for attempt in (
    lambda: os.chmod({str(victim)!r}, 0o600),
    lambda: os.utime({str(victim)!r}, (1, 1)),
    lambda: os.setxattr({str(victim)!r}, "user.x", b"1"),
    lambda: os.chown({str(victim)!r}, os.getuid(), os.getgid()),
):
    try:
        attempt()
        print("done")
    except OSError:
        print("no")
"""
    assert (await python(box, script)).stdout.split() == ["no"] * 4
    after = victim.stat()
    assert (after.st_mode, after.st_mtime, after.st_uid) == (
        before.st_mode,
        before.st_mtime,
        before.st_uid,
    )


SOCKETS = """
import socket
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 40):
    try:
        socket.socket(family)
        print("made", family)
    except OSError as error:
        print(error.errno)
print(len(socket.socketpair()))
"""


async def test_no_socket_can_be_made_but_a_pair_can(box: Sandbox) -> None:
    assert (await python(box, SOCKETS)).stdout.split() == ["1", "1", "1", "1", "1", "2"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        await shell(box, f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}")
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


async def test_host_processes_are_out_of_reach(
    box: Sandbox, victim: subprocess.Popen[bytes]
) -> None:
    script = f"""
import os, resource, signal
me, other = {os.getpid()}, {victim.pid}
for attempt in (
    lambda: os.kill(other, 0),
    lambda: os.kill(other, signal.SIGKILL),
    lambda: resource.prlimit(other, resource.RLIMIT_NOFILE, (0, 0)),
    lambda: os.setpriority(os.PRIO_PROCESS, other, 19),
    lambda: os.sched_setaffinity(other, [0]),
    lambda: open("/proc/%d/environ" % me).read(),
):
    try:
        attempt()
        print("reached")
    except OSError:
        print("no")
"""
    before = resource_limits(victim.pid), os.getpriority(os.PRIO_PROCESS, victim.pid)
    done = await python(box, script)
    assert done.stdout.split() == ["no"] * 6
    assert victim.poll() is None
    assert (resource_limits(victim.pid), os.getpriority(os.PRIO_PROCESS, victim.pid)) == before


def resource_limits(pid: int) -> str:
    return Path(f"/proc/{pid}/limits").read_text()


async def test_no_variable_of_the_host_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    sandboxes = LandlockSandboxes()
    other = await sandboxes.open(SPEC)
    done = await shell(other, "env; cat /proc/self/environ /proc/$PPID/environ")
    assert "SECRET" not in done.stdout
    assert "PYTHONPATH" not in done.stdout
    await sandboxes.close()


async def test_a_timeout_ends_all_of_it_and_nothing_outlives_a_command(box: Sandbox) -> None:
    mark = f"1{os.getpid()}.25"
    done = await shell(box, f"(setsid sleep {mark} &); sleep {mark}", timeout_s=0.3)
    assert (done.status, done.exit_code) == (CommandStatus.TIMEOUT, None)
    done = await shell(box, f"(setsid sleep {mark} &); echo over")
    assert (done.status, done.stdout) == (CommandStatus.OK, "over\n")
    assert running(mark) == []


def running(mark: str) -> list[str]:
    """Processes of the host, in a sandbox or not, with that among their words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes().split(b"\0"):
                found.append(path.parent.name)
        except OSError:
            continue
    return found


async def test_how_a_command_ended_is_told_apart(box: Sandbox) -> None:
    assert (await shell(box, "exit 124")).exit_code == 124
    killed = await shell(box, "kill -9 $$")
    assert (killed.status, killed.exit_code) == (CommandStatus.KILLED, None)
    assert (await box.run(["no-such-program"], timeout_s=120)).status is CommandStatus.DENIED
    loud = await shell(box, "head -c 100000 /dev/zero | tr '\\0' a; printf '\\377end'")
    assert (loud.status, loud.exit_code) == (CommandStatus.TRUNCATED, 0)
    assert loud.output_bytes == 100_004
    assert loud.stdout.endswith("\ufffdend")
    assert len(loud.stdout) < 5000


async def test_memory_processes_and_files_are_limited(box: Sandbox) -> None:
    eats = "import os; held = [os.urandom(1 << 20) for _ in range(400)]"
    assert (await python(box, eats)).status is CommandStatus.OOM
    forks = """
import os, time
started = 0
try:
    while started < 200:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        started += 1
except OSError:
    print(started)
"""
    done = await python(box, forks)
    assert done.status is CommandStatus.KILLED or int(done.stdout) <= SPEC.processes
    big = await shell(box, "head -c 50M /dev/zero > big; stat -c %s big; rm big")
    assert int(big.stdout) <= SPEC.disk_mb << 20
    many = "for i in $(seq 20); do head -c 4M /dev/zero > f$i; sleep 0.05; done; echo wrote all"
    filled = await shell(box, many)
    assert "wrote all" not in filled.stdout
    assert filled.status is CommandStatus.KILLED
    # A full disk stays usable: to look, and to make room.
    assert (await shell(box, "(echo x > more) 2>/dev/null; wc -c < more; rm -rf *")).stdout == "0\n"
    assert (await shell(box, "echo z > more; cat more")).stdout == "z\n"


async def test_files_go_in_and_out_through_the_sandbox(box: Sandbox) -> None:
    await box.write("a/b/file", b"\x00content")
    assert await box.read("a/b/file") == b"\x00content"
    assert (await shell(box, "stat -c %U a/b/file; mkfifo fifo; mkdir folder")).exit_code == 0
    with pytest.raises(FileNotFoundError, match="missing"):
        await box.read("missing")
    with pytest.raises(ValueError, match="longer than 3"):
        await box.read("a/b/file", limit=3)
    for name in ("fifo", "folder", "/dev/null"):
        with pytest.raises(ValueError, match=name):
            await box.read(name)
    with pytest.raises(ValueError, match="denied"):
        await box.write("/etc/practicum-test", b"")


async def test_a_checker_runs_the_systems_programs(box: Sandbox) -> None:
    await shell(
        box, "echo 'echo fooled' > ls; echo 'print(\"fooled\")' > os.py; echo done > result"
    )
    await shell(box, "chmod +x ls; export PATH=.:$PATH; alias cat='echo fooled'")
    judged = await box.judge(
        ["python3", "-I", "-c", "import os; print(open('result').read(), end='')"], timeout_s=120
    )
    assert (judged.status, judged.stdout) == (CommandStatus.OK, "done\n")
    assert "fooled" not in (await box.judge(["ls"], timeout_s=120)).stdout


async def test_two_sandboxes_do_not_reach_each_other(sandboxes: Sandboxes, box: Sandbox) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives each sandbox a user of its own")
    other = await sandboxes.open(SPEC)
    where = (await shell(other, "echo mine > file; pwd; id -u")).stdout.split()
    here = (
        await shell(box, f"cat {where[0]}/file; echo x > {where[0]}/file; id -u")
    ).stdout.split()
    assert int(here[-1]) != int(where[1])
    assert min(int(here[-1]), int(where[1])) > FIRST_UID
    assert here[:-1] == []
    assert (await shell(other, "cat file")).stdout == "mine\n"
    await other.close()


async def test_closing_leaves_nothing_and_a_closed_one_says_so(box: Sandbox) -> None:
    mark = f"2{os.getpid()}.25"
    folder = Path((await shell(box, "mkdir -p a/b; pwd")).stdout.strip())
    command = asyncio.create_task(box.run(["sleep", mark], timeout_s=120))
    while not running(mark):
        await asyncio.sleep(0.01)
    assert folder.exists()
    await box.close()
    await box.close()
    assert (await command).status is CommandStatus.DIED
    assert not folder.parent.exists()
    assert running(mark) == []
    assert (await shell(box, "true")).status is CommandStatus.DIED


OWNER = """
import asyncio
from practicum.core.command import SandboxSpec
from practicum.sandboxes.guarded.guarded_sandboxes import LandlockSandboxes
async def main():
    box = await LandlockSandboxes().open(SandboxSpec())
    print((await box.run(["pwd"], timeout_s=120)).stdout.strip(), flush=True)
    await box.run(["sleep", "MARK"], timeout_s=600)
asyncio.run(main())
"""


async def test_when_the_owner_is_killed_everything_goes() -> None:
    mark = f"3{os.getpid()}.25"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.replace("MARK", mark)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip())
    while not running(mark):
        await asyncio.sleep(0.01)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    for _ in range(12_000):
        if not running(mark) and not folder.parent.exists():
            break
        await asyncio.sleep(0.01)
    assert running(mark) == []
    assert not folder.parent.exists()


async def test_a_machine_is_refused_with_a_way_out() -> None:
    with pytest.raises(UserError, match=r"landlock.*'machine'.*only 'code'.*bubblewrap"):
        await LandlockSandboxes().open(SandboxSpec(profile="machine"))


def test_a_kernel_that_cannot_hold_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "why_no_landlock", lambda: "this kernel has none")
    with pytest.raises(UserError, match=r"this kernel has none.*doctor --sandbox"):
        LandlockSandboxes()
