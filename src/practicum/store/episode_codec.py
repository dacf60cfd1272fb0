"""Episodes and tasks to bytes and back; floats keep every bit."""

import hashlib
import json
import zlib
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from practicum.core.sample import Episode
from practicum.core.task import Task

T = TypeVar("T")

HASHED = "hash:"
"""Prefix of an identity that is already a hash, as in an export."""
HASH_BYTES = 16
"""128 bits: accidental collisions are negligible."""


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
    """Compressed JSON, and a hash of `identity`, or without one of all but the score."""
    values = _episodes().dump_python(episode, warnings="error")
    score = _dumps(values.pop("score"))
    if not values["trace"]["client"]:  # what was imported before there were clients has its hash
        del values["trace"]["client"]
    unscored = _dumps(values)
    body = unscored[:-1] + b',"score":' + score + b"}"
    if identity.startswith(HASHED):
        return zlib.compress(body), bytes.fromhex(identity.removeprefix(HASHED))
    hashed = identity.encode() or unscored
    return zlib.compress(body), hashlib.sha256(hashed).digest()[:HASH_BYTES]


def episode_to_json(episode: Episode) -> dict[str, Any]:
    """An episode as JSON values."""
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
    # Not pydantic's `dump_json`, which writes NaN and infinities as null. The standard library
    # keeps them, and writes the shortest digits that read back as the same float.
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
