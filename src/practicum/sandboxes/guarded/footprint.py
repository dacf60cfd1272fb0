"""What a sandbox without namespaces uses, looked at again and again since nothing limits it."""

import os

from practicum.core.command import SandboxSpec
from practicum.sandboxes.inside.processes import PAGE, family_of, living

__all__ = ["MOST_FILES", "Footprint", "children_of_this_process", "size_of_folder", "tasks_of_user"]

MOST_FILES = 20_000
BLOCK = 512
MEBIBYTE = 1 << 20


class Footprint:
    """Counts files always; memory and processes where no cgroup does.

    A command that finds the disk full already may go on, to remove files, as long as it adds none.
    """

    def __init__(self, spec: SandboxSpec, folder: str, *, counts_processes: bool) -> None:
        self._spec = spec
        self._folder = folder
        self._counts_processes = counts_processes
        self._bytes_before, self._files_before = size_of_folder(folder)

    @property
    def file_limit(self) -> int:
        """How long a file may become: no file may grow when the disk is full."""
        disk = self._spec.disk_mb * MEBIBYTE
        return disk if self._bytes_before < disk else 0

    def excess(self) -> str | None:
        """The status of a command that must be ended for what it uses, or None."""
        if self._counts_processes:
            family = children_of_this_process()
            if resident_bytes_of(family) > self._spec.memory_mb * MEBIBYTE:
                return "oom"
            if len(family) > self._spec.processes:
                return "killed"
        used, files = size_of_folder(self._folder)
        is_full = used > max(self._spec.disk_mb * MEBIBYTE, self._bytes_before)
        return "killed" if is_full or files > max(MOST_FILES, self._files_before) else None


def children_of_this_process() -> set[int]:
    """All that descends from it and lives."""
    me = os.getpid()
    return family_of({me}, living()) - {me}


def resident_bytes_of(pids: set[int]) -> int:
    """Memory they hold; what several share is counted for each."""
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                pages += int(file.read().split()[1])
        except (OSError, IndexError):
            continue  # it ended meanwhile
    return pages * PAGE


def size_of_folder(folder: str, most_files: int = MOST_FILES) -> tuple[int, int]:
    """Bytes on disk and number of entries, counted to just beyond the limit; opens no file."""
    used = files = 0
    waiting = [folder]
    while waiting and files <= most_files:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    used += entry.stat(follow_symlinks=False).st_blocks * BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except FileNotFoundError:
            continue  # it is gone already
        except OSError:
            return used, most_files + 1  # hidden, or deeper than a name can reach
    return used, files


def tasks_of_user(uid: int) -> int:
    """Threads that a user has running, as the kernel counts them against a limit."""
    tasks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:
                tasks += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # it ended meanwhile
    return tasks
