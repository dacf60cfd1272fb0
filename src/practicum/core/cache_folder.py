"""The cache folder for downloads."""

import os
from pathlib import Path


def cache_root() -> Path:
    """`$PRACTICUM_CACHE` if set, else `~/.cache/practicum`."""
    named = os.environ.get("PRACTICUM_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "practicum"
