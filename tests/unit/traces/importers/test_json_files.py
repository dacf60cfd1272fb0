import json
import tracemalloc
from pathlib import Path

import pytest

from practicum.traces.importers import json_files
from practicum.traces.importers.json_files import array_items, parts_of_items, parts_of_lines
from practicum.traces.importers.records import Malformed

VALUES = [{"a": 1}, [1, [2]], 'x\n"y"', 12.5, 17, None, True, {"text": "ä€𝄞" * 50}, {}, []]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 1])
def test_items_are_read_whatever_the_chunks(
    chunk: int, indent: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_files, "CHUNK", chunk)
    path = tmp_path / "a.json"
    path.write_text(json.dumps(VALUES, indent=indent, ensure_ascii=False), encoding="utf-8")
    assert [item.value for item in array_items(path)] == VALUES
    path.write_text(
        json.dumps({"before": {"k": [1]}, "items": VALUES, "after": 2}, indent=indent),
        encoding="utf-8",
    )
    assert [item.value for item in array_items(path, "items")] == VALUES


def test_half_characters_of_items_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"a": ["x\\ud83dy", "\\ud83d\\ude00"]}]')
    assert [item.value for item in array_items(path)] == [{"a": ["x\ufffdy", "\U0001f600"]}]


def test_items_know_their_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[\n {"a":\n  1},\n\n 2, 3\n]\n')
    assert [item.line for item in array_items(path)] == [2, 5, 5]


@pytest.mark.parametrize(
    ("text", "good", "line", "reason"),
    [
        ("[1, 2", 2, 1, "two items are not parted by a comma: the end of the file"),
        ('[1,\n{"a": }]', 1, 2, "the JSON breaks off"),
        ("[1,\n2 3]", 2, 2, "two items are not parted by a comma: '3' is where ',' should be"),
        ("[1,\n]", 1, 2, "the JSON breaks off (Expecting value)"),
        ("[1]\n[2]", 1, 2, "something follows the JSON value"),
        ('{"a": 1}', 0, 1, "the file is not a JSON array"),
        ("", 0, 1, "the file is not a JSON array: the end of the file"),
        ('["' + "a" * 99, 0, 1, "the JSON breaks off (Unterminated string"),
    ],
)
def test_good_items_before_a_fault_are_kept(
    text: str, good: int, line: int, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    parts = list(parts_of_items(array_items(path), 0, lambda value: ()))
    assert len(parts) == good + 1
    assert (parts[-1].line, reason in parts[-1].problem) == (line, True)


def test_a_fault_early_in_a_long_file_is_found_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('[{"a": nonsense},' + '"x",' * 3_000_000 + "1]")
    tracemalloc.start()
    with pytest.raises(Malformed, match="breaks off"):
        list(array_items(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_lines_are_parts_and_blank_ones_are_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'1\n\n  \n"x"\nbroken\n\xff\xfe\n2')

    def convert(value: object) -> tuple[()]:
        if value == "x":
            raise Malformed("no x please")
        return ()

    parts = list(parts_of_lines(path, 0, convert))
    assert [(p.line, p.problem[:20]) for p in parts] == [
        (1, ""),
        (4, "no x please"),
        (5, "it is not JSON (Expe"),
        (6, "it is not UTF-8 text"),
        (7, ""),
    ]
    assert parts[-1].offset == path.stat().st_size
    for skip in range(6):
        assert list(parts_of_lines(path, skip, convert)) == parts[skip:]
