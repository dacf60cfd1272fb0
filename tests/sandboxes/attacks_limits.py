"""Attacks on what the sandboxes share: time, memory, files, processes, the host's patience."""

import asyncio
import os
import resource
import secrets
from collections.abc import Callable
from contextlib import suppress

from tests.sandboxes.host import (
    BEGIN,
    END,
    LIMITS,
    PATIENCE_S,
    Attacker,
    Host,
    NothingToTry,
    attack,
    confined,
    held,
    innocent,
)
from tests.sandboxes.looking import Seen, pids_with, resident_mb

from practicum.core.command import CommandStatus

MEBIBYTE = 1 << 20
OTHERS_AT_ONCE = 2
"""A bomb may be counted while it dies."""
LOOKS_OVER_LIMIT = 15
"""Where no control group limits it, memory is looked at now and then: as often as we look here."""


@attack()
async def forks_without_end(attacker: Attacker, host: Host) -> str:
    """The host counts, while it goes on, what carries the bomb's mark."""
    most = 0
    bomb = asyncio.create_task(
        attacker.bash(f": {host.secret}; b() {{ b | b & }}; b; sleep 30", timeout_s=1.0)
    )
    while not bomb.done():
        most = max(most, host.count_marked())
        await asyncio.sleep(0.05)
    done = await bomb
    if most > OTHERS_AT_ONCE * LIMITS["processes"]:
        return f"{most} processes at once"
    if not done.status or done.status is CommandStatus.DENIED:
        return f"{done}"
    return "" if attacker.profile == "machine" or await host.has_none_marked() else "left running"


@attack(control="anyone")
async def forks_many(attacker: Attacker, host: Host) -> str:
    """Children that wait; the host counts them."""
    script = """
try:
    for _ in range(400):
        os.posix_spawn("/usr/bin/sleep", [mark, "600"], {})
        time.sleep(0.005)  # slow enough to be counted
except OSError:
    pass
"""
    limit = OTHERS_AT_ONCE * LIMITS["processes"]
    most = await watched(attacker, host, script, len, lambda count: count > limit)
    if most < LIMITS["processes"] / 4:
        return f"the host saw only {most} processes"
    return "" if most <= limit else f"{most} processes"


async def watched(
    attacker: Attacker,
    host: Host,
    script: str,
    measure: Callable[[list[int]], float],
    is_shown: Callable[[float], bool],
) -> float:
    """The most that the host measures until a program is through or ended, or what it got is shown.

    However long that takes: a busy machine is slow at the attack and at looking at it.
    """
    name = "t" + secrets.token_hex(7)
    text = BEGIN.format(mark=host.secret) + script + END.format(name=name.encode())
    running = asyncio.create_task(attacker.python(text, timeout_s=PATIENCE_S))
    most, is_over = 0.0, False
    try:
        while not is_over:
            is_over = running.done() or bool(pids_with(f"{name}\n".encode(), "comm"))
            found = measure(host.marked())  # a last time after it is over
            most, is_over = max(most, found), is_over or is_shown(found)
            await asyncio.sleep(0.1)
    finally:
        await host.end(running)
    return most


TAKES = """
for _ in range({hands}):
    if os.fork() == 0:
        held = []
        for _ in range({each}):
            held.append(b"x" * (1 << 20))
            time.sleep({hands} * 0.012)  # slow enough to be measured on a busy machine
        time.sleep(600)
        os._exit(0)
os.wait()
"""


@attack(control="anyone")
async def takes_memory(attacker: Attacker, host: Host) -> str:
    return await too_much_memory(attacker, host, hands=1, each=300)


@attack(control="anyone")
async def takes_memory_with_many_hands(attacker: Attacker, host: Host) -> str:
    """No single process takes much; a limit for each alone would not notice."""
    return await too_much_memory(attacker, host, hands=8, each=40)


async def too_much_memory(attacker: Attacker, host: Host, hands: int, each: int) -> str:
    """What more than the limit is held for longer than a watcher needs to see it."""
    script = TAKES.format(hands=hands, each=each)
    limit = LIMITS["memory_mb"] + hands * 4
    looks = 0

    def is_shown(found: float) -> bool:
        nonlocal looks
        looks += found > limit
        return looks > LOOKS_OVER_LIMIT

    most = await watched(attacker, host, script, resident_mb, is_shown)
    if most < LIMITS["memory_mb"] / 8:
        return f"the host saw only {most} MiB"
    is_limited = looks <= LOOKS_OVER_LIMIT
    return "" if is_limited else f"{most} MiB, over the limit at {looks} looks"


PLACES = ["/work", "/tmp", "/root", "/home", "/var/tmp", "/dev/shm", "/dev", "/", "/run", "/mnt"]


@attack()
async def fills_the_disk(attacker: Attacker, host: Host) -> str:
    """One file in every place that can be written; all of them together count.

    The host measures the file systems as the processes of the sandbox have them.
    """
    script = f"""
for place in {PLACES!r}:
    try:
        with open(place + "/full-" + mark, "wb", buffering=0) as file:
            for _ in range(300):
                file.write(bytes(1 << 20))
                time.sleep(0.004)  # slow enough to be measured
    except OSError:
        pass
"""
    allowed = 2 * LIMITS["disk_mb"] + 16 + 4
    most = await watched(attacker, host, script, written_mb, lambda found: found > allowed)
    on_host = [place for place in PLACES if os.path.exists(f"{place}/full-{host.secret}")]
    if on_host:
        return f"the host's: {on_host}"
    if most < LIMITS["disk_mb"] / 2:
        return f"the host saw only {most} MiB"
    return "" if most <= allowed else f"{most} MiB"


def written_mb(pids: list[int]) -> float:
    """What lies on the file systems in memory that processes have."""
    used: dict[int, float] = {}
    for pid in pids:
        for place in PLACES:
            path = f"/proc/{pid}/root{place}"
            with suppress(OSError):
                found = os.statvfs(path)
                if found.f_fsid and not found.f_flag & os.ST_RDONLY and found.f_blocks:
                    size = found.f_blocks * found.f_frsize
                    if size <= 2 * LIMITS["disk_mb"] * MEBIBYTE:
                        taken = (found.f_blocks - found.f_bfree) * found.f_frsize
                        used[os.stat(path).st_dev] = taken / MEBIBYTE
    return sum(used.values())


@attack()
async def makes_countless_files(attacker: Attacker, host: Host) -> str:
    """They lie in memory of the sandbox's own: none is taken from the host's file systems."""
    before = os.statvfs("/tmp").f_ffree
    done = await attacker.python(
        """
import os
place = "/work" if os.path.isdir("/work") else "/root"
for number in range(100_000):
    os.close(os.open(f"{place}/{number}", os.O_CREAT | os.O_WRONLY))
""",
        timeout_s=3,
    )
    taken = before - os.statvfs("/tmp").f_ffree
    if taken > 50_000:
        return f"{taken} of the host's"
    after = await attacker.bash("echo here")
    lost = (CommandStatus.DIED, CommandStatus.BROKEN)
    typed = (CommandStatus.OK, CommandStatus.OOM, CommandStatus.TIMEOUT, *lost)
    return "" if done.status in typed and after.status in typed else f"{done} {after}"


@attack()
async def opens_countless_files(attacker: Attacker, host: Host) -> str:
    script = """
try:
    while len(held) < 5000:
        kept(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
"""
    async with held(attacker, host, script) as process:
        count = len(process.files())
    return "" if 100 < count <= 1024 else f"{count} files"


@attack()
async def loops_without_end(attacker: Attacker, host: Host) -> str:
    done = await attacker.bash(f": {host.secret}; while :; do :; done", timeout_s=0.5)
    if done.status is not CommandStatus.TIMEOUT or done.exit_code is not None:
        return f"{done}"
    return "" if await host.has_none_marked() else "left running"


@attack()
async def ignores_every_signal(attacker: Attacker, host: Host) -> str:
    done = await attacker.python(
        f"""
import os, signal, time
mark = "{host.secret}"
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
os.fork()
time.sleep(30)
""",
        timeout_s=0.7,
    )
    if done.status is not CommandStatus.TIMEOUT:
        return f"{done}"
    return "" if await host.has_none_marked() else "left running"


@attack()
async def stops_everything(attacker: Attacker, host: Host) -> str:
    async with innocent(attacker, host) as process:
        first = Seen(process.parent.pid)
    script = f": {host.secret}; kill -STOP 1; kill -STOP -1; kill -STOP $$; sleep 30"
    done = await attacker.bash(script, timeout_s=1)
    if not first.is_running():
        return "the first process is stopped"
    if not await host.has_none_marked():
        return "left behind"
    after = await attacker.bash("echo here")
    is_well = done.status is CommandStatus.TIMEOUT and after.stdout == "here\n"
    return "" if is_well else f"{done} {after}"


@attack()
async def outlives_a_timeout(attacker: Attacker, host: Host) -> str:
    """By leaving its session and its parents, twice."""
    done = await attacker.python(
        f"""
import os, time
mark = "{host.secret}"
for _ in range(2):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            for fd in range(3):
                os.close(fd)
            time.sleep(60)
        os._exit(0)
time.sleep(60)
""",
        timeout_s=0.7,
    )
    if done.status is not CommandStatus.TIMEOUT:
        return f"{done}"
    return "" if await host.has_none_marked() else "left running"


@attack()
async def holds_the_output_open(attacker: Attacker, host: Host) -> str:
    """A daemon that keeps the pipe must not delay a result, nor outlive the sandbox."""
    daemon = f"setsid bash -c 'exec -a {host.secret} sleep 600' &"
    done = await attacker.bash(f"{daemon} sleep 0.3; echo hi")
    if (done.status, done.stdout) != (CommandStatus.OK, "hi\n"):
        return f"{done}"
    if attacker.profile == "code":
        return "" if await host.has_none_marked() else "left running"
    is_alive = host.count_marked() == 1
    await confined(attacker).box.close()
    return "" if is_alive and await host.has_none_marked() else "not alive, or left running"


@attack()
async def floods_with_output(attacker: Attacker, host: Host) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await attacker.bash("head -c 300M /dev/zero; echo done >&2")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    is_well = (
        done.status is CommandStatus.TRUNCATED
        and done.output_bytes == 300 * MEBIBYTE + 5
        and len(done.stdout) < 70_000
        and done.stderr == "done\n"
        and grown < 64
    )
    return "" if is_well else f"{done.status} {done.output_bytes} {len(done.stdout)} {grown}"


@attack()
async def prints_for_ever(attacker: Attacker, host: Host) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await attacker.bash(f"yes {host.secret} & yes {host.secret} >&2", timeout_s=0.7)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    is_well = done.status is CommandStatus.TIMEOUT and len(done.stdout) + len(done.stderr) < 140_000
    if not is_well or grown > 64:
        return f"{done.status} {grown}"
    return "" if await host.has_none_marked() else "left running"


@attack()
async def prints_what_is_no_text(attacker: Attacker, host: Host) -> str:
    done = await attacker.bash(r"printf 'a\xff\xfe\0\033]52;c;eA==\007b\xed\xa0\x80'")
    done.stdout.encode()  # no lone surrogates
    is_well = done.stdout.startswith("a\N{REPLACEMENT CHARACTER}") and "\0" in done.stdout
    return "" if is_well else f"{done}"


@attack()
async def leads_the_collector_astray(attacker: Attacker, host: Host) -> str:
    """What the host asks for is a link to a host file, a pipe nobody writes, a device, a folder."""
    box = confined(attacker).box
    place = "/work" if attacker.profile == "code" else "/root"
    await attacker.bash(
        f"cd {place}; ln -s {host.readable} link; ln -s {host.folder} folder; mkfifo pipe; "
        f"ln -s /dev/zero zero; ln -s pipe also; ln {host.readable} hard; "
        "ln -s link other; mkdir real; ln -s /proc/1/environ first"
    )
    names = ["link", "folder/readable", "pipe", "zero", "also", "hard", "other", "real", "first"]
    paths = [f"{place}/{name}" for name in names]
    paths += ["/dev/zero", "/dev/full", "/proc/1/environ", "/proc/1/mem", str(host.readable)]
    got = b""
    for path in paths:
        with suppress(ValueError, FileNotFoundError):
            got += await box.read(path)
    for path in paths[:9]:
        with suppress(ValueError, FileNotFoundError):
            await box.write(path, b"overwritten")
    is_kept = host.readable.read_text() == host.secret
    return "" if host.secret.encode() not in got and is_kept else "a host file was read or written"


@attack()
async def stops_the_collector(attacker: Attacker, host: Host) -> str:
    """A background job that stops or kills whatever else runs, while the host wants a file."""
    if attacker.profile == "code":
        raise NothingToTry("nothing is left running in the background of `code`")
    box = confined(attacker).box
    await attacker.bash("echo good > /root/file")
    await attacker.bash(
        "(setsid bash -c 'while :; do for p in /proc/[0-9]*; do p=${p#/proc/}; "
        "[ $p != $$ ] && kill -STOP $p; done; done' >/dev/null 2>&1 &)"
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(3):
                await box.read("/root/file")
    except Exception as error:  # noqa: BLE001 - whichever it is, it must be the contract's
        if type(error).__name__ not in ("EnvironmentFailure",):
            return repr(error)
    return ""


@attack()
async def imitates_a_timeout(attacker: Attacker, host: Host) -> str:
    for code in (124, 137, 143, 200):
        done = await attacker.bash(f"exit {code}")
        if (done.status, done.exit_code) != (CommandStatus.OK, code):
            return f"{done}"
    return ""


@attack()
async def ends_just_at_its_limit(attacker: Attacker, host: Host) -> str:
    for seconds in (0.28, 0.3, 0.32):
        done = await attacker.bash(f"sleep {seconds}; echo end", timeout_s=0.3)
        is_ok = done.status is CommandStatus.OK and done.exit_code == 0
        is_timeout = done.status is CommandStatus.TIMEOUT and done.exit_code is None
        if not (is_ok or is_timeout):
            return f"{done}"
    return ""
