from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.sample import Episode
from practicum.store.trace_store import SqliteTraceStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.sqlite"


@pytest.fixture
def stored(path: Path) -> Callable[[], list[Episode]]:
    """The episodes that have been recorded."""

    def read() -> list[Episode]:
        with SqliteTraceStore(path, read_only=True) as store:
            return list(store.query())

    return read


@pytest.fixture
def said() -> Callable[[Episode], list[tuple[str, str]]]:
    """Who said what in an episode."""
    return lambda episode: [(m.role, m.content) for m in episode.trace.messages()]
