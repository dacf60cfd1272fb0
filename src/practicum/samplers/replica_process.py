"""A replica that this machine runs: started, watched, started again, and never left behind."""

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from practicum.core.errors import UserError
from practicum.samplers.replica import ReplicaFailed

LOOK_S = 0.2
"""Seconds between two looks at a replica that starts."""

STOPPING_S = 10.0

TAIL_BYTES = 4096


class ReplicaProcess:
    """The process of one replica, under a keeper that ends it when this process is gone.

    It says what it says into a file, whose end is shown where it fails.

    Args:
        command: Starts it, given a port of this machine.
        environment: Variables that it has besides this process's own.
        startup_timeout_s: What it may take to answer.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        environment: Mapping[str, str],
        startup_timeout_s: float,
    ) -> None:
        self._command, self._environment = command, environment
        self._startup_timeout_s = startup_timeout_s
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.starts = 0
        with tempfile.NamedTemporaryFile(
            prefix="practicum-replica-", suffix=".log", delete=False
        ) as made:
            self._log = Path(made.name)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the replica's keeper, while it runs; the replica is in its process group."""
        return None if self._process is None else self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it; it does not answer yet."""
        self.stop()
        self.starts += 1
        keeper = Path(__file__).with_name("keep_until_parent_ends.py")
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", str(keeper), *self._command(self.port)],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self._environment},
                    start_new_session=True,  # Ctrl-C reaches only the run, which then stops it
                )
            except OSError as error:
                raise UserError(f"the replica cannot be started ({error})") from None

    async def until(self, answers: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it answers.

        Raises:
            ReplicaFailed: it has ended, or takes longer than it may.
        """
        end = time.monotonic() + self._startup_timeout_s
        while not await answers():
            if not self.runs:
                raise ReplicaFailed(f"the replica {self.url} ended while starting{self.said()}")
            if time.monotonic() >= end:
                raise ReplicaFailed(
                    f"the replica {self.url} did not start within {self._startup_timeout_s:g} s"
                    f"{self.said()}; raise sampler.startup_timeout_s"
                )
            await asyncio.sleep(LOOK_S)

    def said(self) -> str:
        """The last line that it said, in brackets."""
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - TAIL_BYTES))
            lines = log.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1][:300]})" if lines else ""

    def stop(self) -> None:
        """End it, and all that it has started."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOPPING_S + 5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def close(self) -> None:
        """End it for good."""
        self.stop()
        self._log.unlink(missing_ok=True)


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])
