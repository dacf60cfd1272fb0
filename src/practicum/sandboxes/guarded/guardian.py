"""The guardian: a small single-threaded process that serves one sandbox without namespaces.

It creates the sandbox's folder and cgroup, runs its commands, and is the subreaper: orphans become
its children, so it can kill them. When the host closes the connection, for whatever reason, it
kills everything and removes folder and cgroup. It is not confined itself; each command confines
itself before its exec.
"""

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from practicum.core.command import SandboxSpec
from practicum.sandboxes.cgroups import Cgroup, find_cgroups, put
from practicum.sandboxes.guarded.confinement import Confinement, become_subreaper, die_with_parent
from practicum.sandboxes.inside.frames import pack
from practicum.sandboxes.inside.processes import PAGE, living, with_descendants
from practicum.sandboxes.inside.running import NOT_STARTED, Request, Running
from practicum.sandboxes.inside.serving import Server, reap

MOST_FILES = 20_000
BLOCK = 512
MEBIBYTE = 1 << 20


class Footprint:
    """Polls the use of disk, and of memory and processes where there is no cgroup.

    Where the disk is full before a command, the command may run, to remove files, but add none.
    """

    def __init__(self, spec: SandboxSpec, folder: str, *, counts_processes: bool) -> None:
        self._spec = spec
        self._folder = folder
        self._counts_processes = counts_processes
        self._bytes_before, self._files_before = size_of_folder(folder)

    @property
    def file_limit(self) -> int:
        """RLIMIT_FSIZE in bytes; 0 when the disk is full already."""
        disk = self._spec.disk_mb * MEBIBYTE
        return disk if self._bytes_before < disk else 0

    def excess(self) -> str | None:
        """The status of a command that exceeds a limit, or None."""
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
    """Its live descendants."""
    me = os.getpid()
    return with_descendants({me}, living()) - {me}


def resident_bytes_of(pids: set[int]) -> int:
    """Their resident memory; shared pages count for each process."""
    pages = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                pages += int(file.read().split()[1])
        except (OSError, IndexError):
            continue  # it ended meanwhile
    return pages * PAGE


def size_of_folder(folder: str, most_files: int = MOST_FILES) -> tuple[int, int]:
    """Bytes on disk and number of entries; stops counting just beyond `most_files`."""
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
            continue  # it was removed meanwhile
        except OSError:
            return used, most_files + 1  # unreadable, or longer than PATH_MAX: over the limit
    return used, files


def tasks_of_user(uid: int) -> int:
    """A user's threads, as the kernel counts them against RLIMIT_NPROC."""
    tasks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}").st_uid == uid:
                tasks += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # it ended meanwhile
    return tasks


FOLDER_PREFIX = "practicum-"
MESSAGE_LIMIT = 65_536
WATCH_S = 0.1
KILL_S = 5.0
OPEN_FILES = 1024


class Guardian(Server):
    """Serves one connection until it ends."""

    def __init__(
        self, connection: socket.socket, spec: SandboxSpec, *, place: str, confines: bool
    ) -> None:
        self._connection = connection
        self._spec = spec
        self._top = tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-", dir=place)
        self.folder = os.path.join(self._top, "work")
        self.cgroup: Cgroup | None = None
        self._confinement: Confinement | None = None
        try:
            self._prepare(confines)
        except BaseException:
            self.end()
            raise
        self._wake, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def _prepare(self, confines: bool) -> None:
        os.mkdir(self.folder, 0o700)
        if confines:
            self._confinement = Confinement.of_this_machine(self.folder)
            self._confinement.give_folder()
        os.chmod(self._top, 0o711)
        os.chdir(self.folder)
        cgroups = find_cgroups()
        if cgroups is not None:
            self.cgroup = cgroups.create(f"practicum-{os.getpid()}-1", self._spec)

    def end(self) -> None:
        """Remove everything: processes, files, cgroup."""
        self._end_processes()
        reap()
        os.chdir("/")
        # Not shutil.rmtree: a command may make a tree deeper than the recursion limit.
        subprocess.run(["rm", "-rf", "--", self._top], check=False, stderr=subprocess.DEVNULL)
        if self.cgroup is not None:
            until = time.monotonic() + KILL_S
            while not self.cgroup.remove() and time.monotonic() < until:
                time.sleep(0.002)

    def _send(self, parts: list[bytes]) -> None:
        self._connection.sendall(pack(parts))

    def _exactly(self, size: int) -> bytes | None:
        taken = bytearray()
        while len(taken) < size:
            piece = self._connection.recv(size - len(taken))
            if not piece:
                return None
            taken += piece
        return bytes(taken)

    def _run(self, parts: list[bytes]) -> list[bytes]:
        """No process outlives its command, so a checker runs alone too."""
        request = Request(parts)
        request.environment.setdefault(b"TMPDIR", os.fsencode(self.folder))
        footprint = self._footprint()
        began = time.monotonic()
        running = Running(request)
        pid = os.fork()
        if pid == 0:
            self._become(request, running, footprint.file_limit)
        running.close_child_ends()
        status = self._follow(pid, running, footprint, began + request.timeout_s)
        if status == "ok" and running.trouble():
            status = "denied"
        if not self._end_processes():
            raise SystemExit("processes that cannot be ended")
        running.finish(False)
        reap()
        return running.report(status, time.monotonic() - began)

    def _footprint(self) -> Footprint:
        return Footprint(self._spec, self.folder, counts_processes=self.cgroup is None)

    def _follow(self, pid: int, running: Running, footprint: Footprint, deadline: float) -> str:
        """Read output until the command ends, times out or exceeds a limit; its status."""
        next_look = time.monotonic() + WATCH_S
        while True:
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if now >= next_look:
                excess = footprint.excess()
                if excess is not None:
                    return excess
                # Polling a large folder is slow; it may take a tenth of the time at most.
                next_look = time.monotonic() + WATCH_S + 10 * (time.monotonic() - now)
            watched = [*running.outputs, self._wake, self._connection.fileno()]
            wait_s = max(0.0, min(deadline, next_look) - time.monotonic())
            ready = select.select(watched, [], [], wait_s)[0]
            running.take_output(ready)
            if self._connection.fileno() in ready:
                raise SystemExit(0)  # the host is gone; it asks nothing while it waits
            if self._wake in ready:
                os.read(self._wake, 4096)
                code = reap(pid)
                if code is not None:
                    return running.ended(code)

    def _become(self, request: Request, running: Running, file_limit: int) -> NoReturn:
        """In the child: exec the command."""
        try:
            self._enter(file_limit)
            os.chdir(request.cwd)
            running.redirect_stdio()
            os.execvpe(request.command[0], request.command, request.environment)
        except OSError as error:
            running.say(f"{error.strerror or error}")
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing may run on from here
            running.say(f"{type(error).__name__}: {error}")
        finally:
            os._exit(NOT_STARTED)

    def _enter(self, file_limit: int) -> None:
        """In the child: enter the cgroup, set the limits, and confine the process."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        for path in () if self.cgroup is None else self.cgroup.procs_files:
            put(path, str(os.getpid()))
        with suppress(OSError):
            prefer_for_oom_kill()
        for kind, most in self._limits(file_limit):
            resource.setrlimit(kind, (most, most))
        if self._confinement is not None:
            self._confinement.apply()
        die_with_parent()

    def _limits(self, file_limit: int) -> Iterator[tuple[int, int]]:
        yield resource.RLIMIT_CORE, 0
        yield resource.RLIMIT_NOFILE, OPEN_FILES
        yield resource.RLIMIT_FSIZE, file_limit
        if self.cgroup is None:
            yield resource.RLIMIT_DATA, 2 * self._spec.memory_mb * MEBIBYTE
        if self._confinement is not None and self._confinement.uid is not None:
            # The kernel counts per user, and this user has no other processes.
            yield resource.RLIMIT_NPROC, self._spec.processes
        elif self.cgroup is None:
            yield resource.RLIMIT_NPROC, tasks_of_user(os.getuid()) + self._spec.processes

    def _end_processes(self) -> bool:
        """Kill all processes of the sandbox; returns whether none is left."""
        if self.cgroup is not None:
            return self.cgroup.kill(KILL_S)
        until = time.monotonic() + KILL_S
        while doomed := children_of_this_process():
            # SIGSTOP to all first, so that none of them can fork meanwhile.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in doomed:
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
            reap()
            if time.monotonic() > until:
                return False
        return True

    def _entering(self) -> Callable[[], None]:
        return partial(self._enter, self._footprint().file_limit)


def prefer_for_oom_kill() -> None:
    """Let the out-of-memory killer choose this process before any other."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def guard(connection: socket.socket, hello: int, asked: dict[str, Any]) -> None:
    """Run the guardian of one sandbox.

    The host reads one line from `hello`; its end of file means that the guardian has exited.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    os.umask(0o022)
    become_subreaper()
    try:
        guardian = Guardian(
            connection,
            SandboxSpec.from_json(asked["spec"]),
            place=asked["place"],
            confines=asked["confines"],
        )
    except OSError as error:
        say(hello, {"failed": str(error)})
        return
    try:
        oom_file = "" if guardian.cgroup is None else str(guardian.cgroup.oom_file)
        say(hello, {"folder": guardian.folder, "oom_file": oom_file, "pid": str(os.getpid())})
        guardian.serve()
    finally:
        guardian.end()


def say(hello: int, told: dict[str, str]) -> None:
    """Write the hello line, unless the host is gone."""
    with suppress(BrokenPipeError):
        os.write(hello, json.dumps(told).encode() + b"\n")


def main() -> None:
    """Fork a guardian for each request; the argument is the socket on which they come.

    All that a guardian needs is imported here once. Guardians outlive this process: each has a
    connection of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which closes the socket
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel then reaps guardians
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    while True:
        message, fds, _, _ = socket.recv_fds(line, MESSAGE_LIMIT, 2)
        if not message:
            return
        if os.fork() == 0:
            try:
                line.close()
                for fd in fds:
                    os.set_inheritable(fd, False)
                guard(socket.socket(fileno=fds[0]), fds[1], json.loads(message))
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)


if __name__ == "__main__":
    main()
