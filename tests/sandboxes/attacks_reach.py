"""Attacks that reach for what is the host's: network, files, environment, processes."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from tests.sandboxes.host import Attacker, Confined, Host, attack, is_alive, spec_for

from practicum.core.command import CommandStatus

CONNECT = """
import socket
try:
    found = socket.socket(socket.{family}, socket.SOCK_STREAM)
    found.settimeout(2)
    found.connect({address!r})
except OSError as error:
    print(error)
"""


@attack(control=True)
async def connects_by_tcp(attacker: Attacker, host: Host) -> str:
    port = host.tcp.getsockname()[1]
    await attacker.bash(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    await attacker.python(CONNECT.format(family="AF_INET", address=("127.0.0.1", port)))
    return "a connection arrived" if host.was_reached(host.tcp) else ""


@attack(control=True)
async def sends_by_udp(attacker: Attacker, host: Host) -> str:
    await attacker.bash(f"echo x > /dev/udp/127.0.0.1/{host.udp.getsockname()[1]}")
    return "a datagram arrived" if host.was_reached(host.udp) else ""


@attack(control=True)
async def connects_to_an_abstract_socket(attacker: Attacker, host: Host) -> str:
    await attacker.python(CONNECT.format(family="AF_UNIX", address=f"\0{host.secret}"))
    return "a connection arrived" if host.was_reached(host.abstract) else ""


@attack(control=True)
async def connects_to_a_socket_file(attacker: Attacker, host: Host) -> str:
    address = str(host.folder / "socket")
    await attacker.python(CONNECT.format(family="AF_UNIX", address=address))
    await attacker.python(CONNECT.format(family="AF_UNIX", address=f"/proc/1/root{address}"))
    return "a connection arrived" if host.was_reached(host.path_socket) else ""


@attack()
async def makes_sockets_that_namespaces_do_not_hold(attacker: Attacker, host: Host) -> str:
    """Made and never connected: hypervisors serve AF_VSOCK, and no namespace stands before it."""
    families = {"AF_VSOCK": 40, "AF_PACKET": 17, "AF_ALG": 38, "AF_KEY": 15, "AF_TIPC": 30}
    done = await attacker.python(
        f"""
import socket
wanted = [(name, number, kind) for name, number in {families}.items() for kind in (1, 2, 3, 5)]
for name, number, kind in [*wanted, ("raw", 2, 3), ("raw6", 10, 3)]:
    try:
        socket.socket(number, kind).close()
        print("made", name, kind)
    except OSError:
        pass
"""
    )
    return done.stdout


@attack()
async def sees_a_network(attacker: Attacker, host: Host) -> str:
    done = await attacker.bash("cat /proc/net/dev /proc/self/net/dev; ls /sys/class/net")
    names = {line.partition(":")[0].strip() for line in done.stdout.splitlines() if ":" in line}
    return " ".join(names - {"lo"})


@attack(control=True)
async def reads_a_file_that_everyone_may_read(attacker: Attacker, host: Host) -> str:
    path = host.readable
    done = await attacker.bash(
        f"cat {path} /proc/*/root{path} /proc/*/cwd/../../../..{path} 2>/dev/null"
    )
    return "the secret came back" if host.secret in done.stdout else ""


@attack(control=True)
async def reads_files_of_the_user(attacker: Attacker, host: Host) -> str:
    seen = await attacker.bash(f"cat {host.private} /etc/shadow /etc/machine-id 2>/dev/null")
    wanted = [host.secret]
    for path in (Path("/etc/shadow"), Path("/etc/machine-id")):
        with suppress(OSError):
            wanted.append(path.read_text())
    return "a secret came back" if any(text and text in seen.stdout for text in wanted) else ""


@attack(control=True)
async def reads_the_environment(attacker: Attacker, host: Host) -> str:
    """The secret is in the environment of whoever opens sandboxes, and in a victim's."""
    done = await attacker.bash(
        "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' ' '"
    )
    wanted = (host.secret, os.environ.get("ATTACKED_SECRET", host.secret))
    return "a secret came back" if any(text in done.stdout for text in wanted) else ""


@attack()
async def inherits_open_files(attacker: Attacker, host: Host) -> str:
    done = await attacker.python(
        """
import os
for name in os.listdir("/proc/self/fd"):
    if int(name) > 2:
        try:
            print(name, os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass
"""
    )
    lines = [line for line in done.stdout.splitlines() if "/proc/" not in line]
    return "; ".join(lines)


@attack()
async def looks_into_the_first_process(attacker: Attacker, host: Host) -> str:
    """It holds the line to the host, and for a moment what a checker looks for."""
    done = await attacker.python(
        """
import ctypes, os
for path in ("fd", "root", "cwd", "exe", "mem", "environ", "maps", "fd/3", "ns/mnt"):
    path = "/proc/1/" + path
    try:
        if path.endswith(("mem", "environ", "maps")):
            with open(path, "rb") as file:
                file.seek(4096 if path.endswith("mem") else 0)
                print(path, file.read(1))
        elif path.endswith("fd"):
            for name in os.listdir(path):
                print(name, os.open(path + "/" + name, os.O_RDONLY | os.O_NONBLOCK))
        else:
            print(path, os.readlink(path))
    except OSError:
        pass
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, 1, 0, 0) == 0 or libc.ptrace(0x4206, 1, 0, 0) == 0:
    print("traced")
"""
    )
    return done.stdout


@attack(control=True)
async def writes_a_host_file(attacker: Attacker, host: Host) -> str:
    path = host.folder / "written"
    await attacker.bash(
        f"echo x > {path}; echo x > /proc/1/root{path}; mkdir -p {host.folder}; echo x > {path}"
    )
    return "a file was made" if path.exists() else ""


@attack()
async def writes_where_programs_lie(attacker: Attacker, host: Host) -> str:
    name = f"attacked-{host.secret}"
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
    return " ".join(found)


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
            timeout_s=10,
        )
    finally:
        await fresh.close()
    return seen.stdout if "poisoned" in seen.stdout else ""


@attack(control=True)
async def kills_a_host_process(attacker: Attacker, host: Host) -> str:
    pid = host.victim.pid
    await attacker.bash(f"kill -STOP {pid}; kill -9 {pid}")
    if not is_alive(host.victim):
        return "the victim is gone"
    return ""


@attack()
async def kills_everything(attacker: Attacker, host: Host) -> str:
    done = await attacker.bash("sleep 30 & kill -9 -1; sleep 0.1", timeout_s=5)
    if not is_alive(host.victim):
        return "the victim is gone"
    allowed = (CommandStatus.KILLED, CommandStatus.OK, CommandStatus.TIMEOUT)
    after = await attacker.bash("echo here")
    return "" if done.status in allowed and after.stdout == "here\n" else f"{done} {after}"


@attack()
async def kills_the_first_process(attacker: Attacker, host: Host) -> str:
    """It would be no escape, and an episode that ends so is no result; but it cannot be done."""
    signals = "KILL STOP TERM INT HUP QUIT SEGV ABRT BUS USR1 USR2 ALRM PIPE CHLD TSTP XCPU SYS"
    await attacker.bash(f"for s in {signals}; do kill -$s 1; done 2>/dev/null")
    after = await attacker.bash("echo here")
    return "" if after.stdout == "here\n" else f"{after}"


@attack()
async def traces_a_host_process(attacker: Attacker, host: Host) -> str:
    done = await attacker.python(
        f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
pid = {host.victim.pid}
if libc.ptrace(16, pid, 0, 0) == 0 or libc.ptrace(0x4206, pid, 0, 0) == 0:
    print("traced")
try:
    open(f"/proc/{{pid}}/mem", "rb").close()
    print("memory")
except OSError:
    pass
"""
    )
    status = Path(f"/proc/{host.victim.pid}/status").read_text()
    return done.stdout + ("" if "TracerPid:\t0" in status else "traced")


@attack(control=True)
async def opens_shared_memory(attacker: Attacker, host: Host) -> str:
    key = host.put_shared_memory()
    done = await attacker.python(
        f"import ctypes\nprint(ctypes.CDLL(None).shmget({key}, 0, 0) >= 0)"
    )
    return "the segment was found" if "True" in done.stdout else ""


@attack(control=True)
async def finds_a_key_in_the_keyring(attacker: Attacker, host: Host) -> str:
    if not host.put_key():
        return "" if isinstance(attacker, Confined) else "no keyring here, so nothing to show"
    done = await attacker.python(
        f"""
import ctypes, os
numbers = {{"x86_64": (249, 250), "aarch64": (218, 219)}}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
wanted = {host.secret.encode()!r}
found = libc.syscall(numbers[0], b"user", wanted, None, 0) > 0
found = found or libc.syscall(numbers[1], 10, -4, b"user", wanted, 0) > 0
print(found)
"""
    )
    return "the key was found" if "True" in done.stdout else ""


@attack()
async def reaches_another_sandbox(attacker: Attacker, host: Host) -> str:
    """Two at once neither see, signal, reach nor fill each other."""
    assert host.sandboxes is not None
    other = await host.sandboxes.open(spec_for(attacker.profile))
    place = "/work" if attacker.profile == "code" else "/root"
    try:
        await other.write(f"{place}/mine", host.secret.encode())
        server = (
            "import socket,sys,time\n"
            f"s = socket.socket(socket.AF_UNIX); s.bind(chr(0) + '{host.secret}'); s.listen()\n"
            "t = socket.create_server(('127.0.0.1', 4242)); time.sleep(1)\n"
            "s.setblocking(False); t.setblocking(False)\n"
            "for x in (s, t):\n  try: x.accept(); print('reached')\n  except OSError: pass\n"
        )
        waiting = asyncio.create_task(other.run(["python3", "-c", server], timeout_s=10))
        await asyncio.sleep(0.3)
        seen = await attacker.bash(
            f"cat {place}/mine /proc/*/root{place}/mine; cat /proc/*/cmdline | tr '\\0' ' '; "
            "kill -9 -- $(ls /proc | grep -E '^[0-9]+$' | grep -vx -e 1 -e $$) ; "
            f"dd if=/dev/zero of={place}/full bs=1M count=40; "
            "exec 3<>/dev/tcp/127.0.0.1/4242"
        )
        await attacker.python(CONNECT.format(family="AF_UNIX", address=f"\0{host.secret}"))
        theirs = await waiting
        kept = await other.read(f"{place}/mine")
        room = await other.run(
            ["dd", "if=/dev/zero", f"of={place}/own", "bs=1M", "count=20"], timeout_s=10
        )
    finally:
        await other.close()
    if host.secret in seen.stdout or "reached" in theirs.stdout:
        return "the other was seen or reached"
    is_well = kept == host.secret.encode() and room.exit_code == 0
    return "" if is_well and theirs.status is CommandStatus.OK else f"{theirs} {room}"
