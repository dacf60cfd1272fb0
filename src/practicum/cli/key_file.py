"""The file of `practicum serve --keys`: who may use the server, and how much."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from practicum.cli.serving_keys import check_key, read_private
from practicum.core.config.config_sections import ConfigModel
from practicum.core.config.parse_config import explain, parse_yaml
from practicum.core.errors import UserError
from practicum.core.model_names import model_name

if TYPE_CHECKING:
    from practicum.workflows.served import ApiKey, KeySource


class KeyEntry(ConfigModel):
    """One key."""

    name: str = Field(min_length=1, max_length=100)
    """Of the client, as logs have it."""
    key: str
    requests_per_minute: int = Field(default=0, ge=0)
    """0: no limit."""
    tokens_per_minute: int = Field(default=0, ge=0)
    """Tokens of prompts and answers together; 0: no limit."""
    models: tuple[str, ...] = ()
    """Names of models that it may use; all where there is none."""


class KeyFile(ConfigModel):
    """The whole file."""

    keys: list[KeyEntry] = Field(min_length=1)


KEY_VARIABLE = "PRACTICUM_SERVE_KEY"
"""Environment variable that may hold the one key, where a file is unhandy, as in a container."""


def read_keys(path: Path | None, models: list[str]) -> "tuple[ApiKey, ...]":
    """The keys of a file, or the one in the environment variable; none where neither is given."""
    from practicum.workflows.served import ApiKey

    if path is not None:
        return read_key_file(path, models)
    given = os.environ.get(KEY_VARIABLE, "")
    if not given:
        return ()
    check_key(given, KEY_VARIABLE)
    return (ApiKey(name="default", key=given),)


def key_file(path: Path | None, models: list[str]) -> "KeySource[tuple[ApiKey, ...]] | None":
    """The file, to be read again when it changes; None where the keys came from elsewhere."""
    from practicum.workflows.served import KeySource

    return None if path is None else KeySource(path=path, read=lambda: read_key_file(path, models))


def read_key_file(path: Path, models: list[str]) -> "tuple[ApiKey, ...]":
    """The keys in a file that nobody else can read; `models` are the names that are served."""
    from practicum.workflows.served import ApiKey

    try:
        entries = KeyFile.model_validate(parse_yaml(read_private(path), str(path))).keys
    except ValidationError as error:
        raise UserError(f"{path}: {explain(error, KeyFile)}") from None
    for what in ("name", "key"):
        values = [getattr(entry, what) for entry in entries]
        if len(set(values)) < len(values):
            raise UserError(f"{path} has two keys with the same {what}; give each its own")
    for entry in entries:
        check_key(entry.key, f"{path} ({entry.name})")
        stray = [name for name in _served_names(entry, models) if name not in models]
        if stray:
            raise UserError(
                f"{path} gives {entry.name!r} the model {stray[0]!r}, which is not served; "
                f"served are {', '.join(models)}"
            )
    fields: list[dict[str, Any]] = [
        entry.model_dump() | {"models": _served_names(entry, models)} for entry in entries
    ]
    return tuple(ApiKey(**entry) for entry in fields)


def _served_names(entry: KeyEntry, models: list[str]) -> tuple[str, ...]:
    """The names of its models as they are served: a hub id names a known model too."""
    return tuple(name if name in models else model_name(name) for name in entry.models)
