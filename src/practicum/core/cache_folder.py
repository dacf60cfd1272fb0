"""The cache folders: for downloads, and for what sandboxes see."""

import os
from pathlib import Path


def cache_root() -> Path:
    """`$PRACTICUM_CACHE` if set, else `~/.cache/practicum`."""
    named = os.environ.get("PRACTICUM_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "practicum"


def sandbox_cache_root() -> Path:
    """Where root file systems and other folders that sandboxes see are cached.

    Unless `$PRACTICUM_CACHE` says so not in a home folder, which the host ids of sandboxes usually
    cannot enter.
    """
    if os.environ.get("PRACTICUM_CACHE"):
        return cache_root().absolute() / "sandboxes"
    if os.geteuid() == 0:
        return Path("/var/cache/practicum")
    return Path(f"/var/tmp/practicum-{os.geteuid()}")
