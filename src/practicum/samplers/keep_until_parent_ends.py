"""Runs a command until it ends or standard input does, whose other end the parent holds.

A parent that is killed tells nobody, but its end of the pipe closes; then the command and all that
it has started are ended. Run as a program, by its path: it imports nothing of Practicum.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

GRACE_S = 10.0
"""Seconds that the command has to end in order."""


def _ends_group(group: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, number)


def main(command: list[str]) -> int:
    """Run it; its exit code."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)

    def end_with_parent() -> None:
        while os.read(0, 4096):
            pass
        _ends_group(child.pid, signal.SIGTERM)
        time.sleep(GRACE_S)
        _ends_group(child.pid, signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()
    code = child.wait()
    _ends_group(child.pid, signal.SIGKILL)  # what it has left behind
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
