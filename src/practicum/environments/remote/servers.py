"""The server of a `remote` environment: its options, and a server process that is kept running."""

import json
import os
import secrets
import selectors
import shutil
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.trusted_code import NOT_TYPED


class RemoteOptions(ConfigModel):
    """Options of the `remote` environment: `url` of a server that runs, or what to `serve`."""

    url: str = ""
    """Address of a server that runs already, such as http://127.0.0.1:8000."""
    key_file: str = ""
    """File with the server's key; else the variable PRACTICUM_ENV_KEY, else no key is sent."""
    serve: str = ""
    """Environment to serve: the server is started, watched and stopped with the run."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment that is served."""
    port: int = Field(default=0, ge=0, le=65535)
    """Where to serve it; 0 takes a free port."""
    max_episodes: int = Field(default=256, ge=1)
    """Episodes at once of the server that is started; more wait for their turn."""
    startup_timeout_s: float = Field(default=60.0, gt=0)
    """What the server may take to start."""
    max_restarts: int = Field(default=3, ge=0)
    """How often in a row a server that died is started again before the run ends."""
    open_timeout_s: float = Field(default=300.0, gt=0)
    """What an episode may take to open, waiting for a place included."""
    call_timeout_s: float = Field(default=330.0, gt=0)
    """What a turn may take; a server that is silent for longer has failed the episode."""
    give_up_s: float = Field(default=600.0, gt=0)
    """When no episode could be opened for so long, the run ends."""
    instruction: str = ""
    """Other OpenEnv servers: what the policy is told first, before the first observation."""
    action_field: str = ""
    """Other OpenEnv servers: where in an action the policy's text goes; found out where there is
    only one text in it."""
    observation_field: str = ""
    """Other OpenEnv servers: which part of an observation the policy sees; all of it, as JSON,
    unless told."""
    success_at: float = 1.0
    """Other OpenEnv servers: rewards of an episode that add up to this mean that it succeeded."""

    @field_validator("url")
    @classmethod
    def _usable_address(cls, value: str) -> str:
        if not value:
            return value
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        except ValueError:
            usable = False
        if not usable:
            raise PydanticCustomError(
                "url", "an address begins with http:// or https://, as in http://127.0.0.1:8000"
            )
        if parts.username or parts.password:
            raise PydanticCustomError(
                "url",
                "a key in the address would be kept in the run's folder; put it into a file and "
                "name that with key_file",
            )
        return value.rstrip("/")

    @model_validator(mode="after")
    def _one_server(self) -> "RemoteOptions":
        if bool(self.url) == bool(self.serve):
            raise PydanticCustomError(
                "server",
                "say where the episodes live: url for a server that runs, or serve for an "
                "environment to be served, and not both",
            )
        if self.serve == "remote":
            raise PydanticCustomError("server", "serve cannot be remote itself; name another")
        return self


KEY_VARIABLE = "PRACTICUM_ENV_KEY"
USER_MISTAKE = 2
"""Exit code of a server for a `UserError`: a restart would not help."""

STOPPING_S = 10.0
"""Seconds a server has to close its episodes before it is killed."""


class ServerInstance(NamedTuple):
    """Where a server answers; `generation` counts its starts."""

    url: str
    generation: int


class Server(Protocol):
    """A server to open episodes on. Methods may block; call them on a worker thread."""

    key: str

    @property
    def pid(self) -> int | None:
        """Its pid, where we started it and it runs."""
        ...

    def instance(self) -> ServerInstance:
        """Where it answers; waits for a server that has to be started."""
        ...

    def report_unreachable(self, why: str) -> None:
        """An episode could not be opened; `UserError` after too long without success."""
        ...

    def report_hang(self, instance: ServerInstance) -> None:
        """It does not answer `/health`."""
        ...

    def report_success(self) -> None:
        """An episode ended normally: the server works."""
        ...

    def stop(self) -> None:
        """Stop it, if we started it."""
        ...


class _FailureTimer:
    """Raises when nothing has worked for too long; single failures only mask their episodes."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._since: float | None = None

    def failed(self, what: str, why: str) -> None:
        """Count a failure."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._limit_s:
            raise UserError(
                f"no episode could be opened on {what} for {self._limit_s:g} s ({why}); "
                "see that the server runs, then go on with --resume"
            )

    def worked(self) -> None:
        """Reset after a success."""
        self._since = None


class ExternalServer:
    """A server that somebody else runs (option `url`)."""

    def __init__(self, options: RemoteOptions) -> None:
        self.key = _read_key(options.key_file)
        self._url = options.url
        self._failures = _FailureTimer(options.give_up_s)

    @property
    def pid(self) -> int | None:
        """None: it is not our process."""
        return None

    def instance(self) -> ServerInstance:
        """The configured url."""
        return ServerInstance(self._url, 1)

    def report_unreachable(self, why: str) -> None:
        """See `Server`."""
        self._failures.failed(self._url, why)

    def report_hang(self, instance: ServerInstance) -> None:
        """Nothing: it is not ours to kill."""

    def report_success(self) -> None:
        """See `Server`."""
        self._failures.worked()

    def stop(self) -> None:
        """Nothing: it is not ours to stop."""


class ManagedServer:
    """A server process (option `serve`), started when first needed and again when it dies.

    Its standard input is a pipe from this process, and it stops when that closes: so it does not
    outlive a run that is killed. On standard output it says its address and nothing else; what its
    environment prints comes on standard error. The lock makes concurrent episodes start it only
    once.
    """

    def __init__(self, options: RemoteOptions) -> None:
        self.key = secrets.token_urlsafe(24)
        self._options = options
        self._failures = _FailureTimer(options.give_up_s)
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""
        self._generation = 0
        self._starts_in_a_row = 0
        self._errors: _Tail | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Its pid, while it runs."""
        return None if self._process is None else self._process.pid

    def instance(self) -> ServerInstance:
        """Where it answers; started first if it does not run."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            return ServerInstance(self._url, self._generation)

    def report_unreachable(self, why: str) -> None:
        """See `Server`."""
        self._failures.failed(f"the server of {self._options.serve!r}", why)

    def report_hang(self, instance: ServerInstance) -> None:
        """Kill it, unless it was restarted meanwhile; the next episode starts it again."""
        with self._lock:
            if self._process is not None and instance.generation == self._generation:
                self._process.kill()

    def report_success(self) -> None:
        """Reset the counts of restarts and failures."""
        self._starts_in_a_row = 0
        self._failures.worked()

    def stop(self) -> None:
        """Let it close its episodes; kill it if that takes too long."""
        with self._lock:
            if self._process is not None:
                _stop(self._process)
                self._process = None

    def _start(self) -> None:
        if self._starts_in_a_row > self._options.max_restarts:
            raise UserError(
                f"the server of {self._options.serve!r} stopped {self._starts_in_a_row} times in a "
                f"row{self._last_error()}; see why with: {' '.join(_command(self._options)[:4])}"
            )
        self._starts_in_a_row += 1
        self._generation += 1
        if self._process is not None:
            _stop(self._process)  # closes its pipes
        process = subprocess.Popen(
            _command(self._options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, KEY_VARIABLE: self.key, NOT_TYPED: "1"},
            start_new_session=True,  # Ctrl-C reaches only the run, which then stops the server
        )
        weakref.finalize(self, _stop, process)
        self._process, self._errors = process, _Tail(process.stderr)
        self._url = self._read_url(process)

    def _read_url(self, process: subprocess.Popen[bytes]) -> str:
        """The url that the server prints once it listens."""
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
        sentence = f"the server of {self._options.serve!r} {how}{self._last_error()}"
        if process.returncode == USER_MISTAKE:
            raise UserError(sentence)
        raise EnvironmentFailure(sentence)

    def _last_error(self) -> str:
        """The last line of its standard error, in brackets."""
        lines = self._errors.read().strip().splitlines() if self._errors is not None else []
        return f" ({lines[-1][:300]})" if lines else ""


TAIL_BYTES = 8192

READ_S = 2.0
"""What a process that has ended may leave to be read; others may have its pipe open still."""


class _Tail:
    """The end of what a process writes into a pipe, which is read all the time: it never fills."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None
        self._kept = b""
        self._reading = threading.Thread(target=self._drain, args=(pipe,), daemon=True)
        self._reading.start()

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while piece := os.read(pipe.fileno(), TAIL_BYTES):
                self._kept = (self._kept + piece)[-TAIL_BYTES:]

    def read(self) -> str:
        """It, of a process that has ended."""
        self._reading.join(READ_S)
        return self._kept.decode(errors="replace")


def make_server(options: RemoteOptions) -> Server:
    """The server that the options name; nothing is started yet."""
    return ExternalServer(options) if options.url else ManagedServer(options)


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
    """Stop a server by closing its standard input; kill it if that takes too long."""
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
