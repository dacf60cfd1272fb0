"""Reads `os_interaction` entries of LifelongAgentBench: a JSON dictionary, or Parquet."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra, UserError
from practicum.core.task import JSON
from practicum.environments.shell.entries import Entry, bad_entry, text_of
from practicum.environments.shell.plan import Script, read_script

__all__ = ["is_lifelong", "lifelong_entries", "read_parquet"]

NAMED_LANGUAGES = {"bash": "bash", "python": "python"}


def is_lifelong(entry: object) -> bool:
    """Whether a JSON value looks like one of its entries."""
    return isinstance(entry, Mapping) and "initialization_command_item" in entry


def lifelong_entries(rows: Mapping[str, Any], file: Path) -> list[Entry]:
    """The entries of a file, by their key."""
    return [_entry(key, row, file) for key, row in rows.items()]


def read_parquet(file: Path) -> dict[str, Any]:
    """The rows of a Parquet file by their sample index."""
    try:
        from pyarrow import lib, parquet
    except ImportError:
        raise MissingExtra.for_extra("parquet", f"reading {file}") from None
    try:
        rows: Iterable[dict[str, Any]] = parquet.read_table(file).to_pylist()
    except (OSError, lib.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{file} is not a Parquet file that can be read: {reason}") from None
    return {str(row.get("sample_index", at)): row for at, row in enumerate(rows)}


def _entry(key: str, row: object, file: Path) -> Entry:
    try:
        return _read(key, row)
    except (KeyError, TypeError, ValueError) as error:
        raise bad_entry(file, key, error) from None


def _read(key: str, row: object) -> Entry:
    if not isinstance(row, Mapping):
        raise TypeError("it is not an object")
    judged = _nested(row["evaluation_info"])
    check = _script(judged["evaluation_command_item"])
    skills = _nested_list(row.get("skill_list", []))
    return Entry(
        id=f"lab-{key}",
        instruction=text_of(row, "instruction"),
        data={
            "source": "lifelong",
            "setup": _script(row["initialization_command_item"]).as_json(),
            "reference": _script(judged["ground_truth_command_item"]).as_json(),
            "check": {"kind": "script", "script": check.as_json()},
            "skills": skills,
        },
    )


def _script(item: object) -> Script:
    values = _nested(item)
    named = values["command_name"]
    language = NAMED_LANGUAGES.get(str(named))
    if language is None:
        raise ValueError(f"scripts in {named!r} cannot be run; bash and python can")
    return read_script({"language": language, "code": values["script"]})


def _nested(value: object) -> Mapping[str, Any]:
    """An object, which Parquet files may hold as JSON text."""
    read = json.loads(value) if isinstance(value, str) else value
    if not isinstance(read, Mapping):
        raise TypeError(f"{type(read).__name__} stands where an object is expected")
    return read


def _nested_list(value: object) -> list[JSON]:
    read = json.loads(value) if isinstance(value, str) else value
    if not isinstance(read, list):
        raise TypeError("skill_list is not a list")
    return [str(one) for one in read]
