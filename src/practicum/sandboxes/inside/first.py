"""The first process of a sandbox: carries out what the host asks, one request at a time.

It is pid 1 of its process namespace, so the kernel lets no one inside end it, and everything ends
with it. The host trusts nothing it says beyond the form of the messages.
"""

import _signal as signal  # type: ignore[import-not-found]  # without its enums: 6 ms a start
import errno
import os
import resource
import select
import stat
import sys
import time

from practicum.sandboxes.inside.frames import FRAME_LIMIT, LENGTH, pack, unpack
from practicum.sandboxes.inside.kernel import (
    drop_capabilities,
    forbid_new_privileges,
    hide_from_tracers,
    install_filter,
)
from practicum.sandboxes.inside.processes import (
    Held,
    kill_all,
    kill_all_but,
    let_settle,
    living,
    resident_bytes,
)
from practicum.sandboxes.inside.running import (
    NOT_STARTED,
    Request,
    Running,
    become_program,
    take,
)
from practicum.sandboxes.inside.system import System

# Not from typing: every import is paid for at each start of a sandbox.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FirstProcess", "main"]

WATCH_S = 0.1
"""How often memory and processes are counted where no cgroup limits them."""
KEPT_CAPABILITIES = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 10, 29, 31))
"""chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, audit_write and
setfcap: what root needs for files, users and groups, inside its own namespace."""
OPEN_FILES = 1024
BURIAL_S = 3.0


class FirstProcess:
    """Serves one connection until it ends."""

    def __init__(
        self,
        connection: int,
        lifeline: int,
        *,
        system: "System | None",
        filter_program: bytes,
        processes: int,
        watched_bytes: int,
    ) -> None:
        self._connection = connection
        self._lifeline = lifeline
        self._system = system
        self._filter = filter_program
        self._processes = processes
        self._watched_bytes = watched_bytes
        self._lingering: set[int] = set()
        self._wake, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python's own handler would let it end us
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Answer requests until the host goes away."""
        answers: dict[bytes, Callable[[list[bytes]], list[bytes]]] = {
            b"run": self._run,
            b"judge": self._run,
            b"read": self._read,
            b"write": self._write,
        }
        self._send([b"ready"])
        while True:
            parts = self._receive()
            if parts is None:
                return
            self._send(answers[parts[0]](parts))

    def _send(self, parts: "list[bytes]") -> None:
        message = memoryview(pack(parts))
        while message:
            message = message[os.write(self._connection, message) :]

    def _receive(self) -> "list[bytes] | None":
        """The next request; output of what runs in the background is thrown away meanwhile."""
        head = self._exactly(4)
        if head is None:
            return None
        (size,) = LENGTH.unpack(head)
        body = self._exactly(size) if size <= FRAME_LIMIT else None
        return None if body is None else unpack(body)

    def _exactly(self, size: int) -> "bytes | None":
        taken = bytearray()
        while len(taken) < size:
            self._wait_for_host()
            piece = os.read(self._connection, size - len(taken))
            if not piece:
                return None
            taken += piece
        return bytes(taken)

    def _wait_for_host(self) -> None:
        while True:
            watched = [self._connection, self._lifeline, self._wake, *self._lingering]
            ready = select.select(watched, [], [])[0]
            if self._lifeline in ready:
                os._exit(0)  # the launcher is gone
            self._look_after(ready)
            if self._connection in ready:
                return

    def _look_after(self, ready: "list[int]") -> None:
        """Bury what ended and empty the pipes of what goes on."""
        if self._wake in ready:
            os.read(self._wake, 4096)
            bury()
        for fd in self._lingering.intersection(ready):
            if not take(fd):
                self._lingering.discard(fd)
                os.close(fd)

    def _run(self, parts: "list[bytes]") -> "list[bytes]":
        request = Request(parts)
        if request.is_judge and self._system is None:
            kill_all()
        held = self._hold() if request.is_judge else None
        spared = set() if self._system is None else set(living())
        began = time.monotonic()
        running = Running(request)
        pid = fork_for_certain()
        if pid == 0:
            self._become(request, running)
        running.keep_own_ends()
        status = self._follow(pid, request, running, began)
        if status == "ok" and running.trouble():
            status = "denied"
        if self._system is None:
            kill_all()
        elif status in ("timeout", "oom") and not kill_all_but(spared):
            os._exit(1)
        self._lingering |= running.finish(self._system is not None)
        bury()
        if held is not None:
            held.let_go()
        return running.report(status, time.monotonic() - began)

    def _hold(self) -> "Held | None":
        """Hold still what runs in the background; who leaves others no room is ended instead."""
        if self._system is None:
            return None
        let_settle()
        held = Held()
        if len(living()) > self._processes // 2:
            kill_all()
            bury_all()
        return held

    def _follow(self, pid: int, request: Request, running: "Running", began: float) -> str:
        """Take output until the command ends or must be ended."""
        deadline = began + request.timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            if self._watched_bytes and self._is_over_limits():
                return "oom"
            hosts = [self._connection, self._lifeline]
            watched = [*running.outputs, *self._lingering, self._wake, *hosts]
            ready = select.select(
                watched, [], [], min(left, WATCH_S if self._watched_bytes else 60)
            )[0]
            running.take_output(ready)
            if self._connection in ready or self._lifeline in ready:
                os._exit(0)  # the host is gone; it asks nothing while it waits for an answer
            self._look_after([fd for fd in ready if fd != self._wake])
            if self._wake in ready:
                os.read(self._wake, 4096)
                code = bury(pid)
                if code is not None:
                    return running.ended(code)

    def _is_over_limits(self) -> bool:
        return resident_bytes() > self._watched_bytes or len(living()) > 2 * self._processes

    def _become(self, request: Request, running: "Running") -> None:
        """In the forked process: turn into the command."""
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            self._confine(request.is_judge)
            os.chdir(request.cwd)
            running.take_places()
            become_program(request.command, request.environment)
        except OSError as error:
            running.say(f"{error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - whatever it was, the host is told
            running.say(f"{type(error).__name__}: {error}")
        finally:
            os._exit(NOT_STARTED)

    def _confine(self, is_judge: bool) -> None:
        """Give up everything a command must not have."""
        if self._system is not None:
            if is_judge:
                self._system.enter_as_judge()
            else:
                self._system.enter()
            drop_capabilities(KEPT_CAPABILITIES)
        for kind, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, OPEN_FILES),
            (resource.RLIMIT_NPROC, 2 * self._processes),
        ):
            resource.setrlimit(kind, (most, most))
        forbid_new_privileges()
        if self._filter:
            install_filter(self._filter)

    def _read(self, parts: "list[bytes]") -> "list[bytes]":
        path, limit = parts[1], int(parts[2])

        def work(out: int) -> None:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, "not an ordinary file")
            left = limit + 1
            while left > 0:
                piece = os.read(fd, min(left, 65536))
                if not piece:
                    break
                os.write(out, piece)
                left -= len(piece)

        return self._apart(work, limit)

    def _write(self, parts: "list[bytes]") -> "list[bytes]":
        path, content = parts[1], parts[2]

        def work(out: int) -> None:
            folder = os.path.dirname(path)
            if folder:
                os.makedirs(folder, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(path, flags, 0o644), "wb") as file:
                file.write(content)

        return self._apart(work, 0)

    def _apart(self, work: "Callable[[int], None]", limit: int) -> "list[bytes]":
        """Do something with files as a command would: in a process that has no more rights.

        What runs in the background is held still, or it could keep that process from its end.
        """
        held = self._hold()
        outlet, inlet = os.pipe2(os.O_CLOEXEC)
        troubles, trouble = os.pipe2(os.O_CLOEXEC)
        pid = fork_for_certain()
        if pid == 0:
            code = 1
            try:
                self._confine(False)
                work(inlet)
                code = 0
            except OSError as error:
                os.write(trouble, b"%d %s" % (error.errno or 0, str(error.strerror).encode()))
            finally:
                os._exit(code)
        os.close(inlet)
        os.close(trouble)
        content = b"".join(iter(lambda: os.read(outlet, 65536), b""))
        said = os.read(troubles, 4096)
        os.close(outlet)
        os.close(troubles)
        _, status = os.waitpid(pid, 0)
        if held is not None:
            held.let_go()
        if os.waitstatus_to_exitcode(status) == 0 and len(content) <= limit:
            return [b"done", content]
        return [b"failed", said or b"%d longer than %d bytes" % (errno.EFBIG, limit)]


def bury(awaited: int = 0) -> "int | None":
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


def bury_all() -> None:
    """After everything was killed: until it is gone, which takes a moment."""
    until = time.monotonic() + BURIAL_S
    while living() and time.monotonic() < until:
        bury()
        time.sleep(0.001)
    bury()


def fork_for_certain() -> int:
    """Fork, whoever has used up all processes: they go first."""
    try:
        return os.fork()
    except OSError:
        kill_all()
        bury_all()
        return os.fork()


def close_if_open(fd: int) -> None:
    """Close a file; a list of open files names the one by which it was read."""
    try:
        os.close(fd)
    except OSError:
        pass


def main() -> None:
    """Arguments: profile, socket, lifeline, filter, processes, memory to watch (0: none)."""
    profile, fd, lifeline, filter_path, processes, watched = sys.argv[1:7]
    hide_from_tracers()
    os.umask(0o022)
    with open(filter_path, "rb") as file:
        program = file.read()
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, int(fd), int(lifeline)):
            close_if_open(int(name))  # what bwrap needed and left open must not reach a command
    for kept in (int(fd), int(lifeline)):
        os.set_inheritable(kept, False)
    if profile == "code":
        # Once for all commands: it costs as much as a third of one.
        forbid_new_privileges()
        install_filter(program)
        program = b""
    FirstProcess(
        int(fd),
        int(lifeline),
        system=System() if profile == "machine" else None,
        filter_program=program,
        processes=int(processes),
        watched_bytes=int(watched),
    ).serve()


if __name__ == "__main__":
    main()
