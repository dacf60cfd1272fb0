"""Records to bytes and back, every float bit for bit."""

import json
import zlib
from functools import cache
from typing import TypeVar

from pydantic import TypeAdapter

from practicum.core.sample import Episode
from practicum.core.task import Task

__all__ = ["decode_episode", "decode_task", "encode_episode", "encode_task"]

T = TypeVar("T")


@cache
def _episodes() -> TypeAdapter[Episode]:
    return TypeAdapter(Episode)


@cache
def _tasks() -> TypeAdapter[Task]:
    return TypeAdapter(Task)


def encode_episode(episode: Episode) -> bytes:
    """Compressed JSON of an episode."""
    return zlib.compress(_to_json(_episodes(), episode))


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
    # `dump_json` would write NaN and infinities as null; the standard library keeps them, and
    # writes the shortest digits that read back as the same float.
    values = adapter.dump_python(record, warnings="error")
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
