"""What a server is told, checked before it listens."""

import ipaddress
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import UserError

__all__ = ["KEY_VARIABLE", "ServerSettings", "ServingKey", "choose_key", "is_loopback"]

KEY_VARIABLE = "PRACTICUM_ENV_KEY"
"""Environment variable that may hold the key: unlike a word of the command line, other users of the
machine cannot read it."""

SHORTEST_KEY = 16
"""Characters; a shorter key could be guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How one environment is served."""

    key: str
    """What a client must show, except to the LifelongAgentBench routes."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one."""
    names: tuple[str, ...] = ()
    """Names of this machine that clients use besides `host`."""
    max_episodes: int = 128
    """Episodes at once; the next one is refused until another ends."""
    idle_s: float = 600.0
    """An episode nobody has asked anything of for so long is closed: its client is gone."""
    step_timeout_s: float = 300.0
    """What one turn, one opening or one check may take before its episode counts as failed."""
    max_turns: int = 0
    """Turns after which an episode is over; 0 leaves that to the environment and the client."""
    max_body_bytes: int = 4 * 1024 * 1024
    """The longest request."""
    lifelong: bool = False
    """Whether the LifelongAgentBench routes are there. They have no key, so only on loopback."""
    factory_port: int = 8001
    """Where LifelongAgentBench looks for its chat history items; 0 serves none."""
    samples: int = 500
    """Tasks that LifelongAgentBench is offered."""

    def __post_init__(self) -> None:
        """Refuse what would be unsafe, before anything listens."""
        if self.lifelong and not is_loopback(self.host):
            raise UserError(
                f"--lifelong cannot be used with --host {self.host}: its client sends no key, so "
                "anyone who reaches that address could use it; leave --host away and reach the "
                "server through an SSH tunnel"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingKey:
    """A key, and where it came from."""

    key: str
    is_generated: bool


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def choose_key(host: str, key_file: Path | None) -> ServingKey:
    """The key to serve with: from the variable, from the file, or a new one.

    A new key goes to the file, where one is named, readable by its owner alone.
    """
    given = os.environ.get(KEY_VARIABLE, "")
    if given:
        return ServingKey(key=_checked(given, KEY_VARIABLE), is_generated=False)
    if key_file is not None and key_file.exists():
        return ServingKey(key=_read(key_file), is_generated=False)
    if key_file is None and not is_loopback(host):
        raise UserError(
            f"--host {host} lets other machines reach this server, so it needs a key that you "
            f"choose: add --key-file FILE, or set {KEY_VARIABLE}"
        )
    fresh = secrets.token_urlsafe(24)
    if key_file is not None:
        _write(key_file, fresh)
    return ServingKey(key=fresh, is_generated=True)


def _checked(key: str, source: str) -> str:
    if len(key) < SHORTEST_KEY or not key.isascii() or any(c.isspace() or c == ":" for c in key):
        raise UserError(
            f"the key in {source} cannot be used: a key has at least {SHORTEST_KEY} characters of "
            "plain text without spaces and colons; make one with: openssl rand -hex 24"
        )
    return key


def _read(path: Path) -> str:
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the key file {path} cannot be read ({error}); name another") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"the key file {path} is open to other users; type: chmod 600 {path}")
    return _checked(text.strip(), str(path))


def _write(path: Path, key: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key + "\n")
    except OSError as error:
        raise UserError(f"the key file {path} cannot be made ({error}); name another") from None
