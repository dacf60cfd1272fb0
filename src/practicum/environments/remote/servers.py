"""Where a remote environment's episodes live: a server that runs, or one that is kept running."""

import json
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.environments.remote.options import RemoteOptions

__all__ = ["OwnServer", "Place", "RunningServer", "Server", "server_of"]

KEY_VARIABLE = "PRACTICUM_ENV_KEY"
USER_MISTAKE = 2
"""Exit code of a server that was given something it cannot use: trying again would not help."""

STOPPING_S = 10.0
"""What a server is given to close its episodes before it is killed."""


class Place(NamedTuple):
    """Where a server answers, and which of its lives that is."""

    address: str
    life: int


class Server(Protocol):
    """Something with an address."""

    key: str

    @property
    def pid(self) -> int | None:
        """Its process, where that is ours and lives."""
        ...

    def place(self) -> Place:
        """Where it answers; may take as long as a server needs to start."""
        ...

    def unreachable(self, why: str) -> None:
        """An episode could not be opened."""
        ...

    def hangs(self, place: Place) -> None:
        """It does not even say that it is healthy."""
        ...

    def answered(self) -> None:
        """An episode came to its end: the server works."""
        ...

    def stop(self) -> None:
        """Not needed any more."""
        ...


class _Patience:
    """Ends the run when nothing has worked for too long; single failures are only masked."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._since: float | None = None

    def failed(self, what: str, why: str) -> None:
        """Nothing came of one more attempt."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._limit_s:
            raise UserError(
                f"no episode could be opened on {what} for {self._limit_s:g} s ({why}); "
                "see that the server runs, then go on with --resume"
            )

    def worked(self) -> None:
        """Begin to count anew."""
        self._since = None


class RunningServer:
    """A server somebody else started."""

    def __init__(self, options: RemoteOptions) -> None:
        self.key = _read_key(options.key_file)
        self._url = options.url
        self._patience = _Patience(options.give_up_s)

    @property
    def pid(self) -> int | None:
        """It is not ours."""
        return None

    def place(self) -> Place:
        """As the config has it."""
        return Place(self._url, 1)

    def unreachable(self, why: str) -> None:
        """One more failure."""
        self._patience.failed(self._url, why)

    def hangs(self, place: Place) -> None:
        """Whoever started it must see to it."""

    def answered(self) -> None:
        """It works."""
        self._patience.worked()

    def stop(self) -> None:
        """It is not ours to stop."""


class OwnServer:
    """A server that is started when first needed and again when it dies.

    It holds one end of a pipe from this process and stops when that closes, so it does not outlive
    a run that is killed.
    """

    def __init__(self, options: RemoteOptions) -> None:
        self.key = secrets.token_urlsafe(24)
        self._options = options
        self._patience = _Patience(options.give_up_s)
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._life = 0
        self._starts_in_a_row = 0
        self._complaints: IO[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The server's process, while there is one."""
        return None if self._process is None else self._process.pid

    def place(self) -> Place:
        """Where it answers, started first if it does not run."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            return Place(self._address, self._life)

    def unreachable(self, why: str) -> None:
        """A server that lives and does not answer is only waited for so long."""
        self._patience.failed(f"the server of {self._options.serve!r}", why)

    def hangs(self, place: Place) -> None:
        """End it by force; the next episode starts it again. It may have been started meanwhile."""
        with self._lock:
            if self._process is not None and place.life == self._life:
                self._process.kill()

    def answered(self) -> None:
        """It works: earlier deaths are forgiven."""
        self._starts_in_a_row = 0
        self._patience.worked()

    def stop(self) -> None:
        """Let it close its episodes, and see that it is gone."""
        with self._lock:
            if self._process is not None:
                _stop(self._process)
                self._process = None
            if self._complaints is not None:
                self._complaints.close()
                self._complaints = None

    def _start(self) -> None:
        if self._starts_in_a_row > self._options.max_restarts:
            raise UserError(
                f"the server of {self._options.serve!r} stopped {self._starts_in_a_row} times in a "
                f"row{self._last_words()}; see why with: {' '.join(_command(self._options)[:4])}"
            )
        self._starts_in_a_row += 1
        self._life += 1
        if self._process is not None:
            _stop(self._process)  # closes its pipes
        if self._complaints is None:
            self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        process = subprocess.Popen(
            _command(self._options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            env={**os.environ, KEY_VARIABLE: self.key},
            start_new_session=True,  # Ctrl-C is for the run, which stops it in its own time
        )
        weakref.finalize(self, _stop, process)
        self._process = process
        self._address = self._wait(process)

    def _wait(self, process: subprocess.Popen[bytes]) -> str:
        """The address that the server prints once it listens."""
        limit, said = self._options.startup_timeout_s, b""
        with selectors.DefaultSelector() as waiting:
            assert process.stdout is not None
            waiting.register(process.stdout, selectors.EVENT_READ)
            end = time.monotonic() + limit
            while not said.endswith(b"\n") and waiting.select(max(0.0, end - time.monotonic())):
                piece = os.read(process.stdout.fileno(), 4096)
                if not piece:
                    break
                said += piece
        if said.startswith(b"http"):
            return said.decode().strip()
        is_late = process.poll() is None and time.monotonic() >= end
        _stop(process)
        how = f"did not start within {limit:g} s" if is_late else "ended while starting"
        sentence = f"the server of {self._options.serve!r} {how}{self._last_words()}"
        if process.returncode == USER_MISTAKE:
            raise UserError(sentence)
        raise EnvironmentFailure(sentence)

    def _last_words(self) -> str:
        if self._complaints is None:
            return ""
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1][:300]})" if lines else ""


def server_of(options: RemoteOptions) -> Server:
    """The server that the options name; nothing is started yet."""
    return RunningServer(options) if options.url else OwnServer(options)


def _command(options: RemoteOptions) -> list[str]:
    beside = Path(sys.executable).with_name("practicum")
    program = str(beside) if beside.exists() else shutil.which("practicum")
    if program is None:
        raise UserError(
            f"the command practicum is not beside {sys.executable} nor on the path, so it cannot "
            "serve; install Practicum into this Python, or start the server and give its url"
        )
    words = [f"{name}={json.dumps(value)}" for name, value in options.options.items()]
    return [
        program,
        "env",
        "serve",
        options.serve,
        *words,
        "server.stop_with_stdin=true",
        f"--port={options.port}",
        f"--max-episodes={options.max_episodes}",
    ]


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server: by closing its standard input, and by force if that does not help."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(STOPPING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _read_key(file: str) -> str:
    if not file:
        return os.environ.get(KEY_VARIABLE, "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"env.key_file = {file!r} cannot be read ({error}); name the file that "
            "`practicum env serve --key-file` made"
        ) from None
