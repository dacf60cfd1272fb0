"""The system call filter of a sandbox: a list of rules, compiled to the kernel's classic BPF.

A filter is a denylist over what namespaces and capabilities already forbid: calls that reach far
into the kernel, that nothing in a sandbox needs, and that have been the way out before. Every rule
is one short block that ends in a verdict, so a jump never leaves its block and cannot outgrow the
eight bits it has, however many rules there are.
"""

import errno
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from practicum.core.command import SandboxProfile
from practicum.sandboxes.syscalls import AUDIT, Architecture, native_architecture, number_of

__all__ = ["Condition", "Rule", "Sharing", "filter_program", "rules_of"]

# struct seccomp_data { int nr; __u32 arch; __u64 instruction_pointer; __u64 args[6]; }
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
LOAD, MASK, EQUALS, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
KILL_PROCESS, ALLOW, FAIL = 0x80000000, 0x7FFF0000, 0x00050000
X32 = 0x40000000
"""Set in the number of a call of the x32 interface, which nobody uses and nobody looks at."""
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
    """About one argument: its lower 32 bits, more of which few of the calls named here read."""

    argument: int
    values: tuple[int, ...]
    mask: int = LOW_WORD
    is_upper: bool = False
    """Whether it is about the upper 32 bits instead."""
    is_among: bool = True
    """Whether the masked argument must be one of the values, or none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A call that fails when every condition holds."""

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
"""Said not to exist, so that programs use the older calls; `clone3` hides its flags in memory."""
SHARED_MEMORY = ("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl")
SHARED_QUEUES = ("msgget", "msgsnd", "msgrcv", "msgctl", "mq_open")


Sharing = Literal["nothing", "host", "user"]
"""What a sandbox has in common with its surroundings: nothing, where it has namespaces of its own;
the host's processes and files; or the user too, so that only the filter stands before them."""


def rules_of(profile: SandboxProfile, *, shares: Sharing = "nothing") -> tuple[Rule, ...]:
    """What is forbidden to a profile, and beyond that to a sandbox that shares something."""
    return (
        *(Rule(call=call) for call in FORBIDDEN),
        *(Rule(call=call, error=errno.ENOSYS) for call in UNKNOWN),
        *_everywhere(),
        *(_set_id_bits() if profile == "code" else ()),
        *(_socket_families() if shares == "nothing" else _reaching_the_host()),
        *(_changing_what_is_known_of_files() if shares == "user" else ()),
    )


def _everywhere() -> Iterable[Rule]:
    namespaces = Condition(argument=0, mask=NEW_NAMESPACE, values=(0,), is_among=False)
    yield Rule(call="clone", conditions=(namespaces,))
    query = Condition(argument=0, values=(QUERY_PERSONALITY,), is_among=False)
    yield Rule(call="personality", conditions=(query,))
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
    """A network namespace does not hold AF_VSOCK back, and hypervisors listen there."""
    known = Condition(argument=0, values=(UNIX, INET, INET6, NETLINK), is_among=False)
    yield Rule(call="socket", error=errno.EAFNOSUPPORT, conditions=(known,))


def _set_id_bits() -> Iterable[Rule]:
    """No file that would give its user to who runs it: an ordinary user has no need to make one."""
    for call, mode in (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2)):
        yield Rule(call=call, conditions=(_has_set_id(mode),))
    for call, mode in (("creat", 1), ("mknod", 1), ("mknodat", 2)):
        yield Rule(call=call, conditions=(_has_set_id(mode),))
    for call, flags, mode in (("open", 1, 2), ("openat", 2, 3)):
        makes = Condition(argument=flags, mask=CREATES_FILE, values=(0,), is_among=False)
        yield Rule(call=call, conditions=(makes, _has_set_id(mode)))
    # Its mode lies in memory, where a filter cannot look.
    yield Rule(call="openat2", error=errno.ENOSYS)


def _has_set_id(argument: int) -> Condition:
    return Condition(argument=argument, mask=SET_ID_BITS, values=(0,), is_among=False)


def _reaching_the_host() -> Iterable[Rule]:
    for call in ("socket", *SHARED_MEMORY, *SHARED_QUEUES, "inotify_add_watch", *ATTRIBUTES):
        yield Rule(call=call)
    # Landlock came to know of these only in its third version.
    yield Rule(call="truncate")
    for call, flags in (("open", 1), ("openat", 2)):
        reads = Condition(argument=flags, mask=os.O_ACCMODE, values=(os.O_RDONLY,))
        empties = Condition(argument=flags, mask=os.O_TRUNC, values=(os.O_TRUNC,))
        yield Rule(call=call, conditions=(reads, empties))
    for call in ("prlimit64", "sched_setaffinity", "sched_setattr"):
        yield Rule(call=call, conditions=(_another(0),))
    for call in ("sched_setparam", "sched_setscheduler"):
        yield Rule(call=call, conditions=(_another(0),))
    for call, of_user in (("setpriority", PRIORITY_OF_USER), ("ioprio_set", IO_PRIORITY_OF_USER)):
        yield Rule(call=call, conditions=(_another(1),))
        yield Rule(call=call, conditions=(Condition(argument=0, values=(of_user,)),))


def _changing_what_is_known_of_files() -> Iterable[Rule]:
    """Modes, owners and times by name: Landlock guards none of them.

    Those of an open file can be changed still: what can be opened is the sandbox's own.
    """
    for call in METADATA:
        yield Rule(call=call)
    # Without a name it is about an open file; a pointer has 64 bits.
    for is_upper in (False, True):
        named = Condition(argument=1, values=(0,), is_among=False, is_upper=is_upper)
        yield Rule(call="utimensat", conditions=(named,))


def _another(argument: int) -> Condition:
    """A process other than the one that asks, which is called 0."""
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
    """The verdict about one call; every path through it ends in one."""
    body = [part for rule in rules for part in _verdict(rule)]
    if all(rule.conditions for rule in rules):  # else the last word is spoken already
        body.append(_instruction(RETURN, ALLOW))
    return [_instruction(EQUALS, number, if_false=len(body)), *body]


def _verdict(rule: Rule) -> list[bytes]:
    """Fail the call when all conditions hold, else go on after the last instruction."""
    parts = [_instruction(RETURN, FAIL | rule.error)]
    for condition in reversed(rule.conditions):
        parts = [*_test(condition, len(parts)), *parts]
    return parts


def _test(condition: Condition, rest: int) -> list[bytes]:
    """Go on to the next instruction when the condition holds, else jump over the rest."""
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
    """One `struct sock_filter`; `struct` refuses a jump that eight bits do not hold."""
    return struct.pack("=HBBI", code, if_true, if_false, operand)
