import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.traces.importers.recognise import recognise
from practicum.traces.importers.records import Imported, Part

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"


@pytest.fixture
def examples() -> Path:
    return EXAMPLES


@pytest.fixture
def read() -> Callable[..., list[Imported]]:
    """All episodes of a file that has nothing wrong with it."""

    def read_all(path: Path, format: str = "") -> list[Imported]:
        known = recognise(path)
        if format:
            assert known.name == format
        parts = list(known.read(path, 0))
        assert [part.problem for part in parts if part.problem] == []
        return [one for part in parts for one in part.found]

    return read_all


@pytest.fixture
def parts_of(tmp_path: Path) -> Callable[..., list[Part]]:
    """The parts of a file with these lines, texts or values."""

    def read_parts(read: Callable[[Path, int], Any], *lines: Any, skip: int = 0) -> list[Part]:
        path = tmp_path / "given.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + "\n")
        return list(read(path, skip))

    return read_parts
