"""What a command gives up before it starts, where it must confine itself."""

import ctypes
import os
import sys
from dataclasses import dataclass

from practicum.sandboxes.guarded.landlock_rules import landlock_version, restrict_files
from practicum.sandboxes.inside.kernel import forbid_new_privileges, install_filter
from practicum.sandboxes.seccomp import filter_program

__all__ = ["FIRST_UID", "Confinement", "become_subreaper", "die_with_parent", "why_no_landlock"]

FIRST_UID = 0x60000000
"""Above every user that distributions make; the pid of whoever looks after a sandbox is added."""
SCOPES_SIGNALS = 6
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGKILL = 9
LAST_VERSION = 6
"""Later versions guard nothing more that a sandbox of ours could reach."""

libc = ctypes.CDLL(None, use_errno=True)


def why_no_landlock(version: int | None = None, *, is_root: bool | None = None) -> str | None:
    """Why Landlock cannot hold a sandbox here, as a sentence, or None where it can.

    Root gives each sandbox a user of its own, which owns nothing and may signal nobody. Anyone
    else shares the user with it, and only from version 6 on does Landlock guard their processes.
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
    """Files by Landlock, system calls by a filter, and a user of its own where we may choose."""

    folder: str
    """The one place whose files can be changed."""
    version: int
    filter: bytes
    uid: int | None
    """None where the sandbox has the host's user."""

    @classmethod
    def of_this_machine(cls, folder: str) -> "Confinement":
        """The strongest that there is; `OSError` where that is not enough."""
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
        """Make it the sandbox's own."""
        if self.uid is not None:
            os.chown(self.folder, self.uid, self.uid)

    def apply(self) -> None:
        """Give up everything else, for ever; in the process that is about to become a command."""
        if self.uid is not None:
            os.setgroups([])
            os.setresgid(self.uid, self.uid, self.uid)
            os.setresuid(self.uid, self.uid, self.uid)
        forbid_new_privileges()
        restrict_files(self.version, own=[self.folder])
        install_filter(self.filter)


def become_subreaper() -> None:
    """Take in every descendant whose parent ends."""
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl subreaper")


def die_with_parent() -> None:
    """End when the parent does. Its thread is what counts: for a parent with a single one."""
    parent = os.getppid()
    if libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "prctl pdeathsig")
    if os.getppid() != parent:
        os._exit(1)
