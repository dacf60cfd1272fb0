"""`Server`: base of the processes that serve a sandbox: run, judge, inspect, read and write."""

import errno
import os
import stat
from abc import ABC, abstractmethod  # loaded by `os` anyway

from practicum.sandboxes.inside.frames import FRAME_LIMIT, LENGTH, unpack

# Not from typing: every import is paid for at each start of a sandbox.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Server(ABC):
    """Serves one connection until it ends; subclasses isolate the commands."""

    @abstractmethod
    def _send(self, parts: "list[bytes]") -> None:
        """Send a message to the host."""

    @abstractmethod
    def _exactly(self, size: int) -> "bytes | None":
        """Receive exactly `size` bytes; None when the host is gone."""

    @abstractmethod
    def _run(self, parts: "list[bytes]") -> "list[bytes]":
        """Run a command or a checker."""

    @abstractmethod
    def _entering(self) -> "Callable[[], None]":
        """A function that confines a child like a command; made before the fork."""

    def _fork(self) -> int:
        return os.fork()

    def serve(self) -> None:
        """Answer requests until the host goes away."""
        answers: dict[bytes, Callable[[list[bytes]], list[bytes]]] = {
            b"run": self._run,
            b"judge": self._run,
            b"inspect": self._run,
            b"read": self._read,
            b"write": self._write,
            b"listen": self._listen,
            b"hold": self._hold_for_good,
        }
        self._send([b"ready"])
        while True:
            parts = self._receive()
            if parts is None:
                return
            self._send(answers[parts[0]](parts))

    def _receive(self) -> "list[bytes] | None":
        """The next request."""
        head = self._exactly(4)
        if head is None:
            return None
        (size,) = LENGTH.unpack(head)
        body = self._exactly(size) if size <= FRAME_LIMIT else None
        return None if body is None else unpack(body)

    def _listen(self, parts: "list[bytes]") -> "list[bytes]":
        """Pass listening sockets to the host; only a sandbox with a network of its own does."""
        return [b"failed", b"%d this sandbox has no network of its own" % errno.EOPNOTSUPP]

    def _hold_for_good(self, parts: "list[bytes]") -> "list[bytes]":
        """Stop all that commands left running; where nothing outlives its command, nothing."""
        return [b"done", b""]

    def _read(self, parts: "list[bytes]") -> "list[bytes]":
        path, limit = parts[1], int(parts[2])

        def work(out: int) -> None:
            # O_NOFOLLOW, O_NONBLOCK: the policy may have put a link or a FIFO here.
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

        return self._in_child(work, limit)

    def _write(self, parts: "list[bytes]") -> "list[bytes]":
        path, content = parts[1], parts[2]

        def work(out: int) -> None:
            folder = os.path.dirname(path)
            if folder:
                os.makedirs(folder, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
            with open(os.open(path, flags, 0o644), "wb") as file:
                file.write(content)

        return self._in_child(work, 0)

    def _in_child(self, work: "Callable[[int], None]", limit: int) -> "list[bytes]":
        """Do `work` with files in a confined child: the paths are the policy's, the links too."""
        content_r, content_w = os.pipe2(os.O_CLOEXEC)
        error_r, error_w = os.pipe2(os.O_CLOEXEC)
        enter = self._entering()
        pid = self._fork()
        if pid == 0:
            code = 1
            try:
                enter()
                work(content_w)
                code = 0
            except OSError as error:
                os.write(error_w, b"%d %s" % (error.errno or 0, str(error.strerror).encode()))
            finally:
                os._exit(code)
        os.close(content_w)
        os.close(error_w)
        content = b"".join(iter(lambda: os.read(content_r, 65536), b""))
        reason = os.read(error_r, 4096)
        os.close(content_r)
        os.close(error_r)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) == 0 and len(content) <= limit:
            return [b"done", content]
        return [b"failed", reason or b"%d longer than %d bytes" % (errno.EFBIG, limit)]


def reap(awaited: int = 0) -> "int | None":
    """Reap all children that ended; the exit code of the awaited one, or minus its signal."""
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
