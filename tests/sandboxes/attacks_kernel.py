"""Attacks on the kernel's own controls: settings, devices, mounts, namespaces, privileged calls."""

import os
from pathlib import Path

from tests.sandboxes.host import Attacker, Host, attack

from practicum.core.command import CommandStatus

NAMESPACED = ("/proc/sys/net/", "/proc/sys/user/", "/proc/sys/fs/mqueue/")
"""Settings of namespaces that die with the sandbox."""
NAMESPACED_FILES = (
    "hostname",
    "domainname",
    "sem",
    "shmall",
    "shmmax",
    "shmmni",
    "shm_rmid_forced",
)
NAMESPACED_FILES += ("msgmax", "msgmnb", "msgmni", "auto_msgmni", "sem_next_id", "msg_next_id")
NAMESPACED_FILES += ("shm_next_id", "ns_last_pid", "pid_max")

CALLS = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
machine = os.uname().machine
def call(name, x86, arm, *arguments):
    number = x86 if machine == "x86_64" else arm
    if number is None:
        return
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *arguments)
    code = ctypes.get_errno()
    if result >= 0 or code not in (errno.EPERM, errno.ENOSYS, errno.EACCES):
        print(name, result, errno.errorcode.get(code))
"""


@attack()
async def writes_kernel_settings(attacker: Attacker, host: Host) -> str:
    """Opens them for writing, and writes nothing."""
    before = settings()
    done = await attacker.python(
        """
import os
found = ["/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/mem",
         "/proc/kpagemap", "/proc/timer_list", "/proc/1/mem"]
for top in ("/proc/sys", "/sys", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/fs"):
    for folder, _, names in os.walk(top):
        found += [folder + "/" + name for name in names][:5000]
for path in found:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        print(path)
    except OSError:
        pass
"""
    )
    reached = [
        path
        for path in done.stdout.split()
        if not path.startswith(NAMESPACED) and path.rpartition("/")[2] not in NAMESPACED_FILES
    ]
    after = settings()
    return " ".join(reached) + ("" if before == after else f" {after}")


def settings() -> list[str]:
    """What the host's kernel is set to; recent kernels have a `pid_max` for each namespace."""
    names = ("core_pattern", "pid_max", "hostname", "domainname", "threads-max")
    return [Path(f"/proc/sys/kernel/{name}").read_text() for name in names]


@attack()
async def changes_settings_of_namespaces(attacker: Attacker, host: Host) -> str:
    """By a harmless little, which must stay inside."""
    before = settings()
    await attacker.bash(
        "echo $(($(cat /proc/sys/kernel/pid_max) - 1)) > /proc/sys/kernel/pid_max; "
        "echo attacked > /proc/sys/kernel/hostname; hostname attacked"
    )
    after = settings()
    return "" if before == after else f"{after}"


@attack()
async def rewrites_the_core_pattern(attacker: Attacker, host: Host) -> str:
    """With the value it has: who may write it runs programs as root when something crashes."""
    path = "/proc/sys/kernel/core_pattern"
    done = await attacker.bash(f'v=$(cat {path}); printf %s "$v" > {path} && echo written')
    return done.stdout


@attack()
async def changes_its_control_group(attacker: Attacker, host: Host) -> str:
    done = await attacker.bash(
        "find / -xdev -name 'cgroup.procs' -o -xdev -name 'memory.max' -o -xdev "
        "-name 'memory.limit_in_bytes' -o -xdev -name release_agent 2>/dev/null; "
        "ls -A /sys/fs/cgroup 2>/dev/null; echo -1000 > /proc/self/oom_score_adj && echo spared"
    )
    return done.stdout


@attack()
async def makes_devices(attacker: Attacker, host: Host) -> str:
    device = os.stat("/").st_dev
    done = await attacker.python(
        f"""
import os, stat
character = stat.S_IFCHR
for kind, name, number in ((stat.S_IFBLK, "disk", {device}), (character, "mem", os.makedev(1, 1)),
                           (character, "kmsg", os.makedev(1, 11))):
    for place in ("/tmp/", "/work/", "/root/", "/dev/", "/dev/shm/"):
        try:
            os.mknod(place + name, kind | 0o666, number)
            os.close(os.open(place + name, os.O_RDONLY | os.O_NONBLOCK))
            print("opened", place + name)
        except OSError:
            pass
"""
    )
    return done.stdout


@attack()
async def opens_devices_of_the_host(attacker: Attacker, host: Host) -> str:
    """Those that are shown are the harmless ones: null, zero, full, random, urandom, tty, ptys."""
    done = await attacker.bash(
        "for f in /dev/vd* /dev/sd* /dev/nvme* /dev/mem /dev/kmem /dev/port /dev/kvm /dev/fuse "
        "/dev/net/tun /dev/loop* /dev/vsock /dev/vhost* /dev/nvidia* /dev/dri/* /dev/input/* "
        "/dev/mapper/* /dev/btrfs-control /dev/userfaultfd /dev/core /dev/console; do "
        "test -e $f && (exec 3<$f) 2>/dev/null && echo $f; done; "
        "find /dev -type b -o -type c | grep -vE '/(null|zero|full|u?random|tty|ptmx)$'"
    )
    return done.stdout


@attack()
async def mounts(attacker: Attacker, host: Host) -> str:
    done = await attacker.python(
        CALLS
        + """
for source, target, kind, flags in ((b"none", b"/tmp", b"tmpfs", 0), (b"proc", b"/tmp", b"proc", 0),
        (b"/", b"/tmp", None, 4096), (b"none", b"/tmp", b"cgroup2", 0), (b"none", b"/", None, 32),
        (b"none", b"/tmp", b"sysfs", 0), (b"none", b"/tmp", b"devtmpfs", 0)):
    flags = ctypes.c_ulong(flags)
    call("mount " + repr((target, kind)), 165, 40, source, target, kind, flags, None)
call("umount", 166, 39, b"/proc", 2)
call("umount", 166, 39, b"/", 2)
call("pivot_root", 155, 41, b".", b".")
call("fsopen", 430, 430, b"tmpfs", 0)
call("open_tree", 428, 428, -100, b"/", 1)
call("move_mount", 429, 429, -100, b"/tmp", -100, b"/mnt", 0)
call("fspick", 433, 433, -100, b"/", 0)
call("mount_setattr", 442, 442, -100, b"/", 0, None, 0)
call("chroot", 161, 51, b"/tmp")
"""
    )
    return done.stdout


@attack()
async def makes_namespaces(attacker: Attacker, host: Host) -> str:
    done = await attacker.python(
        CALLS
        + """
NEW = {"mnt": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000,
       "net": 0x40000000, "cgroup": 0x2000000, "time": 0x80}
for name, flag in NEW.items():
    call("unshare " + name, 272, 97, flag)
    call("unshare user " + name, 272, 97, flag | NEW["user"])
    if name != "time":  # clone takes its bit for a signal
        pid = libc.syscall(ctypes.c_long(56 if machine == "x86_64" else 220), flag | 17, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        if pid > 0:
            print("clone", name)
for who in ("1", "self"):
    for name in ("mnt", "user", "pid", "net", "ipc", "uts", "cgroup"):
        try:
            fd = os.open(f"/proc/{who}/ns/{name}", os.O_RDONLY)
        except OSError:
            continue
        call(f"setns {who} {name}", 308, 268, fd, 0)
call("clone3", 435, 435, None, 0)
"""
    )
    return done.stdout


@attack()
async def opens_by_handle(attacker: Attacker, host: Host) -> str:
    """The door through which containers once read every file of their host."""
    done = await attacker.python(
        CALLS
        + """
handle = ctypes.create_string_buffer(bytes([8, 0, 0, 0, 1, 0, 0, 0, 2]) + bytes(120))
mount = ctypes.c_int()
call("name_to_handle_at", 303, 264, -100, b"/usr", handle, ctypes.byref(mount), 0)
call("open_by_handle_at", 304, 265, os.open("/usr", os.O_RDONLY), handle, 0)
"""
    )
    return done.stdout


@attack()
async def calls_what_only_the_host_needs(attacker: Attacker, host: Host) -> str:
    """With arguments that would do nothing if the call were let through."""
    done = await attacker.python(
        CALLS
        + """
call("bpf", 321, 280, 0, None, 0)
call("perf_event_open", 298, 241, None, 0, -1, -1, 0)
call("userfaultfd", 323, 282, 0)
call("io_uring_setup", 425, 425, 1, None)
call("io_uring_enter", 426, 426, -1, 0, 0, 0, None, 0)
call("io_uring_register", 427, 427, -1, 0, None, 0)
call("add_key", 248, 217, b"user", b"attack", b"x", 1, -2)
call("request_key", 249, 218, b"user", b"attack", None, 0)
call("keyctl", 250, 219, 0, -3, 0)
call("init_module", 175, 105, None, 0, b"")
call("finit_module", 313, 273, -1, b"", 0)
call("delete_module", 176, 106, b"no_such_module", 0)
call("kexec_load", 246, 104, 0, 0, None, 0)
call("kexec_file_load", 320, 294, -1, -1, 0, b"", 0)
call("reboot", 169, 142, 1, 2, 3, None)
call("swapon", 167, 224, b"/nowhere", 0)
call("swapoff", 168, 225, b"/nowhere")
call("acct", 163, 89, b"/nowhere")
call("quotactl", 179, 60, 0, None, 0, None)
call("settimeofday", 164, 170, None, None)
call("clock_settime", 227, 112, 0, None)
call("adjtimex", 159, 171, None)
call("syslog", 103, 116, 3, None, 0)
call("iopl", 172, None, 3)
call("ioperm", 173, None, 0, 1, 1)
call("process_vm_readv", 310, 270, 1, None, 0, None, 0, 0)
call("process_vm_writev", 311, 271, 1, None, 0, None, 0, 0)
call("pidfd_getfd", 438, 438, -1, 0, 0)
call("kcmp", 312, 272, 1, 1, 0, 0, 0)
call("fanotify_init", 300, 262, 0, 0)
call("lookup_dcookie", 212, 18, 0, None, 0)
call("vhangup", 153, 58)
"""
    )
    return done.stdout


@attack()
async def enters_as_another_architecture(attacker: Attacker, host: Host) -> str:
    """32-bit calls and x32 calls have other numbers, which a filter might not know."""
    if os.uname().machine != "x86_64":
        return ""
    done = await attacker.python(
        """
import ctypes, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(ctypes.c_long(0x40000000 | 39)) > 0:
    print("x32")
page = mmap.mmap(-1, 4096, prot=7)
page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")  # getpid by int 0x80
child = os.fork()
if child == 0:
    number = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    os._exit(7 if number == os.getpid() else 8)
if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7:
    print("int 0x80")
"""
    )
    return done.stdout


@attack()
async def gains_rights_by_setuid(attacker: Attacker, host: Host) -> str:
    """A program that is owned by root and runs as its owner, called by somebody else."""
    done = await attacker.python(
        """
import os, shutil, subprocess
path = "/work/become" if os.getuid() else "/become"
shutil.copy("/usr/bin/id", path)
try:
    os.chmod(path, 0o6755)
except OSError:
    os.chmod(path, 0o755)
def other():
    if os.getuid() == 0:
        os.setgroups([]); os.setgid(1234); os.setuid(1234)
for command in ([path, "-u"], ["grep", "-E", "CapEff|NoNewPrivs", "/proc/self/status"]):
    print(subprocess.run(command, preexec_fn=other, capture_output=True).stdout.decode())
"""
    )
    words = done.stdout.split()
    is_well = (
        done.status is CommandStatus.OK
        and words[:1] in (["1000"], ["1234"])
        and words[words.index("CapEff:") + 1] == "0" * 16
        and words[words.index("NoNewPrivs:") + 1] == "1"
    )
    return "" if is_well else f"{done}"


@attack()
async def types_into_a_terminal(attacker: Attacker, host: Host) -> str:
    """TIOCSTI puts characters into a terminal as if the user had typed them."""
    done = await attacker.python(
        """
import fcntl, os, pty
opened = []
try:
    opened.append(("/dev/tty", os.open("/dev/tty", os.O_RDWR)))
    print("has a terminal")
except OSError:
    pass
try:
    opened.append(("pty", pty.openpty()[1]))
except OSError:
    pass
for name, fd in opened:
    for call in (0x5412, 0x541C):
        try:
            fcntl.ioctl(fd, call, b"x")
            print("typed into", name, hex(call))
        except OSError:
            pass
"""
    )
    return done.stdout


@attack()
async def raises_its_limits(attacker: Attacker, host: Host) -> str:
    done = await attacker.python(
        """
import os, resource
for name in ("RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_CORE", "RLIMIT_MEMLOCK", "RLIMIT_NICE"):
    kind = getattr(resource, name, None)
    if kind is None:
        continue
    soft, hard = resource.getrlimit(kind)
    try:
        resource.setrlimit(kind, (hard + 1, hard + 1) if hard >= 0 else (soft, hard))
        if hard >= 0:
            print("raised", name)
    except (OSError, ValueError):
        pass
try:
    os.nice(-5)
    print("nicer")
except OSError:
    pass
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    print("real time")
except OSError:
    pass
"""
    )
    return done.stdout
