"""The process that looks after one sandbox without namespaces: small, single-threaded, its own.

It makes the sandbox's folder and cgroup, starts its commands, and takes in what they leave behind:
orphans become its children. When the host's end of the connection closes, for whatever reason, it
ends everything and removes the folder and the cgroup. It is not confined itself; each command
confines itself before it becomes what was asked for.
"""

import errno
import json
import os
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

from practicum.core.command import SandboxSpec
from practicum.sandboxes.cgroups.files import put
from practicum.sandboxes.cgroups.finding import Cgroup, find_cgroups
from practicum.sandboxes.guarded.confinement import Confinement, become_subreaper, die_with_parent
from practicum.sandboxes.guarded.footprint import Footprint, children_of_this_process, tasks_of_user
from practicum.sandboxes.inside.frames import FRAME_LIMIT, LENGTH, pack, unpack
from practicum.sandboxes.inside.running import NOT_STARTED, Request, Running

__all__ = ["FOLDER_PREFIX", "MESSAGE_LIMIT", "Guardian", "guard", "main"]

FOLDER_PREFIX = "practicum-"
MESSAGE_LIMIT = 65_536
WATCH_S = 0.1
KILL_S = 5.0
OPEN_FILES = 1024
MEBIBYTE = 1 << 20


class Guardian:
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

    def serve(self) -> None:
        """Answer requests until the host goes away."""
        self._send([b"ready"])
        answers: dict[bytes, Callable[[list[bytes]], list[bytes]]] = {
            b"run": self._run,
            b"judge": self._run,
            b"read": self._read,
            b"write": self._write,
        }
        while (parts := self._receive()) is not None:
            self._send(answers[parts[0]](parts))

    def end(self) -> None:
        """Leave nothing: no process, no file, no cgroup."""
        self._end_processes()
        bury()
        os.chdir("/")
        # A tree may be deeper than Python can follow.
        subprocess.run(["rm", "-rf", "--", self._top], check=False, stderr=subprocess.DEVNULL)
        if self.cgroup is not None:
            until = time.monotonic() + KILL_S
            while not self.cgroup.remove() and time.monotonic() < until:
                time.sleep(0.002)

    def _send(self, parts: list[bytes]) -> None:
        self._connection.sendall(pack(parts))

    def _receive(self) -> list[bytes] | None:
        head = self._exactly(4)
        if head is None:
            return None
        (size,) = LENGTH.unpack(head)
        body = self._exactly(size) if size <= FRAME_LIMIT else None
        return None if body is None else unpack(body)

    def _exactly(self, size: int) -> bytes | None:
        taken = bytearray()
        while len(taken) < size:
            piece = self._connection.recv(size - len(taken))
            if not piece:
                return None
            taken += piece
        return bytes(taken)

    def _run(self, parts: list[bytes]) -> list[bytes]:
        """Nothing outlives its command, so a checker, too, finds nobody running."""
        request = Request(parts)
        request.environment.setdefault(b"TMPDIR", os.fsencode(self.folder))
        footprint = self._footprint()
        began = time.monotonic()
        running = Running(request)
        pid = os.fork()
        if pid == 0:
            self._become(request, running, footprint.file_limit)
        running.keep_own_ends()
        status = self._follow(pid, running, footprint, began + request.timeout_s)
        if status == "ok" and running.trouble():
            status = "denied"
        if not self._end_processes():
            raise SystemExit("processes that cannot be ended")
        running.finish(False)
        bury()
        return running.report(status, time.monotonic() - began)

    def _footprint(self) -> Footprint:
        return Footprint(self._spec, self.folder, counts_processes=self.cgroup is None)

    def _follow(self, pid: int, running: Running, footprint: Footprint, deadline: float) -> str:
        """Take output until the command ends or must be ended."""
        next_look = time.monotonic() + WATCH_S
        while True:
            now = time.monotonic()
            if now >= deadline:
                return "timeout"
            if now >= next_look:
                excess = footprint.excess()
                if excess is not None:
                    return excess
                # A folder with many files takes its time; most of it belongs to the command.
                next_look = time.monotonic() + WATCH_S + 10 * (time.monotonic() - now)
            watched = [*running.outputs, self._wake, self._connection.fileno()]
            wait_s = max(0.0, min(deadline, next_look) - time.monotonic())
            ready = select.select(watched, [], [], wait_s)[0]
            running.take_output(ready)
            if self._connection.fileno() in ready:
                raise SystemExit(0)  # the host is gone; it asks nothing while it waits
            if self._wake in ready:
                os.read(self._wake, 4096)
                code = bury(pid)
                if code is not None:
                    return running.ended(code)

    def _become(self, request: Request, running: Running, file_limit: int) -> NoReturn:
        """In the forked process: turn into the command."""
        try:
            self._enter(file_limit)
            os.chdir(request.cwd)
            running.take_places()
            os.execvpe(request.command[0], request.command, request.environment)
        except OSError as error:
            running.say(f"{error.strerror or error}")
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing may run on from here
            running.say(f"{type(error).__name__}: {error}")
        finally:
            os._exit(NOT_STARTED)

    def _enter(self, file_limit: int) -> None:
        """In a forked process: take on every limit."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        for path in () if self.cgroup is None else self.cgroup.procs_files:
            put(path, str(os.getpid()))
        with suppress(OSError):
            put_first_to_die()
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
            # The kernel counts by user, and this one has no processes but these.
            yield resource.RLIMIT_NPROC, self._spec.processes
        elif self.cgroup is None:
            yield resource.RLIMIT_NPROC, tasks_of_user(os.getuid()) + self._spec.processes

    def _end_processes(self) -> bool:
        """End everything that was started here; whether nothing is left."""
        if self.cgroup is not None:
            return self.cgroup.kill(KILL_S)
        until = time.monotonic() + KILL_S
        while doomed := children_of_this_process():
            # Stopped first, so that none of them can start another meanwhile.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in doomed:
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)
            bury()
            if time.monotonic() > until:
                return False
        return True

    def _read(self, parts: list[bytes]) -> list[bytes]:
        path, limit = parts[1], int(parts[2])

        def work(out: int) -> None:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not an ordinary file")
            left = limit + 1
            while left > 0 and (piece := os.read(fd, min(left, 65536))):
                os.write(out, piece)
                left -= len(piece)

        return self._apart(work, limit)

    def _write(self, parts: list[bytes]) -> list[bytes]:
        path, content = parts[1], parts[2]

        def work(out: int) -> None:
            folder = os.path.dirname(path)
            if folder:
                os.makedirs(folder, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(path, flags, 0o644), "wb") as file:
                file.write(content)

        return self._apart(work, 0)

    def _apart(self, work: Callable[[int], None], limit: int) -> list[bytes]:
        """Do something with files as a command would: in a process that has no more rights."""
        outlet, inlet = os.pipe2(os.O_CLOEXEC)
        troubles, trouble = os.pipe2(os.O_CLOEXEC)
        file_limit = self._footprint().file_limit
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self._enter(file_limit)
                work(inlet)
                code = 0
            except OSError as error:
                os.write(trouble, f"{error.errno or 0} {error.strerror}".encode())
            finally:
                os._exit(code)
        os.close(inlet)
        os.close(trouble)
        with open(outlet, "rb") as content_file, open(troubles, "rb") as trouble_file:
            content = content_file.read()
            said = trouble_file.read()
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) == 0 and len(content) <= limit:
            return [b"done", content]
        return [b"failed", said or b"%d longer than %d bytes" % (errno.EFBIG, limit)]


def put_first_to_die() -> None:
    """When memory is short, the kernel is to end this process before any other."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def bury(awaited: int = 0) -> int | None:
    """Collect everything that ended; the exit code of the awaited one, or minus its signal."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == awaited:
            found = os.waitstatus_to_exitcode(status)


def guard(connection: socket.socket, hello: int, asked: dict[str, Any]) -> None:
    """Be the guardian of one sandbox, from its beginning to its end.

    The host reads one line from `hello`, and its end as ours.
    """
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    os.umask(0o022)
    become_subreaper()
    try:
        guardian = Guardian(
            connection,
            SandboxSpec(**asked["spec"]),
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
    """The one line the host waits for; it may be gone already."""
    with suppress(BrokenPipeError):
        os.write(hello, json.dumps(told).encode() + b"\n")


def main() -> None:
    """Fork a guardian for each request; the argument is the socket on which they come.

    All that a guardian needs is imported here once. Guardians outlive this process: each has a
    connection of its own.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the host, which closes us
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that the kernel buries guardians
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
