"""Entries of a user's file, before they are tasks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.errors import UserError
from practicum.core.task import JSON

__all__ = ["Entry", "bad_entry", "text_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry: what it asks for and its plan."""

    id: str
    instruction: str
    data: Mapping[str, JSON]


def text_of(row: Mapping[str, Any], key: str) -> str:
    """A text that must be there."""
    value = row[key]
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"its {key!r} is no text")
    return value


def bad_entry(file: Path, key: str, error: Exception) -> UserError:
    """The sentence for an entry that cannot be used."""
    why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
    return UserError(f"{file}, entry {key}: {why}; mend the entry or take it out of the file")
