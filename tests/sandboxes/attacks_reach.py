"""Attacks that reach for what is the host's: network, files, environment, processes."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from tests.sandboxes.host import (
    KEYCTL,
    PATIENCE_S,
    UNTOUCHED,
    Attacker,
    Host,
    attack,
    held,
    innocent,
    is_alive,
    spec_for,
)
from tests.sandboxes.looking import Seen, interfaces_of, pids_with, set_apart

from practicum.core.command import CommandStatus
from practicum.sandboxes.bubblewrap.rootfs import cached_root

CONNECT = """
import socket
try:
    found = socket.socket(socket.{family}, socket.SOCK_STREAM)
    found.settimeout(2)
    found.connect({address!r})
except OSError as error:
    print(error)
"""


@attack(control="anyone")
async def connects_by_tcp(attacker: Attacker, host: Host) -> str:
    port = host.tcp.getsockname()[1]
    await attacker.bash(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    await attacker.python(CONNECT.format(family="AF_INET", address=("127.0.0.1", port)))
    return "a connection arrived" if host.was_reached(host.tcp) else ""


@attack(control="anyone")
async def sends_by_udp(attacker: Attacker, host: Host) -> str:
    await attacker.bash(f"echo x > /dev/udp/127.0.0.1/{host.udp.getsockname()[1]}")
    return "a datagram arrived" if host.was_reached(host.udp) else ""


@attack(control="anyone")
async def connects_to_an_abstract_socket(attacker: Attacker, host: Host) -> str:
    await attacker.python(CONNECT.format(family="AF_UNIX", address=f"\0{host.secret}"))
    return "a connection arrived" if host.was_reached(host.abstract) else ""


@attack(control="anyone")
async def connects_to_a_socket_file(attacker: Attacker, host: Host) -> str:
    address = str(host.folder / "socket")
    await attacker.python(CONNECT.format(family="AF_UNIX", address=address))
    await attacker.python(CONNECT.format(family="AF_UNIX", address=f"/proc/1/root{address}"))
    return "a connection arrived" if host.was_reached(host.path_socket) else ""


@attack(control="anyone")
async def makes_sockets_that_namespaces_do_not_hold(attacker: Attacker, host: Host) -> str:
    """Made and never connected: hypervisors serve AF_VSOCK, and no namespace stands before it."""
    families = {"AF_VSOCK": 40, "AF_PACKET": 17, "AF_ALG": 38, "AF_KEY": 15, "AF_TIPC": 30}
    script = f"""
import socket
for number, kind in [*((n, k) for n in {sorted(families.values())} for k in (1, 2, 3, 5)), (2, 3),
                     (10, 3)]:
    try:
        kept(socket.socket(number, kind))
    except OSError:
        pass
"""
    async with held(attacker, host, script) as process:
        return " ".join(file.link for file in process.files_beyond())


@attack(control="anyone")
async def sees_a_network(attacker: Attacker, host: Host) -> str:
    """The host reads which interfaces there are where a command is."""
    async with innocent(attacker, host) as process:
        if "net" not in set_apart(process):
            return "it is in the network of the host"
        return " ".join(interfaces_of(process) - {"lo"})


HOLDS_OPEN = """
import glob
for pattern in {patterns!r}:
    for path in glob.glob(pattern):
        try:
            kept(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            pass
"""


async def which_are_open(attacker: Attacker, host: Host, paths: list[Path]) -> str:
    """Those files of the host that a command could open; the host sees which those are."""
    wanted = {}
    for path in paths:
        with suppress(OSError):
            wanted[(path.stat().st_dev, path.stat().st_ino)] = path
    prefixes = ("", "/proc/*/root", "/proc/*/cwd/../../../..")
    patterns = [f"{prefix}{path}" for prefix in prefixes for path in paths]
    async with held(attacker, host, HOLDS_OPEN.format(patterns=patterns)) as process:
        opened = {file.identity for file in process.files_beyond()}
    return " ".join(str(path) for identity, path in wanted.items() if identity in opened)


@attack(control="anyone")
async def reads_a_file_that_everyone_may_read(attacker: Attacker, host: Host) -> str:
    path = host.readable
    done = await attacker.bash(f"cat {path} /proc/*/root{path} 2>/dev/null")
    is_told = "the secret came back" if host.secret in done.stdout else ""
    return is_told or await which_are_open(attacker, host, [path])


@attack(control="anyone")
async def reads_files_of_the_user(attacker: Attacker, host: Host) -> str:
    own: list[Path] = []
    with suppress(RuntimeError):  # a user without a name has no home
        own = [path for path in Path.home().glob(".*") if path.is_file()][:10]
    files = [host.private, Path("/etc/shadow"), Path("/etc/machine-id"), Path("/etc/passwd"), *own]
    done = await attacker.bash(f"cat {host.private} 2>/dev/null")
    is_told = "the secret came back" if host.secret in done.stdout else ""
    return is_told or await which_are_open(attacker, host, files)


@attack(control="anyone")
async def reads_the_environment(attacker: Attacker, host: Host) -> str:
    """The secret is in the environment of whoever opens sandboxes, and in a victim's."""
    done = await attacker.bash(
        "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' ' '"
    )
    wanted = (host.secret, os.environ.get("ATTACKED_SECRET", host.secret))
    if any(text in done.stdout for text in wanted):
        return "a secret came back"
    async with innocent(attacker, host) as process:
        kept = process.environment()
    return "a secret was handed on" if any(text in kept for text in wanted) else ""


@attack()
async def inherits_open_files(attacker: Attacker, host: Host) -> str:
    """Of the launcher, of bwrap, of the first process: the host sees what a command was left."""
    async with innocent(attacker, host) as process:
        found = process.files()
    usual = [file.link.partition(":")[0] for file in found if file.number <= 2]
    extra = [file.link for file in found if file.number > 2]
    is_well = sorted(usual) == ["/memfd", "pipe", "pipe"]
    return " ".join(extra if is_well else [*extra, *usual])


@attack()
async def looks_into_the_first_process(attacker: Attacker, host: Host) -> str:
    """It holds the line to the host, and for a moment what a checker looks for."""
    script = """
for name in ("root", "cwd", "exe", "mem", "environ", "maps", "ns/mnt", "task/1/mem"):
    try:
        kept(os.open("/proc/1/" + name, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        pass
for number in range(20):
    for how in (os.O_RDWR, os.O_RDONLY, os.O_PATH):
        try:
            kept(os.open(f"/proc/1/fd/{number}", how | os.O_NONBLOCK))
        except OSError:
            pass
libc.ptrace(0x4206, 1, 0, 0) and libc.ptrace(16, 1, 0, 0)
"""
    async with held(attacker, host, script) as process:
        first = process.parent
        found = [file.link for file in process.files_beyond()]
        if first.status("NSpid").split()[-1] != "1":
            return "the host did not find the first process"
        found += ["traced"] if first.status("TracerPid") != "0" else []
    return " ".join(found)


@attack(control="anyone")
async def writes_a_host_file(attacker: Attacker, host: Host) -> str:
    path = host.folder / "written"
    await attacker.bash(
        f"echo x > {path}; echo x > /proc/1/root{path}; mkdir -p {host.folder}; echo x > {path}"
    )
    return "a file was made" if path.exists() else ""


@attack()
async def writes_where_programs_lie(attacker: Attacker, host: Host) -> str:
    name = f"attacked-{host.secret}"
    programs = [Path("/usr/bin/bash"), Path("/usr/bin/python3")]
    before = [(path.stat().st_mtime_ns, path.stat().st_size) for path in programs]
    await attacker.bash(
        f"for d in / /etc /usr /usr/bin /usr/lib /opt /root /home /var/tmp /tmp /dev /mnt /run; "
        f"do echo x > $d/{name}; done; echo x >> /proc/1/exe; echo x >> /proc/self/exe"
    )
    places = ["/", "/etc", "/usr", "/usr/bin", "/usr/lib", "/opt", "/root", "/home", "/var/tmp"]
    places += ["/tmp", "/dev", "/mnt", "/run"]
    found = []
    for place in places:
        with suppress(PermissionError):
            found += [place] if (Path(place) / name).exists() else []
    after = [(path.stat().st_mtime_ns, path.stat().st_size) for path in programs]
    return " ".join(found if before == after else [*found, "programs"])


@attack()
async def poisons_the_next_sandbox(attacker: Attacker, host: Host) -> str:
    """Through the root file system or the texts that all sandboxes are made from."""
    assert host.sandboxes is not None
    await attacker.bash(
        "echo poisoned > /etc/motd; echo 'echo poisoned' > /etc/profile.d/x.sh; "
        "printf '#!/bin/sh\\necho poisoned\\n' > /usr/bin/id; ln /usr/bin/tr /tmp/linked; "
        "echo poisoned >> /tmp/linked; for f in /proc/self/fd/*; do echo poisoned >> $f; done; "
        "echo poisoned >> /etc/passwd; echo poisoned > /dev/shm/x"
    )
    fresh = await host.sandboxes.open(spec_for(attacker.profile))
    try:
        seen = await fresh.run(
            ["bash", "-lc", "cat /etc/passwd /etc/motd /dev/shm/*; tail -c 50 /usr/bin/tr; id"],
            timeout_s=PATIENCE_S,
        )
    finally:
        await fresh.close()
    if "poisoned" in seen.stdout:
        return seen.stdout
    root = cached_root()
    names = ("etc/motd", "etc/profile.d/x.sh", "etc/passwd", "usr/bin/id", "usr/bin/tr")
    places = [Path("/"), *([] if root is None else [root])]
    found = [place / name for place in places for name in names if (place / name).is_file()]
    if not found:
        return "the host found no file to look at"
    return " ".join(str(path) for path in found if b"poisoned" in path.read_bytes())


@attack(control="anyone")
async def kills_a_host_process(attacker: Attacker, host: Host) -> str:
    pid = host.victim.pid
    await attacker.bash(f"kill -STOP {pid}; kill -9 {pid}")
    if not is_alive(host.victim):
        return "the victim is gone"
    return ""


@attack()
async def kills_everything(attacker: Attacker, host: Host) -> str:
    done = await attacker.bash("sleep 30 & kill -9 -1; sleep 0.1", timeout_s=120)
    if not is_alive(host.victim):
        return "the victim is gone"
    allowed = (CommandStatus.KILLED, CommandStatus.OK, CommandStatus.TIMEOUT)
    after = await attacker.bash("echo here")
    return "" if done.status in allowed and after.stdout == "here\n" else f"{done} {after}"


@attack()
async def kills_the_first_process(attacker: Attacker, host: Host) -> str:
    """It would be no escape, and an episode that ends so is no result; but it cannot be done."""
    async with innocent(attacker, host) as process:
        first = process.parent
        began = first.started
    signals = "KILL STOP TERM INT HUP QUIT SEGV ABRT BUS USR1 USR2 ALRM PIPE CHLD TSTP XCPU SYS"
    await attacker.bash(f"for s in {signals}; do kill -$s 1; done 2>/dev/null")
    if not first.is_running() or first.started != began:
        return "it is gone or stopped"
    after = await attacker.bash("echo here")
    return "" if after.stdout == "here\n" else f"{after}"


@attack(control="anyone")
async def traces_a_host_process(attacker: Attacker, host: Host) -> str:
    victim = Seen(host.victim.pid)
    script = f"""
pid = {victim.pid}
libc.ptrace(0x4206, pid, 0, 0) and libc.ptrace(16, pid, 0, 0)
try:
    kept(os.open(f"/proc/{{pid}}/mem", os.O_RDONLY))
except OSError:
    pass
"""
    async with held(attacker, host, script) as process:
        found = [file.link for file in process.files_beyond()]
        found += ["traced"] if victim.status("TracerPid") != "0" else []
    return " ".join(found)


@attack(control="anyone")
async def writes_into_shared_memory(attacker: Attacker, host: Host) -> str:
    key, content = host.put_shared_memory()
    script = f"""
libc.shmat.restype = ctypes.c_void_p
number = libc.shmget({key}, 0, 0)
for found in (number, *range(64)):
    at = libc.shmat(found, None, 0) if found >= 0 else None
    if at not in (None, 2**64 - 1) and ctypes.string_at(at, {len(UNTOUCHED)}) == {UNTOUCHED!r}:
        ctypes.memset(at, 88, {len(UNTOUCHED)})
"""
    async with held(attacker, host, script):
        return "" if content.raw == UNTOUCHED else "it was changed"


@attack(control="anyone")
async def changes_a_key_in_the_keyring(attacker: Attacker, host: Host) -> str:
    """No namespace keeps keys apart; the host reads whether its key is as it was."""
    number = host.put_key()
    machine = os.uname().machine
    asks = {"x86_64": 249, "aarch64": 218}[machine]
    script = f"""
found = [{number}, libc.syscall({asks}, b"user", mark.encode(), None, 0)]
found.append(libc.syscall({KEYCTL[machine]}, 10, -4, b"user", mark.encode(), 0))
for key in found:
    libc.syscall({KEYCTL[machine]}, 2, key, b"changed", 7)
    libc.syscall({KEYCTL[machine]}, 3, key)  # revoked
"""
    async with held(attacker, host, script):
        return "" if host.content_of_key(number) == UNTOUCHED else "the key was changed"


@attack(control="anyone")
async def adds_a_key_to_the_keyring(attacker: Attacker, host: Host) -> str:
    """The kernel counts the keys of every user, for all to see."""
    host.put_key()
    async with innocent(attacker, host) as process:
        uid = process.status("Uid").split()[0]
    before = keys_of(uid)
    add = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
    script = f"""
for number in range(5):
    libc.syscall({add}, b"user", b"%d" % number + mark.encode(), b"x", 1, -2)
"""
    async with held(attacker, host, script):
        after = keys_of(uid)
    return "" if after < before + 5 else f"{after - before} keys were added"


def keys_of(uid: str) -> int:
    """How many keys a user has."""
    for line in Path("/proc/key-users").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == uid:
            return int(rest.split()[1].partition("/")[0])
    return 0


LISTENS = """
import ctypes, select, socket, time
libc = ctypes.CDLL(None)
abstract = socket.socket(socket.AF_UNIX)
abstract.bind(chr(0) + {mark!r})
abstract.listen()
tcp = socket.create_server(("127.0.0.1", 4242))
libc.prctl(15, {listens!r}, 0, 0, 0)
select.select([abstract, tcp], [], [], 600)
libc.prctl(15, {reached!r}, 0, 0, 0)
time.sleep(600)
"""


@attack()
async def reaches_another_sandbox(attacker: Attacker, host: Host) -> str:
    """Two at once neither see, signal, reach nor fill each other."""
    assert host.sandboxes is not None
    place = "/work" if attacker.profile == "code" else "/root"
    other = await host.sandboxes.open(spec_for(attacker.profile))
    try:
        await other.write(f"{place}/mine", host.secret.encode())
        listens, reached = f"l{host.secret[:14]}".encode(), f"r{host.secret[:14]}".encode()
        server = LISTENS.format(mark=host.secret, listens=listens, reached=reached)
        waiting = asyncio.create_task(other.run(["python3", "-c", server], timeout_s=PATIENCE_S))
        while not (found := pids_with(listens + b"\n", "comm")):
            if waiting.done():
                return f"the other did not listen: {waiting.result()}"
            await asyncio.sleep(0.02)
        (listener,) = [Seen(pid) for pid in found]
        seen = await attacker.bash(
            f"cat {place}/mine /proc/*/root{place}/mine; cat /proc/*/cmdline | tr '\\0' ' '; "
            "kill -9 -- $(ls /proc | grep -E '^[0-9]+$' | grep -vx -e 1 -e $$) ; "
            f"kill -9 {listener.pid}; dd if=/dev/zero of={place}/full bs=1M count=40; "
            "exec 3<>/dev/tcp/127.0.0.1/4242"
        )
        await attacker.python(CONNECT.format(family="AF_UNIX", address=f"\0{host.secret}"))
        was_reached = bool(pids_with(reached + b"\n", "comm"))
        is_alive_still = listener.is_running()
        await host.end(waiting)
        kept = await other.read(f"{place}/mine")
        room = await other.run(
            ["dd", "if=/dev/zero", f"of={place}/own", "bs=1M", "count=20"], timeout_s=PATIENCE_S
        )
    finally:
        await other.close()
    if host.secret in seen.stdout or was_reached or not is_alive_still:
        return "the other was seen, reached or ended"
    return "" if kept == host.secret.encode() and room.exit_code == 0 else f"{kept!r} {room}"
