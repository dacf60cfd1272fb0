"""Locks on open files: `flock`, or Windows' locks of a byte where there is no `flock`."""

import os
import sys

if sys.platform == "win32":
    import msvcrt

    FAR = 1 << 30
    """The byte that is locked: far behind what a lock file holds, so that it can still be read."""

    def lock_file(handle: int, *, waits: bool = False, shared: bool = False) -> bool:
        """Lock an open file until it is closed; False where somebody else has it."""
        os.lseek(handle, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if waits else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock_file(handle: int, *, waits: bool = False, shared: bool = False) -> bool:
        """Lock an open file until it is closed; False where somebody else has it."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(handle, kind if waits else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
