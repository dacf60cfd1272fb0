"""What every kind of sandbox promises, tried on each kind that can be had here."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from practicum.core.capabilities import ServesPorts
from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure, PracticumError
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.bubblewrap.rootfs import cached_root
from practicum.sandboxes.guarded.guarded_sandboxes import ALLOW_VARIABLE
from practicum.sandboxes.opening import unchecked_sandboxes

KINDS = ["bubblewrap-code", "bubblewrap-machine", "landlock-code", "process-code"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


def spec_of(name: str) -> SandboxSpec:
    profile = "machine" if name.endswith("machine") else "code"
    return SandboxSpec(profile=profile, output_bytes=4096, memory_mb=256, disk_mb=32)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Sandboxes, SandboxSpec]]:
    kind = request.param.partition("-")[0]
    spec = spec_of(request.param)
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    if spec.profile == "machine" and cached_root() is None:
        pytest.skip("no root file system of machines is built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ALLOW_VARIABLE, "1")
        try:
            made = unchecked_sandboxes(kind, lambda line: None)
        except PracticumError as error:
            pytest.skip(str(error))
        yield made, spec
        await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(opened: tuple[Sandboxes, SandboxSpec]) -> AsyncIterator[Sandbox]:
    sandboxes, spec = opened
    made = await sandboxes.open(spec)
    yield made
    await made.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def home(box: Sandbox) -> str:
    """A folder that can be written."""
    return (await box.run(["bash", "-c", "cd; pwd"], timeout_s=120)).stdout.strip()


@pytest.fixture
def machine(opened: tuple[Sandboxes, SandboxSpec], box: Sandbox) -> Sandbox:
    if opened[1].profile != "machine":
        pytest.skip("only a machine promises this")
    return box


async def shell(box: Sandbox, script: str, timeout_s: float = 120.0) -> CommandResult:
    return await box.run(["bash", "-c", script], timeout_s=timeout_s)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 124, 126, 127, 137, 143, 200, 255])
async def test_exit_codes_are_the_commands_own(box: Sandbox, code: int) -> None:
    done = await shell(box, f"exit {code}")
    assert (done.status, done.exit_code) == (CommandStatus.OK, code)


async def test_output_and_error_are_kept_apart(box: Sandbox) -> None:
    done = await shell(box, "echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.output_bytes) == ("out\n", "err\n", 8)


async def test_a_command_is_not_read_by_a_shell(box: Sandbox) -> None:
    words = ["a b", "$HOME", "*", "", "'", '"', "a\nb", "é", "-n"]
    done = await box.run(["printf", "<%s>", *words], timeout_s=120)
    assert done.stdout == "".join(f"<{word}>" for word in words)


@pytest.mark.parametrize("size", [0, 1, 65_536, 2_000_000])
async def test_standard_input_arrives(box: Sandbox, size: int) -> None:
    done = await box.run(["wc", "-c"], timeout_s=120, stdin=os.urandom(size))
    assert done.stdout.strip() == str(size)


async def test_input_that_nobody_reads_harms_nothing(box: Sandbox) -> None:
    done = await box.run(["true"], timeout_s=120, stdin=bytes(1_000_000))
    assert (done.status, done.exit_code) == (CommandStatus.OK, 0)


async def test_without_input_there_is_an_end_of_input(box: Sandbox) -> None:
    assert (await box.run(["cat"], timeout_s=120)).stdout == ""


async def test_the_working_folder_can_be_chosen(box: Sandbox) -> None:
    assert (await box.run(["pwd"], timeout_s=120, cwd="/usr/bin")).stdout == "/usr/bin\n"


async def test_a_working_folder_that_is_not_there_is_denied(box: Sandbox) -> None:
    done = await box.run(["pwd"], timeout_s=120, cwd="/no/such/folder")
    assert (done.status, done.exit_code) == (CommandStatus.DENIED, None)


async def test_a_program_that_is_not_there_is_denied(box: Sandbox) -> None:
    done = await box.run(["no-such-program"], timeout_s=120)
    assert (done.status, done.exit_code) == (CommandStatus.DENIED, None)
    assert "No such file" in done.stderr


async def test_settings_are_added_to_the_environment(box: Sandbox) -> None:
    done = await box.run(["env"], timeout_s=120, environment={"NAME": "a=b\nc é", "EMPTY": ""})
    assert "NAME=a=b\nc é\n" in done.stdout
    assert "EMPTY=\n" in done.stdout
    assert "PATH=" in done.stdout


async def test_the_hosts_environment_does_not_come_along(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "x")
    assert "SECRET_OF_THE_HOST" not in (await box.run(["env"], timeout_s=120)).stdout


async def test_text_of_every_kind_comes_back(box: Sandbox) -> None:
    text = "é 漢字 🙂 \t\x1b[31m"
    assert (await box.run(["printf", "%s", text], timeout_s=120)).stdout == text


async def test_bytes_that_are_no_text_are_replaced(box: Sandbox) -> None:
    done = await shell(box, r"printf 'a\xff\0b'")
    assert done.stdout == "a\N{REPLACEMENT CHARACTER}\0b"
    assert done.output_bytes == 4


async def test_a_zero_byte_in_a_command_is_denied(box: Sandbox) -> None:
    assert (await box.run(["echo", "a\0b"], timeout_s=120)).status is CommandStatus.DENIED
    assert (await shell(box, "echo here")).stdout == "here\n"


async def test_much_output_loses_its_middle_and_is_counted(box: Sandbox) -> None:
    done = await shell(box, "echo begin; head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert done.status is CommandStatus.TRUNCATED
    assert done.exit_code == 0
    assert done.output_bytes == 1_000_011
    assert done.stdout.startswith("begin\n")
    assert done.stdout.endswith("\nend\n")
    assert len(done.stdout) < 4096 + 100


async def test_output_up_to_the_limit_is_whole(box: Sandbox) -> None:
    done = await shell(box, "head -c 4096 /dev/zero | tr '\\0' x")
    assert (done.status, done.stdout) == (CommandStatus.OK, "x" * 4096)


async def test_output_is_kept_when_time_runs_out(box: Sandbox) -> None:
    for timeout_s in (0.5, 5.0, 50.0):  # a busy machine may take longer to begin
        done = await shell(box, "echo before; sleep 600", timeout_s=timeout_s)
        if done.stdout:
            break
    assert (done.status, done.exit_code, done.stdout) == (CommandStatus.TIMEOUT, None, "before\n")


async def test_a_timeout_ends_what_the_command_started(box: Sandbox, home: str) -> None:
    script = f"(setsid bash -c 'sleep 1; echo x > {home}/late' &); sleep 30"
    assert (await shell(box, script, timeout_s=0.4)).status is CommandStatus.TIMEOUT
    await asyncio.sleep(1.0)
    with pytest.raises(FileNotFoundError):
        await box.read(f"{home}/late")


async def test_a_signal_from_inside_is_no_timeout(box: Sandbox) -> None:
    for name in ("TERM", "KILL", "SEGV"):
        done = await shell(box, f"kill -{name} $$")
        assert (done.status, done.exit_code) == (CommandStatus.KILLED, None)


async def test_a_job_that_holds_the_output_does_not_delay_the_result(box: Sandbox) -> None:
    done = await shell(box, "sleep 600 & echo hi", timeout_s=120)
    assert (done.status, done.stdout) == (CommandStatus.OK, "hi\n")


async def test_how_long_it_took_is_told(box: Sandbox) -> None:
    assert (await box.run(["sleep", "0.2"], timeout_s=120)).duration_s >= 0.2


async def test_files_go_in_and_come_out(box: Sandbox, home: str) -> None:
    content = os.urandom(300_000)
    await box.write(f"{home}/folder/in/folder/file", content)
    assert await box.read(f"{home}/folder/in/folder/file") == content
    await box.write(f"{home}/folder/in/folder/file", b"")
    assert await box.read(f"{home}/folder/in/folder/file") == b""
    done = await shell(box, f"wc -c < {home}/folder/in/folder/file")
    assert done.stdout.strip() == "0"


async def test_a_file_name_may_hold_anything(box: Sandbox, home: str) -> None:
    path = f"{home}/a b'\n\"é$(x)"
    await box.write(path, b"1")
    assert await box.read(path) == b"1"


async def test_a_file_that_is_not_there_is_not_found(box: Sandbox, home: str) -> None:
    with pytest.raises(FileNotFoundError):
        await box.read(f"{home}/nothing")


async def test_a_file_that_is_too_long_is_refused(box: Sandbox, home: str) -> None:
    await box.write(f"{home}/long", b"x" * 11)
    assert await box.read(f"{home}/long", limit=11) == b"x" * 11
    with pytest.raises(ValueError, match="long"):
        await box.read(f"{home}/long", limit=10)


@pytest.mark.parametrize("make", ["mkfifo", "mkdir", "ln -s /etc/passwd", "ln -s /dev/zero"])
async def test_only_ordinary_files_are_read_and_written(box: Sandbox, home: str, make: str) -> None:
    path = f"{home}/odd-{make.split('/')[-1].replace(' ', '-')}"
    assert (await shell(box, f"{make} {path}")).exit_code == 0
    with pytest.raises(ValueError, match="odd"):
        await box.read(path)
    with pytest.raises(ValueError, match="odd"):
        await box.write(path, b"x")


async def test_a_device_is_no_file(box: Sandbox) -> None:
    with pytest.raises(ValueError, match="null"):
        await box.read("/dev/null")


async def test_a_file_cannot_be_written_where_none_may_be(box: Sandbox) -> None:
    with pytest.raises((ValueError, FileNotFoundError), match="/proc/nothing"):
        await box.write("/proc/nothing", b"x")


async def test_a_checker_gets_its_input_and_gives_its_code(box: Sandbox) -> None:
    done = await box.judge(["bash", "-c", "cat; exit 5"], timeout_s=120, stdin=b"in")
    assert (done.status, done.exit_code, done.stdout) == (CommandStatus.OK, 5, "in")


async def test_a_checker_sees_what_was_done(box: Sandbox, home: str) -> None:
    await shell(box, f"echo done > {home}/work-of-the-agent")
    done = await box.judge(["cat", f"{home}/work-of-the-agent"], timeout_s=120)
    assert done.stdout == "done\n"


async def test_commands_wait_for_each_other(box: Sandbox) -> None:
    results = await asyncio.gather(*(shell(box, f"sleep 0.05; echo {n}") for n in range(5)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(5)]


async def test_sandboxes_are_apart(opened: tuple[Sandboxes, SandboxSpec]) -> None:
    sandboxes, spec = opened
    one, other = await asyncio.gather(sandboxes.open(spec), sandboxes.open(spec))
    try:
        home = (await shell(one, "cd; pwd")).stdout.strip()
        await one.write(f"{home}/mine", b"1")
        theirs = (await shell(other, "cd; pwd")).stdout.strip()
        with pytest.raises(FileNotFoundError):
            await other.read(f"{theirs}/mine")
    finally:
        await one.close()
        await other.close()


async def test_many_work_at_once(opened: tuple[Sandboxes, SandboxSpec]) -> None:
    sandboxes, spec = opened
    spec = replace(spec, memory_mb=128, disk_mb=16)
    boxes = await asyncio.gather(*(sandboxes.open(spec) for _ in range(16)))
    try:
        results = await asyncio.gather(*(shell(b, f"echo {n}") for n, b in enumerate(boxes)))
        assert [result.stdout for result in results] == [f"{n}\n" for n in range(16)]
    finally:
        await asyncio.gather(*(b.close() for b in boxes))


async def test_a_closed_sandbox_is_gone(opened: tuple[Sandboxes, SandboxSpec]) -> None:
    sandboxes, spec = opened
    box = await sandboxes.open(spec)
    await box.close()
    await box.close()
    assert (await box.run(["true"], timeout_s=120)).status is CommandStatus.DIED
    assert (await box.judge(["true"], timeout_s=120)).status is CommandStatus.DIED
    with pytest.raises(EnvironmentFailure):
        await box.read("/etc/passwd")
    with pytest.raises(EnvironmentFailure):
        await box.write("/tmp/x", b"")


async def test_closing_ends_a_command_that_runs(opened: tuple[Sandboxes, SandboxSpec]) -> None:
    sandboxes, spec = opened
    box = await sandboxes.open(spec)
    running = asyncio.create_task(box.run(["sleep", "600"], timeout_s=600))
    await asyncio.sleep(0.2)
    await box.close()
    assert (await running).status is CommandStatus.DIED


async def test_the_kind_is_told(opened: tuple[Sandboxes, SandboxSpec], box: Sandbox) -> None:
    assert box.kind == opened[0].kind


async def test_a_machines_jobs_live_on(machine: Sandbox) -> None:
    await shell(machine, "sleep 61 & disown")
    assert (await shell(machine, "pgrep -fx 'sleep 61' | wc -l")).stdout.strip() == "1"
    await machine.judge(["true"], timeout_s=120)
    assert (await shell(machine, "pkill -fx 'sleep 61' && echo ended")).stdout == "ended\n"


async def test_a_machine_has_users_and_groups(machine: Sandbox) -> None:
    script = (
        "groupadd team && useradd -m -G team -s /bin/bash alice && id -nG alice && "
        "su alice -c 'id -un; touch ~/mine; cat /etc/shadow 2>&1 | tail -1' && "
        "stat -c %U:%G /home/alice/mine && chown alice:team /home/alice && "
        "adduser --quiet --disabled-password --gecos '' bob && getent passwd bob | cut -d: -f1 && "
        "userdel -r alice && id alice 2>&1 | grep -c 'no such user'"
    )
    done = await shell(machine, script, timeout_s=120)
    assert done.exit_code == 0, done
    lines = done.stdout.splitlines()
    assert lines[0] == "alice team"
    assert lines[1] == "alice"
    assert "Permission denied" in lines[2]
    assert lines[3:] == ["alice:alice", "bob", "1"]


async def test_a_machine_keeps_modes_owners_and_links(machine: Sandbox) -> None:
    script = (
        "cd /srv && echo x > a && chown 1234:4321 a && chmod 4751 a && ln a b && ln -s a c && "
        "stat -c '%a %u:%g %h' a && readlink c && mkfifo p && stat -c %F p"
    )
    done = await shell(machine, script)
    assert done.stdout.splitlines() == ["4751 1234:4321 2", "a", "fifo"]


async def test_setuid_bits_do_nothing_in_a_machine(machine: Sandbox) -> None:
    script = (
        "cd /usr/local/bin; cp /usr/bin/id sid; chmod 4755 sid; su nobody -s /bin/sh -c 'sid -u'"
    )
    assert (await shell(machine, script)).stdout == "65534\n"


async def test_a_machine_keeps_what_was_installed_and_another_does_not_have_it(
    opened: tuple[Sandboxes, SandboxSpec], machine: Sandbox
) -> None:
    await shell(
        machine, "printf '#!/bin/sh\\necho hello\\n' > /usr/bin/greet; chmod +x /usr/bin/greet"
    )
    assert (await shell(machine, "greet")).stdout == "hello\n"
    other = await opened[0].open(opened[1])
    try:
        assert (await other.run(["greet"], timeout_s=120)).status is CommandStatus.DENIED
    finally:
        await other.close()


async def test_the_host_serves_ports_inside_a_machine(machine: Sandbox) -> None:
    assert isinstance(machine, ServesPorts)
    [one, other] = await machine.listen([3999, 4999])
    with one, other:
        served = asyncio.create_task(asyncio.to_thread(answer_once, other))
        result = await shell(machine, "curl -s http://127.0.0.1:4999/; curl -m 1 -s 127.0.0.1:5999")
        await served
        assert result.stdout == "from the host"
        # An agent cannot take a port that is served, on any address.
        bind = "import socket; socket.socket().bind(('127.0.0.2', 3999))"
        taken = await machine.run(["python3", "-c", bind], timeout_s=120)
        assert "Address already in use" in taken.stderr
        with pytest.raises(ValueError, match="in use"):
            await machine.listen([3999])
    assert (await shell(machine, "echo still here")).stdout == "still here\n"
    with socket.socket() as client, pytest.raises(OSError, match="refused"):
        client.connect(("127.0.0.1", 3999))  # nothing listens on the host


def answer_once(listener: socket.socket) -> None:
    listener.settimeout(120)
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nfrom the host")


async def test_without_a_network_of_its_own_a_sandbox_serves_no_ports(
    opened: tuple[Sandboxes, SandboxSpec], box: Sandbox
) -> None:
    if opened[0].kind == "bubblewrap":
        pytest.skip("it has one")
    assert isinstance(box, ServesPorts)
    with pytest.raises(ValueError, match="no network of its own"):
        await box.listen([3999])
    assert (await shell(box, "echo still here")).stdout == "still here\n"
