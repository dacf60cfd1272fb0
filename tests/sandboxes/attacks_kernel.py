"""Attacks on the kernel's own controls: settings, devices, mounts, namespaces, tools.

Each tries what it can and is then held still, while the host looks at what came of it.
"""

import ctypes
import os
import time
from contextlib import suppress
from pathlib import Path

from tests.sandboxes.host import CALL, Attacker, Host, NothingToTry, attack, held, innocent
from tests.sandboxes.looking import Seen, is_harmless_device, kernel_state

NAMESPACED = ("/proc/sys/net/", "/proc/sys/user/", "/proc/sys/fs/mqueue/")
"""Settings of namespaces that die with the sandbox."""
NAMESPACED_FILES = (
    *("hostname", "domainname", "sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced"),
    *("msgmax", "msgmnb", "msgmni", "auto_msgmni", "sem_next_id", "msg_next_id"),
    *("shm_next_id", "ns_last_pid", "pid_max"),
)
ROOT_FOLDER_INODE = 2
ESTIMATED_ERROR = 54_321
CLOCK_JUMP_S = 2.0
libc = ctypes.CDLL(None, use_errno=True)


@attack()
async def writes_kernel_settings(attacker: Attacker, host: Host) -> str:
    """Opens them for writing, and writes nothing; the host sees what is open."""
    before = kernel_state()
    script = f"""
found = ["/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem",
         "/proc/kpagemap", "/proc/timer_list", "/proc/1/mem"]
for top in ("/proc/sys", "/sys", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/fs"):
    for folder, _, names in os.walk(top):
        found += [folder + "/" + name for name in names][:5000]
for path in found:
    if path.startswith({NAMESPACED!r}) or path.rpartition("/")[2] in {NAMESPACED_FILES!r}:
        continue
    try:
        kept(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        pass
    if len(held) > 500:
        break
"""
    async with held(attacker, host, script) as process:
        reached = [file.link for file in process.files_beyond()]
    return " ".join(reached) or changed(before)


def changed(before: dict[str, str]) -> str:
    """How the kernel is set otherwise than before."""
    after = kernel_state()
    return " ".join(name for name in before | after if before.get(name) != after.get(name))


@attack()
async def changes_settings_of_namespaces(attacker: Attacker, host: Host) -> str:
    """By a harmless little, which must stay inside."""
    before = kernel_state()
    script = """
import socket
for name, change in (("pid_max", lambda old: str(int(old) - 1)), ("hostname", lambda old: mark[:8]),
                     ("domainname", lambda old: mark[:8])):
    try:
        old = open("/proc/sys/kernel/" + name).read()
        open("/proc/sys/kernel/" + name, "w").write(change(old))
    except OSError:
        pass
try:
    socket.sethostname(mark[:8])
except OSError:
    pass
"""
    async with held(attacker, host, script):
        seen = changed(before)
    return seen or changed(before) or ("renamed" if os.uname().nodename == host.secret[:8] else "")


@attack()
async def rewrites_the_core_pattern(attacker: Attacker, host: Host) -> str:
    """Who may write it runs programs as root when something crashes; this one would name none."""
    path = Path("/proc/sys/kernel/core_pattern")
    before = path.read_text()
    script = f"""
for path in ("{path}", "/proc/1/root{path}"):
    try:
        open(path, "w").write("core." + mark)
    except OSError:
        pass
"""
    async with held(attacker, host, script):
        after = path.read_text()
    if after != before:
        with suppress(OSError):
            path.write_text(before)
    return "" if after == before else after


@attack()
async def makes_devices(attacker: Attacker, host: Host) -> str:
    """The host's disk, memory and log; it looks for the nodes itself, and for open ones."""
    device = os.stat("/").st_dev
    places = ("/tmp", "/work", "/srv", "/dev", "/dev/shm")
    script = f"""
import stat
character = stat.S_IFCHR
for kind, name, number in ((stat.S_IFBLK, "disk", {device}), (character, "mem", os.makedev(1, 1)),
                           (character, "kmsg", os.makedev(1, 11))):
    for place in {places!r}:
        path = place + "/" + name + mark
        try:
            os.mknod(path, kind | 0o666, number)
            kept(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            pass
for place in {places!r}:
    try:
        open(place + "/file" + mark, "w").close()  # the host must find this one, or looks nowhere
    except OSError:
        pass
"""
    async with held(attacker, host, script) as process:
        found = [f"opened {file.link}" for file in process.files_beyond() if file.is_device]
        seen = names_in(process, places)
    marked = {name for name in seen if host.secret in name}
    if f"file{host.secret}" not in marked:
        return "the host did not find what was made"
    return " ".join([*found, *(marked - {f"file{host.secret}"})])


def names_in(process: Seen, places: tuple[str, ...]) -> set[str]:
    """What lies in folders of a process's file systems, as the host sees them."""
    found: set[str] = set()
    for place in places:
        with suppress(OSError):
            found |= set(os.listdir(f"/proc/{process.pid}/root{place}"))
    return found


@attack()
async def opens_devices_of_the_host(attacker: Attacker, host: Host) -> str:
    """Those that are shown are the harmless ones: null, zero, full, random, urandom, tty, ptys."""
    script = """
for folder, _, names in os.walk("/dev"):
    for name in names:
        try:
            kept(os.open(folder + "/" + name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
        except OSError:
            pass
"""
    async with held(attacker, host, script) as process:
        opened = [file for file in process.files_beyond() if file.is_device]
        shown = devices_below(f"/proc/{process.pid}/root/dev")
    if not any(file.link == "/dev/null" for file in opened):
        return "not even /dev/null was opened"
    found = [file.link for file in opened if not is_harmless_device(file.device)]
    return " ".join([*found, *(path for path, at in shown.items() if not is_harmless_device(at))])


def devices_below(top: str) -> dict[str, int]:
    """Device nodes in a folder and those below it, by their paths."""
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            with suppress(OSError):
                what = os.lstat(f"{folder}/{name}")
                if what.st_rdev:
                    found[f"{folder}/{name}"] = what.st_rdev
    return found


@attack()
async def mounts(attacker: Attacker, host: Host) -> str:
    """The host compares the mounts that it sees in the sandbox, and its own."""
    before = kernel_state()
    async with innocent(attacker, host) as process:
        usual, root = process.mounts(), process.root()
    script = (
        CALL
        + """
for source, target, kind, flags in ((b"none", b"/tmp", b"tmpfs", 0), (b"proc", b"/tmp", b"proc", 0),
        (b"/", b"/tmp", None, 4096), (b"none", b"/tmp", b"cgroup2", 0), (b"none", b"/", None, 32),
        (b"none", b"/tmp", b"sysfs", 0), (b"none", b"/tmp", b"devtmpfs", 0)):
    call(165, 40, source, target, kind, ctypes.c_ulong(flags), None)
call(166, 39, b"/proc", 2)
call(166, 39, b"/", 2)
call(155, 41, b".", b".")
call(430, 430, b"tmpfs", 0)  # fsopen
call(428, 428, -100, b"/", 1)  # open_tree
call(429, 429, -100, b"/tmp", -100, b"/mnt", 0)  # move_mount
call(433, 433, -100, b"/", 0)  # fspick
call(442, 442, -100, b"/", 0, (ctypes.c_ulong * 4)(1, 0, 0, 0), 32)  # mount_setattr, read-only
call(161, 51, b"/tmp")  # chroot
"""
    )
    async with held(attacker, host, script) as process:
        found = [file.link for file in process.files_beyond()]
        found += sorted(set(process.mounts()) ^ set(usual))
        found += ["another root"] if process.root() != root else []
    return " ".join(found) or changed(before)


@attack(control="root")
async def makes_namespaces(attacker: Attacker, host: Host) -> str:
    """Or enters those of the first process; the host sees in which everyone is."""
    async with innocent(attacker, host) as process:
        usual = process.namespaces()
    script = (
        CALL
        + """
NEW = {"mnt": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000,
       "net": 0x40000000, "cgroup": 0x2000000, "time": 0x80}
for name, flag in NEW.items():
    if name != "time":  # clone takes its bit for a signal
        if call(56, 220, flag | 17, 0, 0, 0, 0) == 0:
            libc.pause()
for name, flag in NEW.items():
    call(272, 97, flag)
    call(272, 97, flag | NEW["user"])
names = ("mnt", "user", "pid", "net", "ipc", "uts", "cgroup")
for path in [f"/proc/{who}/ns/{name}" for who in ("1", "self") for name in names]:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        continue
    call(308, 268, fd, 0)
    os.close(fd)
arguments = (ctypes.c_uint64 * 8)(NEW["user"], 0, 0, 0, 17)
if call(435, 435, arguments, 64) == 0:  # clone3
    libc.pause()
"""
    )
    async with held(attacker, host, script) as process:
        found = {
            f"{name} of {pid}"
            for pid in {process.pid, *host.marked()}
            for name, which in Seen(pid).namespaces().items()
            if which != usual[name]
        }
        found |= {file.link for file in process.files_beyond()}
    return " ".join(sorted(found))


@attack(control="root")
async def opens_by_handle(attacker: Attacker, host: Host) -> str:
    """The door through which containers once read every file of their host.

    One handle is of a file of the host's, the other of the root of whatever file system it is.
    """
    given = ctypes.create_string_buffer(8 + 128)
    ctypes.c_uint.from_buffer(given).value = 128
    mount = ctypes.c_int()
    path = str(host.readable).encode()
    number = {"x86_64": 303, "aarch64": 264}[os.uname().machine]
    if libc.syscall(number, -100, path, given, ctypes.byref(mount), 0) < 0:
        raise NothingToTry("the file system of temporary files gives no handles")
    script = (
        CALL
        + f"""
root = bytes([8, 0, 0, 0, 1, 0, 0, 0, {ROOT_FOLDER_INODE}]) + bytes(120)
for place in ("/usr", "/", "/tmp", "/work", "/proc/self"):
    for content in ({given.raw!r}, root):
        handle = ctypes.create_string_buffer(content)
        call(303, 264, -100, place.encode(), handle, ctypes.byref(ctypes.c_int()), 0)
        handle = ctypes.create_string_buffer(content)
        try:
            at = os.open(place, os.O_RDONLY)
        except OSError:
            continue
        call(304, 265, at, handle, 0)
        os.close(at)
"""
    )
    async with held(attacker, host, script) as process:
        return " ".join(file.link for file in process.files_beyond())


@attack(control="root")
async def takes_tools_of_the_kernel(attacker: Attacker, host: Host) -> str:
    """Calls that would give an open file, with which a program reaches far into the kernel."""
    script = (
        CALL
        + """
call(321, 280, 0, (ctypes.c_uint * 32)(2, 4, 4, 1), 128)  # bpf: an array of one number
call(298, 241, (ctypes.c_uint * 32)(1, 128), 0, -1, -1, 0)  # perf_event_open: a clock
call(323, 282, 1)  # userfaultfd, of one's own memory
call(425, 425, 1, ctypes.create_string_buffer(120))  # io_uring_setup
call(300, 262, 0x200, 0)  # fanotify_init
at = libc.syscall(ctypes.c_long(434), 1, 0)  # pidfd_open of the first process is allowed
if at >= 0:
    for number in range(10):
        call(438, 438, at, number, 0)  # pidfd_getfd
    os.close(at)
"""
    )
    async with held(attacker, host, script) as process:
        return " ".join(file.link for file in process.files_beyond())


@attack()
async def changes_the_kernel(attacker: Attacker, host: Host) -> str:
    """Clock, console, accounting, Ctrl-Alt-Del, swap: each would be seen by the host."""
    before, offset = kernel_state(), time.time() - time.monotonic()
    script = (
        CALL
        + f"""
now = time.time() + {CLOCK_JUMP_S}
at = (ctypes.c_long * 2)(int(now), 0)
call(227, 112, 0, at)  # clock_settime
call(164, 170, at, None)  # settimeofday
adjusted = ctypes.create_string_buffer(256)
ctypes.c_uint.from_buffer(adjusted).value = 8
ctypes.c_long.from_buffer(adjusted, 32).value = {ESTIMATED_ERROR}
call(159, 171, adjusted)  # adjtimex
call(305, 266, 0, adjusted)  # clock_adjtime
call(103, 116, 8, None, 5)  # syslog: what is shown on the console
call(169, 142, 0xFEE1DEAD, 672274793, 0x89ABCDEF, None)  # reboot: turns on Ctrl-Alt-Del
call(169, 142, 1, 2, 3, None)
for place in ("/tmp", "/work"):
    try:
        open(place + "/account", "w").close()
        call(163, 89, (place + "/account").encode())  # acct
        call(167, 224, (place + "/account").encode(), 0)  # swapon
    except OSError:
        pass
os.system("true; /bin/true")
"""
    )
    async with held(attacker, host, script) as process:
        written = [
            place
            for place in ("/tmp", "/work")
            for path in [Path(f"/proc/{process.pid}/root{place}/account")]
            if path.exists() and path.stat().st_size
        ]
        written += [file.link for file in process.files_beyond()]
    moved = abs(time.time() - time.monotonic() - offset) > CLOCK_JUMP_S / 2
    adjusted = ctypes.create_string_buffer(256)
    libc.adjtimex(adjusted)
    is_adjusted = ctypes.c_long.from_buffer(adjusted, 32).value == ESTIMATED_ERROR
    return " ".join(written + ["clock"] * (moved or is_adjusted)) or changed(before)


@attack(control="root")
async def calls_what_only_the_host_needs(attacker: Attacker, host: Host) -> str:
    """With arguments that do nothing where the call is let through."""
    before = kernel_state()
    script = (
        CALL
        + """
call(175, 105, None, 0, b"")  # init_module
call(313, 273, -1, b"", 0)  # finit_module
call(176, 106, b"no_such_module", 0)  # delete_module
call(246, 104, 0, 0, None, ctypes.c_ulong(0xFFFF0000))  # kexec_load, of no architecture
call(320, 294, -1, -1, 0, b"", 0)  # kexec_file_load
call(169, 142, 1, 2, 3, None)  # reboot
call(168, 225, b"/nowhere")  # swapoff
call(179, 60, 0, None, 0, None)  # quotactl
call(103, 116, 10, None, 0)  # syslog: how long the log is
call(172, None, 9)  # iopl, of no level
call(173, None, 1 << 20, 1, 1)  # ioperm, of no port
call(310, 270, 1, None, 0, None, 0, 0)  # process_vm_readv
call(311, 271, 1, None, 0, None, 0, 0)  # process_vm_writev
call(312, 272, 1, 1, 0, 0, 0)  # kcmp
call(426, 426, -1, 0, 0, 0, None, 0)  # io_uring_enter
call(427, 427, -1, 0, None, 0)  # io_uring_register
call(212, 18, 0, None, 0)  # lookup_dcookie
call(250, 219, 0, -3, 0)  # keyctl
call(249, 218, b"user", b"attack", None, 0)  # request_key
call(135, 92, 0x0008)  # personality, of another system
"""
    )
    async with held(attacker, host, script) as process:
        count = len(process.files_beyond())
    return f"{count} calls were not refused" if count else changed(before)
