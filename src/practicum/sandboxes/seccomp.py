"""The seccomp filter of a sandbox: a denylist of system calls, compiled to classic BPF.

It is a second line of defence behind namespaces and capabilities: it denies calls that no program
in a sandbox needs and that kernel exploits have used. The rules of one call are one short block
that ends in a return, so a jump never leaves its block: a jump offset has only eight bits.
"""

import errno
import os
import stat
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from practicum.core.command import SandboxProfile
from practicum.core.errors import UserError

Architecture = Literal["x86_64", "aarch64"]
ARCHITECTURES: tuple[Architecture, ...] = ("x86_64", "aarch64")

AUDIT: dict[Architecture, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""AUDIT_ARCH of each: what `seccomp_data.arch` holds."""

NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "creat": (85, None),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchownat": (260, 54),
    "file_setattr": (469, 469),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "get_kernel_syms": (177, None),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open": (2, None),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "removexattrat": (466, 466),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "truncate": (76, 45),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
}
"""Numbers of each call on x86_64 and aarch64; None where it does not exist."""


def native_architecture() -> Architecture:
    """The architecture of this process; `UserError` where there is no filter for it.

    A 32-bit Python on a 64-bit kernel makes 32-bit system calls, which have other numbers.
    """
    machine = os.uname().machine
    if machine not in ARCHITECTURES or sys.maxsize < 2**32:
        bits = "64" if sys.maxsize > 2**32 else "32"
        raise UserError(
            f"sandboxes do not run on {machine} with a {bits}-bit Python; allowed are 64-bit "
            f"{' and '.join(ARCHITECTURES)}; type `uname -m` to see what a machine is"
        )
    return machine


def number_of(name: str, architecture: Architecture) -> int | None:
    """The number of a call, or None where the architecture lacks it."""
    return NUMBERS[name][ARCHITECTURES.index(architecture)]


# struct seccomp_data { int nr; __u32 arch; __u64 instruction_pointer; __u64 args[6]; }
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
LOAD, MASK, EQUALS, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
KILL_PROCESS, ALLOW, FAIL = 0x80000000, 0x7FFF0000, 0x00050000
X32 = 0x40000000
"""Bit of x32 system calls: the same calls under other numbers, which would pass the filter."""
LOW_WORD = 0xFFFFFFFF
NEW_NAMESPACE = 0x7E020000
"""Every CLONE_NEW flag that `clone` knows."""
QUERY_PERSONALITY = 0xFFFFFFFF
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SET_ID_BITS = stat.S_ISUID | stat.S_ISGID
CREATES_FILE = 0o100 | 0o20000000
"""O_CREAT, and what O_TMPFILE has beside O_DIRECTORY; the same on both architectures."""
PRIORITY_OF_USER, IO_PRIORITY_OF_USER = 2, 3
ATTRIBUTES = (
    *("setxattr", "lsetxattr", "removexattr", "lremovexattr", "setxattrat", "removexattrat"),
    "file_setattr",
)
METADATA = (
    *("chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat", "utime", "utimes"),
    "futimesat",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A test of one argument: of its lower 32 bits, as most of the calls here read no more."""

    argument: int
    values: tuple[int, ...]
    mask: int = LOW_WORD
    is_upper: bool = False
    """Whether it is about the upper 32 bits instead."""
    is_among: bool = True
    """Whether the masked argument must be one of the values, or none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A call that fails with `error` when every condition holds."""

    call: str
    error: int = errno.EPERM
    conditions: tuple[Condition, ...] = ()


FORBIDDEN = (
    # File systems and namespaces.
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns"),
    *("open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("mount_setattr", "name_to_handle_at", "open_by_handle_at", "quotactl", "quotactl_fd"),
    # Other processes, beyond signals.
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"),
    # Keys, which no namespace separates, and parts of the kernel that no program here needs.
    *("add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd"),
    *("fanotify_init", "lookup_dcookie", "nfsservctl", "vhangup", "_sysctl", "uselib"),
    # The machine itself.
    *("init_module", "finit_module", "delete_module", "create_module", "query_module"),
    *("get_kernel_syms", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct"),
    *("syslog", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex"),
    *("iopl", "ioperm", "modify_ldt"),
)
UNKNOWN = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
"""ENOSYS makes programs fall back to older calls. The flags of `clone3` are in memory, which a
filter cannot read; io_uring would make system calls that no filter sees."""
SHARED_MEMORY = ("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl")
SHARED_QUEUES = ("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open")


Sharing = Literal["nothing", "host", "user"]
"""What a sandbox shares with the host: nothing (it has its own namespaces); `host`, processes and
files; `user`, the user id too, so that file permissions do not protect the user's files."""


def rules_of(profile: SandboxProfile, *, shares: Sharing = "nothing") -> tuple[Rule, ...]:
    """The rules of a profile, and more for a sandbox that shares something with the host."""
    return (
        *(Rule(call=call) for call in FORBIDDEN),
        *(Rule(call=call, error=errno.ENOSYS) for call in UNKNOWN),
        *_everywhere(),
        *(_set_id_bits() if profile == "code" else ()),
        *(_socket_families() if shares == "nothing" else _reaching_the_host()),
        *(_changing_metadata() if shares == "user" else ()),
    )


def _everywhere() -> Iterable[Rule]:
    # No new user namespace: in it a process would have all capabilities.
    namespaces = Condition(argument=0, mask=NEW_NAMESPACE, values=(0,), is_among=False)
    yield Rule(call="clone", conditions=(namespaces,))
    query = Condition(argument=0, values=(QUERY_PERSONALITY,), is_among=False)
    yield Rule(call="personality", conditions=(query,))
    # These ioctls type into the terminal that Practicum was started from.
    terminal = Condition(argument=1, values=(TIOCSTI, TIOCLINUX))
    yield Rule(call="ioctl", conditions=(terminal,))
    devices = (stat.S_IFCHR, stat.S_IFBLK)
    for call, mode in (("mknod", 1), ("mknodat", 2)):
        kind = Condition(argument=mode, mask=0o170000, values=devices)
        yield Rule(call=call, conditions=(kind,))
    yield Rule(
        call="socketpair",
        error=errno.EAFNOSUPPORT,
        conditions=(Condition(argument=0, values=(UNIX,), is_among=False),),
    )


def _socket_families() -> Iterable[Rule]:
    """Known families only: no network namespace isolates AF_VSOCK, which reaches the hypervisor."""
    known = Condition(argument=0, values=(UNIX, INET, INET6, NETLINK), is_among=False)
    yield Rule(call="socket", error=errno.EAFNOSUPPORT, conditions=(known,))


def _set_id_bits() -> Iterable[Rule]:
    """No set-user-ID or set-group-ID files, which would lend the sandbox's user to others."""
    for call, mode in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        yield Rule(call=call, conditions=(_has_set_id(mode),))
    for call, mode in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        yield Rule(call=call, conditions=(_has_set_id(mode),))
    for call, flags, mode in (("open", 1, 2), ("openat", 2, 3)):
        makes = Condition(argument=flags, mask=CREATES_FILE, values=(0,), is_among=False)
        yield Rule(call=call, conditions=(makes, _has_set_id(mode)))
    # Its mode is in memory, which a filter cannot read.
    yield Rule(call="openat2", error=errno.ENOSYS)


def _has_set_id(argument: int) -> Condition:
    return Condition(argument=argument, mask=SET_ID_BITS, values=(0,), is_among=False)


def _reaching_the_host() -> Iterable[Rule]:
    for call in ("socket", *SHARED_MEMORY, *SHARED_QUEUES, "inotify_add_watch", *ATTRIBUTES):
        yield Rule(call=call)
    # Truncation; Landlock controls it only from its version 3 on.
    yield Rule(call="truncate")
    for call, flags in (("open", 1), ("openat", 2)):
        reads = Condition(argument=flags, mask=os.O_ACCMODE, values=(os.O_RDONLY,))
        empties = Condition(argument=flags, mask=os.O_TRUNC, values=(os.O_TRUNC,))
        yield Rule(call=call, conditions=(reads, empties))
    for call in (
        *("prlimit64", "sched_setaffinity", "sched_setattr"),
        *("sched_setparam", "sched_setscheduler"),
    ):
        yield Rule(call=call, conditions=(_another(0),))
    for call, of_user in (("setpriority", PRIORITY_OF_USER), ("ioprio_set", IO_PRIORITY_OF_USER)):
        yield Rule(call=call, conditions=(_another(1),))
        yield Rule(call=call, conditions=(Condition(argument=0, values=(of_user,)),))


def _changing_metadata() -> Iterable[Rule]:
    """Mode, owner and times by path, none of which Landlock controls.

    Through an open file they can still be changed: only the sandbox's own files can be opened.
    """
    for call in METADATA:
        yield Rule(call=call)
    # A null path means an open file; both halves of the 64-bit pointer are tested.
    for is_upper in (False, True):
        named = Condition(argument=1, values=(0,), is_among=False, is_upper=is_upper)
        yield Rule(call="utimensat", conditions=(named,))


def _another(argument: int) -> Condition:
    """Any process but the caller itself, which is 0."""
    return Condition(argument=argument, values=(0,), is_among=False)


def filter_program(
    profile: SandboxProfile,
    *,
    shares: Sharing = "nothing",
    architecture: Architecture | None = None,
) -> bytes:
    """The filter as an array of `struct sock_filter`; see `rules_of`."""
    architecture = architecture or native_architecture()
    blocks: dict[int, list[Rule]] = {}
    for rule in rules_of(profile, shares=shares):
        number = number_of(rule.call, architecture)
        if number is not None:
            blocks.setdefault(number, []).append(rule)
    return b"".join(
        [
            _instruction(LOAD, ARCHITECTURE_AT),
            _instruction(EQUALS, AUDIT[architecture], if_true=1),
            _instruction(RETURN, KILL_PROCESS),
            _instruction(LOAD, NUMBER_AT),
            *_only_x86(architecture),
            *(part for number, rules in blocks.items() for part in _block(number, rules)),
            _instruction(RETURN, ALLOW),
        ]
    )


def _only_x86(architecture: Architecture) -> list[bytes]:
    if architecture != "x86_64":
        return []
    return [_instruction(AT_LEAST, X32, if_false=1), _instruction(RETURN, FAIL | errno.ENOSYS)]


def _block(number: int, rules: list[Rule]) -> list[bytes]:
    """The block of one call; every path through it ends in a return."""
    body = [part for rule in rules for part in _verdict(rule)]
    if all(rule.conditions for rule in rules):  # else the block always returns before its end
        body.append(_instruction(RETURN, ALLOW))
    return [_instruction(EQUALS, number, if_false=len(body)), *body]


def _verdict(rule: Rule) -> list[bytes]:
    """Fail the call when all conditions hold, else jump behind the last instruction."""
    parts = [_instruction(RETURN, FAIL | rule.error)]
    for condition in reversed(rule.conditions):
        parts = [*_test(condition, len(parts)), *parts]
    return parts


def _test(condition: Condition, rest: int) -> list[bytes]:
    """Continue when the condition holds, else jump over the `rest` instructions after the test."""
    at = ARGUMENTS_AT + 8 * condition.argument + (4 if condition.is_upper else 0)
    parts = [_instruction(LOAD, at)]
    if condition.mask != LOW_WORD:
        parts.append(_instruction(MASK, condition.mask))
    for left, value in zip(reversed(range(len(condition.values))), condition.values, strict=True):
        if condition.is_among:
            over = rest if left == 0 else 0
            parts.append(_instruction(EQUALS, value, if_true=left, if_false=over))
        else:
            parts.append(_instruction(EQUALS, value, if_true=left + rest))
    return parts


def _instruction(code: int, operand: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    """One `struct sock_filter`; `struct.pack` raises for a jump over 255."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
