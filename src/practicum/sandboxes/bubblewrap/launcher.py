"""The launcher: a small single-threaded process that starts sandboxes for its owner.

`bwrap --die-with-parent` kills a sandbox when the thread that started it ends, and a process with
threads must not fork. So a trainer or server does not start sandboxes itself but asks this process
over a socket; when the socket closes, for whatever reason, all sandboxes are ended and removed. If
this process is killed, the kernel ends its sandboxes, and the next launcher removes the cgroups.
"""

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from practicum.core.command import SandboxSpec
from practicum.sandboxes.bubblewrap.bwrap_command import MESSAGE_LIMIT, Started, Starter, StartError
from practicum.sandboxes.cgroups import find_cgroups


class Launcher:
    """Serves the requests of one owner, `open` and `close`."""

    def __init__(self, owner: socket.socket, starter: Starter) -> None:
        self._owner = owner
        self._starter = starter
        self._open: dict[int, Started] = {}
        self._leaving: list[Started] = []
        self._number = 0

    def serve(self) -> None:
        """Answer until the owner closes the socket, then end all sandboxes."""
        try:
            while True:
                timeout = 0.02 if self._leaving else None
                if select.select([self._owner], [], [], timeout)[0]:
                    message = self._owner.recv(MESSAGE_LIMIT)
                    if not message:
                        return
                    self._answer(json.loads(message))
                self._leaving = [gone for gone in self._leaving if not gone.is_removed()]
        finally:
            for started in [*self._open.values(), *self._leaving]:
                started.end()
                started.wait_until_removed()

    def _answer(self, asked: dict[str, Any]) -> None:
        if asked["do"] == "open":
            self._start(SandboxSpec.from_json(asked["spec"]))
        elif asked["do"] == "close":
            self._end(asked["number"])
        else:
            self._say({"failed": f"no such request: {asked['do']}"})

    def _start(self, spec: SandboxSpec) -> None:
        try:
            started = self._starter.start(spec)
        except (StartError, OSError) as error:
            self._say({"failed": str(error)})
            return
        self._number += 1
        self._open[self._number] = started
        self._say({"number": self._number, "oom_file": started.oom_file}, started.connection)
        os.close(started.connection)

    def _end(self, number: int) -> None:
        started = self._open.pop(number, None)
        if started is not None:
            started.end()
            if not started.is_removed():
                self._leaving.append(started)
        self._say({"number": number})

    def _say(self, answer: dict[str, Any], fd: int | None = None) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._owner, [json.dumps(answer).encode()], [] if fd is None else [fd])


def main() -> None:
    """Arguments: the socket's file descriptor, and the options of `Starter` as JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, which closes the socket
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    owner = socket.socket(fileno=int(sys.argv[1]))
    cgroups = find_cgroups()
    if cgroups is not None:
        cgroups.sweep()
    Launcher(owner, Starter(cgroups=cgroups, **json.loads(sys.argv[2]))).serve()


if __name__ == "__main__":
    main()
