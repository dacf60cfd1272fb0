"""System calls that Python 3.11 has no function for."""

import ctypes
import os

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 4096
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
SECCOMP_MODE_FILTER = 2
CAPABILITIES_V3 = 0x20080522
LAST_CAPABILITY = 63
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

libc = ctypes.CDLL(None, use_errno=True)


def _must(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system; the flags are the `MS_` constants."""
    words = [text.encode() or None for text in (source, target, kind)]
    options = data.encode() or None
    _must(libc.mount(*words, ctypes.c_ulong(flags), options), f"mount {target}")


def unmount(target: str) -> None:
    """Lazy unmount: gone at once for new users, and for those inside when they leave."""
    _must(libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root and move the old root to `old`."""
    number = PIVOT_ROOT[os.uname().machine]
    _must(libc.syscall(ctypes.c_long(number), new.encode(), old.encode()), "pivot_root")


def trace(request: int, thread: int) -> bool:
    """A ptrace request; False when the thread is gone or cannot be traced."""
    nothing = ctypes.c_void_p(None)
    return bool(libc.ptrace(ctypes.c_long(request), ctypes.c_long(thread), nothing, nothing) == 0)


def setns(fd: int, kind: int) -> None:
    """Enter a namespace."""
    _must(libc.setns(fd, kind), "setns")


def unshare(kind: int) -> None:
    """Move this process into a new namespace."""
    _must(libc.unshare(kind), "unshare")


def hide_from_tracers() -> None:
    """Stop processes of the same user from reading or writing this one's memory (ptrace, /proc)."""
    _must(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl dumpable")


def forbid_new_privileges() -> None:
    """Set no_new_privs: from now on execve ignores set-user-ID bits and file capabilities."""
    _must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl no_new_privs")


def drop_capabilities(kept: int) -> None:
    """Irrevocably drop all capabilities but those whose bits are in `kept`."""
    for number in range(LAST_CAPABILITY + 1):
        if not kept >> number & 1 and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            break  # no such capability in this kernel, nor any after it
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_V3, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    data = (ctypes.c_uint32 * 6)(low, low, low, high, high, high)
    _must(libc.capset(header, data), "capset")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Install a seccomp filter for this process and its future children."""
    held = _Program(len(program) // 8, program)
    _must(
        libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(held), 0, 0), "prctl seccomp"
    )
