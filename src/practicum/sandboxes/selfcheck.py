"""The self-check of a kind of sandbox: a second of harmless attacks before it is trusted.

Each result is observed from the host, or by a fact that a command inside cannot fake. The full list
of attacks is in the tests; these are the ones that succeed first where a kernel, a container or a
setting lacks something.
"""

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from practicum.core.command import CommandResult, CommandStatus, SandboxProfile, SandboxSpec
from practicum.core.errors import PracticumError
from practicum.core.interfaces import Sandbox, Sandboxes

LIMITS = SandboxSpec(memory_mb=96, disk_mb=32, processes=48)
# What it took is held for a while, and its children stay: a busy host may count them late.
EATS_MEMORY = "import os, time; held = [os.urandom(1 << 20) for _ in range(400)]; time.sleep(10)"
FORKS = """
import os, time
started = 0
try:
    while started < 300:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        started += 1
except OSError:
    pass
print(started)
os.kill(0, 9)
"""
DEADLINE_S = 120.0
"""Bounds a hang: each command takes a part of a second where the machine is free."""
SLEEPS_S = ("0.2", "2.0", "20.0")
"""How long a process is there to be looked at; a busy host may be too late for a short one."""


class _NoEnd(Exception):
    """A command did not end, which shows neither that the sandbox holds nor that it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one attack."""

    claim: str
    """What should be true."""
    holds: bool
    seen: str = ""
    """What was observed instead."""


async def check_sandboxes(sandboxes: Sandboxes, profile: SandboxProfile) -> list[Finding]:
    """The findings about one profile; only a failure if no sandbox can be opened."""
    try:
        box = await sandboxes.open(replace(LIMITS, profile=profile))
    except PracticumError as error:
        return [Finding(claim="a sandbox can be opened", holds=False, seen=str(error))]
    found = [Finding(claim="a sandbox can be opened", holds=True)]
    try:
        for probe in PROBES:
            found.append(await probe(box))
    except _NoEnd:
        seen = f"one took over {DEADLINE_S:g} s: it hangs, or this machine is too busy to tell"
        found.append(Finding(claim="commands end", holds=False, seen=seen))
    finally:
        await box.close()
    return found


async def _run(box: Sandbox, *command: str, stdin: bytes = b"") -> CommandResult:
    done = await box.run(command, timeout_s=DEADLINE_S, stdin=stdin)
    if done.status is CommandStatus.TIMEOUT:
        raise _NoEnd
    return done


async def _shell(box: Sandbox, script: str, stdin: bytes = b"") -> CommandResult:
    return await _run(box, "bash", "-c", script, stdin=stdin)


async def _runs_commands(box: Sandbox) -> Finding:
    done = await _shell(box, "cat; exit 3", b"in")
    return Finding(
        claim="commands run",
        holds=(done.status, done.exit_code, done.stdout) == (CommandStatus.OK, 3, "in"),
        seen=f"{done.status}, exit code {done.exit_code}, {done.stderr[:200]}",
    )


async def _has_no_network(box: Sandbox) -> Finding:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        await _shell(box, f"exec 3<>/dev/tcp/127.0.0.1/{listener.getsockname()[1]}")
        try:
            listener.accept()[0].close()
            reached = True
        except BlockingIOError:
            reached = False
    return Finding(claim="the host's network is out of reach", holds=not reached, seen="connected")


async def _sees_no_host_files(box: Sandbox) -> Finding:
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "secret"
        path.write_text(secret)
        done = await _shell(box, f"cat {path} /proc/*/root{path} 2>/dev/null")
    return Finding(
        claim="the host's files are out of sight", holds=secret not in done.stdout, seen="read one"
    )


async def _sees_no_host_environment(box: Sandbox) -> Finding:
    secret = f"PRACTICUM_SELF_CHECK_{secrets.token_hex(8)}"
    os.environ[secret] = "1"
    try:
        done = await _shell(box, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    finally:
        del os.environ[secret]
    return Finding(
        claim="the host's environment is out of sight",
        holds=secret not in done.stdout and "PRACTICUM" not in done.stdout,
        seen="read it",
    )


async def _sees_no_host_processes(box: Sandbox) -> Finding:
    done = await _shell(box, f"kill -0 {os.getpid()} 2>/dev/null && echo reached")
    return Finding(
        claim="the host's processes are out of reach",
        holds="reached" not in done.stdout,
        seen="one could be signalled",
    )


async def _is_nobody_outside(box: Sandbox) -> Finding:
    facts: dict[str, str] = {}
    for seconds in SLEEPS_S:
        mark = f"{seconds}{secrets.randbelow(10**12):012}"
        command = asyncio.create_task(_run(box, "sleep", mark))
        while not facts and not command.done():
            await asyncio.sleep(0.01)
            facts = _facts_of(mark)
        await command
        if facts:
            break
    return Finding(
        claim="nobody inside is root outside, system calls are filtered, rights cannot be gained",
        holds=facts.get("Uid", "0") != "0"
        and facts.get("Seccomp") == "2"
        and facts.get("NoNewPrivs") == "1",
        seen=", ".join(f"{name} {facts.get(name)}" for name in ("Uid", "Seccomp", "NoNewPrivs")),
    )


def _facts_of(mark: str) -> dict[str, str]:
    """/proc/PID/status on the host of the process inside whose first argument is `mark`."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            if mark.encode() in words[1:2]:
                lines = (path / "status").read_text().splitlines()
                pairs = (line.partition(":")[::2] for line in lines)
                return {name: rest.split()[0] for name, rest in pairs if rest.strip()}
        except OSError:
            continue  # it ended meanwhile
    return {}


async def _leaves_the_kernel_alone(box: Sandbox) -> Finding:
    paths = "/proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/uevent_helper"
    done = await _shell(box, f"for f in {paths}; do (: >> $f) 2>/dev/null && echo $f; done")
    return Finding(
        claim="kernel settings cannot be written", holds=not done.stdout, seen=done.stdout
    )


async def _limits_time(box: Sandbox) -> Finding:
    done = await box.run(["bash", "-c", "(setsid sleep 600 &) ; sleep 600"], timeout_s=0.3)
    left = await _shell(box, "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]leep 600'")
    return Finding(
        claim="a timeout ends a command and all it started",
        holds=done.status is CommandStatus.TIMEOUT and left.stdout.strip() == "0",
        seen=f"{done.status}, {left.stdout.strip()} left",
    )


async def _limits_processes(box: Sandbox) -> Finding:
    done = await _run(box, "python3", "-I", "-S", "-u", "-c", FORKS)
    started = done.stdout.strip()
    return Finding(
        claim="processes are limited",
        holds=not started.isdigit() or int(started) <= 2 * LIMITS.processes,
        seen=f"{started} at once",
    )


async def _limits_memory(box: Sandbox) -> Finding:
    done = await _run(box, "python3", "-I", "-S", "-c", EATS_MEMORY)
    return Finding(
        claim="memory is limited", holds=done.status is CommandStatus.OOM, seen=str(done.status)
    )


PROBES: tuple[Callable[[Sandbox], Awaitable[Finding]], ...] = (
    _runs_commands,
    _has_no_network,
    _sees_no_host_files,
    _sees_no_host_environment,
    _sees_no_host_processes,
    _is_nobody_outside,
    _leaves_the_kernel_alone,
    _limits_time,
    _limits_processes,
    _limits_memory,
)
