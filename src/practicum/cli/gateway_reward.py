"""`practicum gateway reward`: the reward of a rollout, given to a gateway that runs."""

import json
import os
import socket
import tempfile
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

from practicum.cli.serving_keys import read_private
from practicum.core.errors import UserError

HOW = "type: practicum gateway reward ROLLOUT 1.0 (ROLLOUT=-1 for a negative one)"
TIMEOUT_S = 30.0


class _UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("control", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(str(self._path))


def give_reward(words: list[str], control: Path | None, key: str) -> str:
    """Reward a rollout; a sentence about what the gateway made of it.

    Args:
        words: The rollout's id and a number, or both in one as `ID=NUMBER`.
        control: The gateway's control socket; the only one there is unless given.
        key: Its control key.
    """
    rollout, value = _read(words)
    path = control or _only_socket()
    connection = _UnixConnection(path)
    try:
        connection.request(
            "POST",
            f"/rollouts/{rollout}/reward",
            json.dumps({"reward": value}),
            {"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
    except OSError as error:
        raise UserError(
            f"no gateway answers at {path} ({error}); name its control socket with --socket"
        ) from None
    finally:
        connection.close()
    if answer.status != 200:
        raise UserError(f"the gateway refused the reward ({answer.status}): {_reason(text)}")
    return f"rollout {rollout}: reward {json.loads(text)['reward']:g}"


def control_key(key_file: Path | None, variable: str) -> str:
    """The key that the gateway was started with."""
    given = os.environ.get(variable, "")
    if not given and key_file is not None:
        given = read_private(key_file).strip()
    if not given:
        raise UserError(
            f"the gateway's control key is missing: give --key-file FILE as to the gateway, or set "
            f"{variable} to the key that it printed"
        )
    return given


def _read(words: list[str]) -> tuple[str, float]:
    parts = words[0].rsplit("=", 1) if len(words) == 1 else words
    if len(parts) != 2:
        raise UserError(f"a rollout and a number are needed; {HOW}")
    try:
        return parts[0], float(parts[1])
    except ValueError:
        raise UserError(f"{parts[1]!r} is no number; {HOW}") from None


def _only_socket() -> Path:
    places = Path(tempfile.gettempdir()).glob("practicum-*/control.sock")
    found = []
    for path in places:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
            tried.connect(str(path))
            found.append(path)
    if len(found) == 1:
        return found[0]
    told = f"{len(found)} gateways run here" if found else "no gateway runs here"
    raise UserError(f"{told}; name the control socket that yours printed with --socket FILE")


def _reason(text: str) -> str:
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
