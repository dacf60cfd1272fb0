"""The first process of a sandbox: serves the host's requests, one at a time.

It is pid 1 of its pid namespace: no process inside can kill it, and when it ends the kernel kills
all others. The host does not trust what it sends.
"""

import _signal as signal  # type: ignore[import-not-found]  # without its enums: 6 ms a start
import os
import resource
import select
import sys
import time

from practicum.sandboxes.inside.frames import pack
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
    living,
    resident_bytes,
    wait_for_young,
)
from practicum.sandboxes.inside.running import NOT_STARTED, Request, Running, become_program, take
from practicum.sandboxes.inside.serving import Server, reap
from practicum.sandboxes.inside.system import System

# Not from typing: every import costs time at each start of a sandbox.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WATCH_S = 0.1
"""Seconds between polls of memory and processes where there is no cgroup."""
KEPT_CAPABILITIES = 0xA00004FB
"""Bits 0, 1, 3 to 7, 10, 29 and 31, what root needs to administer files, users and groups in its
own user namespace: chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service,
audit_write and setfcap."""
OPEN_FILES = 1024
CHECKER_BYTES = 256 << 20
"""Memory of a checker's own, beyond what the policy's processes and files may have used up."""
REAP_S = 3.0


class FirstProcess(Server):
    """Pid 1 of a sandbox; `system` is None in the profile `code`."""

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
        self._held: Held | None = None  # what is stopped for good
        self._lingering: set[int] = set()  # output pipes that background processes hold
        self._wake, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python's handler would end us
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

    def _send(self, parts: "list[bytes]") -> None:
        message = memoryview(pack(parts))
        while message:
            message = message[os.write(self._connection, message) :]

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
            self._reap_and_drain(ready)
            if self._connection in ready:
                return

    def _reap_and_drain(self, ready: "list[int]") -> None:
        """Reap ended children, and drain the pipes of background processes."""
        if self._wake in ready:
            os.read(self._wake, 4096)
            reap()
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
        pid = fork_or_make_room()
        if pid == 0:
            self._become(request, running)
        running.close_child_ends()
        status = self._follow(pid, request, running, began)
        if status == "ok" and running.trouble():
            status = "denied"
        if self._system is None:
            kill_all()
        elif status in ("timeout", "oom") and not kill_all_but(spared):
            self._send(running.report("broken", time.monotonic() - began))
            os._exit(1)
        self._lingering |= running.finish(self._system is not None)
        reap()
        if held is not None:
            held.release()
        return running.report(status, time.monotonic() - began)

    def _listen(self, parts: "list[bytes]") -> "list[bytes]":
        """See `Server`; the sockets belong to the network namespace of this process."""
        import _socket  # only here: most sandboxes do not listen

        made = []
        try:
            for port in parts[1:]:
                listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
                made.append(listener)
                listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
                listener.bind(("0.0.0.0", int(port)))
                listener.listen(128)
        except OSError as error:
            return [b"failed", b"%d %s" % (error.errno or 0, str(error.strerror).encode())]
        fds = b"".join(one.fileno().to_bytes(4, sys.byteorder) for one in made)
        host = _socket.socket(fileno=os.dup(self._connection))
        self._send([b"done", b""])  # the sockets follow with a byte of their own
        host.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fds)])
        for one in (host, *made):
            one.close()
        return [b"done", b""]

    def _hold(self) -> "Held | None":
        """Stop background processes while a checker runs; kill them if they use up the pids."""
        if self._system is None or self._held is not None:
            return None
        wait_for_young()
        held = Held()
        if len(living()) > self._processes // 2:
            kill_all()
            reap_all()
        return held

    def _hold_for_good(self, parts: "list[bytes]") -> "list[bytes]":
        """See `Server`."""
        self._held = self._held or self._hold()
        return [b"done", b""]

    def _follow(self, pid: int, request: Request, running: "Running", began: float) -> str:
        """Read output until the command ends, times out or exceeds a limit; its status."""
        deadline = began + request.timeout_s
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return "timeout"
            if self._watched_bytes and self._is_over_limits(request.is_judge):
                return "oom"
            hosts = [self._connection, self._lifeline]
            watched = [*running.outputs, *self._lingering, self._wake, *hosts]
            ready = select.select(
                watched, [], [], min(left, WATCH_S if self._watched_bytes else 60)
            )[0]
            running.take_output(ready)
            if self._connection in ready or self._lifeline in ready:
                os._exit(0)  # the host is gone; it asks nothing while it waits for an answer
            self._reap_and_drain([fd for fd in ready if fd != self._wake])
            if self._wake in ready:
                os.read(self._wake, 4096)
                code = reap(pid)
                if code is not None:
                    return running.ended(code)

    def _is_over_limits(self, is_judge: bool) -> bool:
        most = self._watched_bytes + (CHECKER_BYTES if is_judge else 0)
        return resident_bytes() > most or len(living()) > 2 * self._processes

    def _become(self, request: Request, running: "Running") -> None:
        """In the child: exec the command."""
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            if request.is_inspection and self._system is not None:
                self._inspect(request, running)
            self._confine(request.is_judge)
            os.chdir(request.cwd)
            running.redirect_stdio()
            become_program(request.command, request.environment)
        except OSError as error:
            running.say(f"{error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - whatever it was, the host is told
            running.say(f"{type(error).__name__}: {error}")
        finally:
            os._exit(NOT_STARTED)

    def _inspect(self, request: Request, running: "Running") -> None:
        """In the child: run the `main` of a Python program over the machine's files.

        The program and all that it imports are loaded here, on the original root file system. Then
        the child enters the machine, where it executes no program and loads no module.
        """
        names: dict[str, object] = {"__name__": "checker"}
        exec(compile(request.stdin, "checker", "exec"), names)
        main = names["main"]
        assert callable(main)
        sys.meta_path.clear()
        self._confine(False)
        running.redirect_stdio()
        code = 1
        try:
            with open(1, "w", encoding="utf-8", closefd=False) as sys.stdout:
                main()
            code = 0
        except BaseException as error:  # noqa: BLE001 - whatever it was, the host is told
            os.write(2, f"{type(error).__name__}: {error}".encode(errors="replace")[:4000])
        finally:
            os._exit(code)

    def _confine(self, is_judge: bool) -> None:
        """In the child: enter the private system, drop capabilities, set limits and filter."""
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

    def _in_child(self, work: "Callable[[int], None]", limit: int) -> "list[bytes]":
        """See `Server`; background processes are stopped, as they could stall the child."""
        held = self._hold()
        answer = super()._in_child(work, limit)
        if held is not None:
            held.release()
        return answer

    def _fork(self) -> int:
        return fork_or_make_room()

    def _entering(self) -> "Callable[[], None]":
        return lambda: self._confine(False)


def reap_all() -> None:
    """After `kill_all`: wait until all processes are reaped."""
    until = time.monotonic() + REAP_S
    while living() and time.monotonic() < until:
        reap()
        time.sleep(0.001)
    reap()


def fork_or_make_room() -> int:
    """Fork; if a fork bomb has used up the process limit, kill everything and fork then."""
    try:
        return os.fork()
    except OSError:
        kill_all()
        reap_all()
        return os.fork()


def close_if_open(fd: int) -> None:
    """Close a file descriptor; that of the directory listing itself is closed already."""
    try:
        os.close(fd)
    except OSError:
        pass


def main() -> None:
    """Arguments: profile, socket, lifeline, filter, processes, memory to poll (0: none), places."""
    profile, fd, lifeline, filter_path, processes, watched = sys.argv[1:7]
    hide_from_tracers()
    os.umask(0o022)
    with open(filter_path, "rb") as file:
        program = file.read()
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, int(fd), int(lifeline)):
            close_if_open(int(name))  # left open by bwrap; must not reach a command
    for kept in (int(fd), int(lifeline)):
        os.set_inheritable(kept, False)
    if profile == "code":
        # Here and not in each command: it takes a third of the time of one.
        forbid_new_privileges()
        install_filter(program)
        program = b""
    FirstProcess(
        int(fd),
        int(lifeline),
        system=System(sys.argv[7:]) if profile == "machine" else None,
        filter_program=program,
        processes=int(processes),
        watched_bytes=int(watched),
    ).serve()


if __name__ == "__main__":
    main()
