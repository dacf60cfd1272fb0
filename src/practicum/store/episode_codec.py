"""Records to bytes and back, every float bit for bit."""

import hashlib
import json
import zlib
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from practicum.core.sample import Episode
from practicum.core.task import Task

__all__ = [
    "HASHED",
    "decode_episode",
    "decode_task",
    "encode_episode",
    "encode_hashed_episode",
    "encode_task",
    "episode_to_json",
]

T = TypeVar("T")

HASHED = "hash:"
"""How an identity begins that is a hash already, as an exported episode's is."""
HASH_BYTES = 16
"""Enough that no two of any number of traces collide by chance."""


@cache
def _episodes() -> TypeAdapter[Episode]:
    return TypeAdapter(Episode)


@cache
def _tasks() -> TypeAdapter[Task]:
    return TypeAdapter(Task)


def encode_episode(episode: Episode) -> bytes:
    """Compressed JSON of an episode."""
    return zlib.compress(_to_json(_episodes(), episode))


def encode_hashed_episode(episode: Episode, identity: str = "") -> tuple[bytes, bytes]:
    """The same, and a hash of its identity, or else of what happened in it: all but its score."""
    values = _episodes().dump_python(episode, warnings="error")
    score = _dumps(values.pop("score"))
    happened = _dumps(values)
    body = happened[:-1] + b',"score":' + score + b"}"
    if identity.startswith(HASHED):
        return zlib.compress(body), bytes.fromhex(identity.removeprefix(HASHED))
    same = identity.encode() or happened
    return zlib.compress(body), hashlib.sha256(same).digest()[:HASH_BYTES]


def episode_to_json(episode: Episode) -> dict[str, Any]:
    """An episode as values that JSON can hold."""
    values: dict[str, Any] = _episodes().dump_python(episode, mode="python", warnings="error")
    return values


def decode_episode(body: bytes) -> Episode:
    """The episode `encode_episode` was given."""
    return _episodes().validate_json(zlib.decompress(body))


def encode_task(task: Task) -> bytes:
    """JSON of a task."""
    return _to_json(_tasks(), task)


def decode_task(body: bytes) -> Task:
    """The task `encode_task` was given."""
    return _tasks().validate_json(body)


def _to_json(adapter: TypeAdapter[T], record: T) -> bytes:
    return _dumps(adapter.dump_python(record, warnings="error"))


def _dumps(values: Any) -> bytes:
    # `dump_json` would write NaN and infinities as null; the standard library keeps them, and
    # writes the shortest digits that read back as the same float.
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
