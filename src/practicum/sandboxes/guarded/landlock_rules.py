"""Landlock: a process gives up files for itself and all it starts, without any rights or tools.

What it can guard grew with the kernel; the version says how far. It guards the content of files
and folders, not what is known of them: that a file exists, and its size, can still be seen.
"""

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import suppress

__all__ = ["PROGRAMS", "landlock_version", "restrict_files"]

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""The same numbers on every architecture."""
ASKS_VERSION = 1
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
MAKE_DEVICES = 1 << 6 | 1 << 11
FIRST_VERSION = (1 << 13) - 1
REFER, TRUNCATE, DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
"""To move between folders, to shorten, to control devices: versions 2, 3 and 5."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL
"""Rights that a single file can have; the others are those of folders."""
TCP = 3
"""To bind and to connect: version 4."""
SCOPES = 3
"""No abstract sockets and no signals to processes outside: version 6."""

PROGRAMS = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"),
)
"""What may be read and run, where it is there."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("tcp", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version() -> int:
    """The kernel's version of Landlock; 0 where it has none or it is switched off."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASKS_VERSION)))


def restrict_files(version: int, *, own: Iterable[str], programs: Iterable[str] = PROGRAMS) -> None:
    """Keep, from here on, only what is in `own`, the programs to run, and harmless devices.

    The process must have forbidden itself new privileges before.
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
    """All that this version can guard; a right it does not know would be refused."""
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
