"""One command of a sandbox: the host's request, and the pipes of the command."""

import errno
import os
import select
import time

from practicum.sandboxes.inside.kept import Kept

DRAIN_S = 0.05
"""Seconds to read on after a command's end, while background processes hold its pipes."""
NOT_STARTED = 200
"""Exit code of a child whose exec failed; the reason is in a pipe."""


class Request:
    """A command to run, as the host sent it."""

    def __init__(self, parts: "list[bytes]") -> None:
        self.is_judge = parts[0] in (b"judge", b"inspect")
        self.is_inspection = parts[0] == b"inspect"
        self.timeout_s = int(parts[1]) / 1000
        self.keep = int(parts[2])
        self.cwd = parts[3].decode(errors="surrogateescape")
        self.stdin = parts[4]
        words = int(parts[5])
        self.command = parts[6 : 6 + words]
        settings = parts[6 + words :]
        self.environment = {settings[i]: settings[i + 1] for i in range(0, len(settings), 2)}


class Running:
    """The pipes of one command."""

    def __init__(self, request: Request) -> None:
        self._stdin = os.memfd_create("stdin", os.MFD_CLOEXEC)
        os.write(self._stdin, request.stdin)
        os.lseek(self._stdin, 0, os.SEEK_SET)
        out, self._out_w = os.pipe2(os.O_CLOEXEC)
        err, self._err_w = os.pipe2(os.O_CLOEXEC)
        self._error_r, self._error_w = os.pipe2(os.O_CLOEXEC)
        self.outputs = {out: Kept(request.keep), err: Kept(request.keep)}
        self._kept = tuple(self.outputs.values())
        self._exec_error = b""
        self._code = b""

    def redirect_stdio(self) -> None:
        """In the child: set up standard input, output and error."""
        for fd, place in ((self._stdin, 0), (self._out_w, 1), (self._err_w, 2)):
            os.dup2(fd, place)

    def say(self, reason: str) -> None:
        """In the child: report why the exec failed."""
        os.write(self._error_w, reason.encode(errors="replace")[:4000])

    def close_child_ends(self) -> None:
        """In the parent: close the ends that belong to the child."""
        for fd in (self._stdin, self._out_w, self._err_w, self._error_w):
            os.close(fd)

    def take_output(self, ready: "list[int]") -> None:
        """Read the pipes that are ready."""
        for fd in [fd for fd in self.outputs if fd in ready]:
            piece = take(fd)
            if piece:
                self.outputs[fd].add(piece)
            else:
                del self.outputs[fd]
                os.close(fd)

    def ended(self, code: int) -> str:
        """Record the exit code, or minus the signal; the status."""
        if code < 0:
            return "killed"
        self._code = b"%d" % code
        return "ok"

    def trouble(self) -> bytes:
        """Why the exec failed; empty if it did not."""
        if self._code == b"%d" % NOT_STARTED:
            self._exec_error = os.read(self._error_r, 4096)
        return self._exec_error

    def finish(self, keeps_going: bool) -> "set[int]":
        """Read the rest; returns the pipes that background processes still hold."""
        until = time.monotonic() + DRAIN_S
        while self.outputs:
            ready = select.select(list(self.outputs), [], [], max(0.0, until - time.monotonic()))[0]
            if not ready or time.monotonic() > until + DRAIN_S:
                break
            self.take_output(ready)
            if keeps_going:
                until = time.monotonic()
        os.close(self._error_r)
        if keeps_going:
            return set(self.outputs)
        for fd in self.outputs:
            os.close(fd)
        return set()

    def report(self, status: str, duration_s: float) -> "list[bytes]":
        """The answer to the host."""
        out, err = self._kept
        if status == "ok" and (out.is_cut or err.is_cut):
            status = "truncated"
        code = self._code if status in ("ok", "truncated") else b""
        total = b"%d" % (out.total + err.total)
        stderr = self._exec_error if status == "denied" else err.content()
        seconds = b"%f" % duration_s
        return [b"done", status.encode(), code, total, seconds, out.content(), stderr]


def become_program(command: "list[bytes]", environment: "dict[bytes, bytes]") -> None:
    """Exec a program found along `PATH`; `OSError` where there is none.

    `os.execvpe` does the same, but imports a module in each child, which costs time.
    """
    folders = [b""] if b"/" in command[0] else environment.get(b"PATH", b"/bin").split(b":")
    reason: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for folder in folders:
        try:
            os.execve(os.path.join(folder, command[0]), command, environment)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            reason = error
    raise reason


def take(fd: int) -> bytes:
    """Read what a pipe holds now; empty at its end."""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""
