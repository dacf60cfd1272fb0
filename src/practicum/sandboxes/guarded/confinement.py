"""How a command confines itself before its exec: user id, Landlock, seccomp filter.

Landlock restricts the access to files and folders; each version (ABI) of it restricts more. It does
not hide metadata: that a file exists, and its size, can still be seen.
"""

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from practicum.sandboxes.inside.kernel import forbid_new_privileges, install_filter
from practicum.sandboxes.seccomp import filter_program

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""The same numbers on every architecture."""
ASKS_VERSION = 1
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_DEVICES = 1 << 6 | 1 << 11
FIRST_VERSION = (1 << 13) - 1
REFER, TRUNCATE, DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
"""Link or rename across folders, truncate, ioctl on devices: from versions 2, 3 and 5 on."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL
"""Rights that apply to a file; the others apply to folders only."""
TCP = 3
"""TCP bind and connect: from version 4 on."""
SCOPES = 3
"""No abstract UNIX sockets of, and no signals to, processes outside: from version 6 on."""

PROGRAMS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
)
"""What may be read and executed, where it exists."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 if it has none or it is disabled."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASKS_VERSION)))


def restrict_files(version: int, *, own: Iterable[str], programs: Iterable[str] = PROGRAMS) -> None:
    """Restrict this process to `own` (writable), `programs` (readable) and a few devices.

    Call `forbid_new_privileges` before: the kernel demands it.
    """
    handled = _rights(version)
    wanted = _Ruleset(handled, TCP if version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _must(
        libc.syscall(CREATE_RULESET, ctypes.byref(wanted), ctypes.c_size_t(size), 0), "ruleset"
    )
    try:
        for path in own:
            _allow(ruleset, path, handled & ~MAKE_DEVICES & ~DEVICE_CONTROL)
        for path in programs:
            with suppress(FileNotFoundError):
                _allow(ruleset, path, EXECUTE | READ_FILE | READ_FOLDER)
        for path in DEVICES:
            with suppress(FileNotFoundError):
                _allow(ruleset, path, (READ_FILE | WRITE_FILE | TRUNCATE) & handled)
        _must(libc.syscall(RESTRICT_SELF, ruleset, 0), "restrict")
    finally:
        os.close(ruleset)


def _rights(version: int) -> int:
    """All rights of a version; the kernel refuses those of later ones."""
    rights = FIRST_VERSION
    for since, right in ((2, REFER), (3, TRUNCATE), (5, DEVICE_CONTROL)):
        if version >= since:
            rights |= right
    return rights


def _allow(ruleset: int, path: str, rights: int) -> None:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= OF_FILES
        rule = _PathBeneath(rights, fd)
        _must(
            libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0),
            f"rule for {path}",
        )
    finally:
        os.close(fd)


def _must(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock {what}: {os.strerror(number)}")
    return result


FIRST_UID = 0x60000000
"""Above all users that distributions create; the guardian's pid is added."""
SCOPES_SIGNALS = 6
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGKILL = 9
LAST_VERSION = 6
"""Later versions add nothing that concerns these sandboxes."""


def why_no_landlock(version: int | None = None, *, is_root: bool | None = None) -> str | None:
    """Why Landlock is not enough for a sandbox here, as a sentence; None if it is.

    As root, each sandbox has its own user, which owns no files and can signal no other process.
    Otherwise it has our user id, and only Landlock 6 stops signals to the user's processes.
    """
    if sys.platform != "linux":
        return f"it is a part of Linux, and this is {sys.platform}"
    version = landlock_version() if version is None else version
    is_root = os.geteuid() == 0 if is_root is None else is_root
    if version < 1:
        return "this kernel has no Landlock, or it is switched off"
    if not is_root and version < SCOPES_SIGNALS:
        return (
            f"this kernel's Landlock is version {version}, which does not guard processes; "
            f"without root it takes version {SCOPES_SIGNALS} (Linux 6.12)"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """Landlock for files, a seccomp filter for system calls, and as root a user of its own."""

    folder: str
    """The only folder with write access."""
    version: int
    filter: bytes
    uid: int | None
    """None where the sandbox has our own user id."""

    @classmethod
    def of_this_machine(cls, folder: str) -> "Confinement":
        """The strongest confinement available; `OSError` where that is not enough."""
        reason = why_no_landlock()
        if reason is not None:
            raise OSError(reason)
        is_root = os.geteuid() == 0
        return cls(
            folder=folder,
            version=min(landlock_version(), LAST_VERSION),
            filter=filter_program("code", shares="host" if is_root else "user"),
            uid=FIRST_UID + os.getpid() if is_root else None,
        )

    def give_folder(self) -> None:
        """Make the sandbox's user the owner of the folder."""
        if self.uid is not None:
            os.chown(self.folder, self.uid, self.uid)

    def apply(self) -> None:
        """Confine this process irrevocably; called in the child, before the exec."""
        if self.uid is not None:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)
        forbid_new_privileges()
        restrict_files(self.version, own=[self.folder])
        install_filter(self.filter)


def become_subreaper() -> None:
    """Become the parent of all orphaned descendants."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl subreaper")


def die_with_parent() -> None:
    """Get SIGKILL when the parent's thread ends; only right for a single-threaded parent."""
    parent = os.getppid()
    if libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl pdeathsig")
    if os.getppid() != parent:  # it died before the prctl
        os._exit(1)
