"""An import that is killed wherever it commits, and gone on with; started by test_trace_import.

    python import_kills.py FILE FOLDER

For every commit of the import, a fork of this process is killed right before or right after it, in
a store of its own in `FOLDER`; another fork, which is not killed, then imports the same file again.
Prints how many kills there were.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from practicum.store import durable
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces import importing

BATCH = 60


class Silent:
    def file_started(self, file: Path, format: str, size: int) -> None:
        pass

    def read(self, offset: int, episodes: int) -> None:
        pass


def bring(file: Path, store: Path) -> None:
    importing.BATCH_PARTS = BATCH
    with SqliteTraceStore(store) as opened:
        importing.import_traces([file], opened, Silent())


def in_a_fork(work: Callable[[], None]) -> int:
    """Do the work in another process; gives the signal that ended it, 0 if it ended by itself."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.WEXITSTATUS(status) == 0, "the work failed"
    return 0


def main(file: Path, folder: Path) -> int:
    kills = 0
    for side in ("before", "after"):
        nth = 0
        while True:
            nth += 1
            store = folder / f"{side}-{nth}.sqlite"

            def killed(setting: str = f"traces.commit.{side}:{nth}", store: Path = store) -> None:
                durable.arm(setting)
                bring(file, store)

            if in_a_fork(killed) != signal.SIGKILL:
                break
            kills += 1
            assert in_a_fork(lambda store=store: bring(file, store)) == 0
    return kills


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), Path(sys.argv[2])))
