"""A record that is too long to be held in memory is told, and those around it are read."""

import json
from pathlib import Path

import pytest

from practicum.core import json_values
from practicum.core.errors import UserError
from practicum.core.json_values import MOST_BYTES
from practicum.environments.tasks_environment import read_tasks
from practicum.traces.datasets.dataset_reading import Fault, read_examples
from practicum.traces.importers import json_files
from practicum.traces.importers.json_files import array_items, parts_of_lines, whole_text
from practicum.traces.importers.records import Malformed
from practicum_envs.shell.user_data import read_lines

ROW = {"id": "a", "prompt": "?", "completion": "!"}


@pytest.fixture
def long_line(tmp_path: Path) -> Path:
    """Three lines; the second is a hole in the file, so that it takes no place on the disk."""
    path = tmp_path / "theirs.jsonl"
    with path.open("wb") as file:
        file.write(json.dumps(ROW).encode() + b"\n")
        file.seek(MOST_BYTES + 10, 1)
        file.write(b"\n" + json.dumps({**ROW, "id": "b"}).encode() + b"\n")
    return path


def test_an_import_tells_of_the_line_and_reads_the_others(long_line: Path) -> None:
    parts = list(parts_of_lines(long_line, 0, lambda value: ()))
    assert [(part.line, bool(part.problem)) for part in parts] == [
        (1, False),
        (2, True),
        (3, False),
    ]
    assert parts[1].problem == "it has more than 64 MiB, and is not read"
    assert parts[-1].offset == long_line.stat().st_size


def test_a_dataset_tells_of_the_line_and_reads_the_others(long_line: Path) -> None:
    faults: list[Fault] = []
    assert len(list(read_examples(long_line, faults.append))) == 2
    assert [fault.place for fault in faults] == [f"{long_line}:2"]


def test_tasks_are_refused_with_the_line(long_line: Path) -> None:
    for read in (lambda: read_tasks(str(long_line), "tasks", 0.2), lambda: read_lines(long_line)):
        with pytest.raises(UserError, match="line 2: it has more than 64 MiB"):
            read()


def test_a_long_item_of_an_array_and_a_long_file_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "theirs.json"
    path.write_bytes(b'["' + b"a" * (6 << 20) + b'"]')
    monkeypatch.setattr(json_files, "MOST_BYTES", 1 << 20)
    with pytest.raises(Malformed, match="it has more than"):
        whole_text(path)
    with pytest.raises(Malformed, match="it has more than"):
        list(array_items(path))


def test_lines_are_counted_whole_however_long(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n" + b"b" * 3_000_000 + b"\n" + b"c" * 3_000_000)
    with path.open("rb") as file:
        lengths = [length for _, length in json_values.lines_within(file, 10)]
    assert lengths == [2, 3_000_001, 3_000_000]
