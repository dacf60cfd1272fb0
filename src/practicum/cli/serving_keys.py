"""Keys that servers ask for: from the environment, from a file, or made anew."""

import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.core.loopback import is_loopback

SHORTEST_KEY = 16
"""Characters; a shorter key could be guessed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingKey:
    """A key, and where it came from."""

    key: str
    is_generated: bool


def choose_key(host: str, key_file: Path | None, variable: str) -> ServingKey:
    """The key to serve with: from the environment variable, from the file, or a new one.

    A new key goes to the file, where one is named, readable by its owner alone.
    """
    given = os.environ.get(variable, "")
    if given:
        return ServingKey(key=check_key(given, variable), is_generated=False)
    if key_file is not None and key_file.exists():
        key = check_key(read_private(key_file).strip(), str(key_file))
        return ServingKey(key=key, is_generated=False)
    if key_file is None and not is_loopback(host):
        raise UserError(
            f"--host {host} lets other machines reach this server, so it needs a key that you "
            f"choose: add --key-file FILE, or set {variable}"
        )
    fresh = secrets.token_urlsafe(24)
    if key_file is not None:
        _write(key_file, fresh)
    return ServingKey(key=fresh, is_generated=True)


def check_key(key: str, source: str) -> str:
    """The key, unless it could be guessed or not be sent in a header."""
    if len(key) < SHORTEST_KEY or not key.isascii() or any(c.isspace() or c == ":" for c in key):
        raise UserError(
            f"the key in {source} cannot be used: a key has at least {SHORTEST_KEY} characters of "
            "plain text without spaces and colons; make one with: openssl rand -hex 24"
        )
    return key


def read_private(path: Path) -> str:
    """The text of a key file, which nobody else may be able to read."""
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the key file {path} cannot be read ({error}); name another") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(f"the key file {path} is open to other users; type: chmod 600 {path}")
    return text


def _write(path: Path, key: str) -> None:
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key + "\n")
    except OSError as error:
        raise UserError(f"the key file {path} cannot be made ({error}); name another") from None
