import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.traces.importers import import_practicum
from practicum.traces.importers.records import Imported, Part


def test_records_come_back_whole(examples: Path, read: Callable[..., list[Imported]]) -> None:
    rollout, recorded = read(examples / "practicum.jsonl", "practicum")
    assert rollout.episode.trace.has_logprobs
    assert rollout.episode.trace.nodes[3].sampled is not None
    assert rollout.episode.trace.nodes[3].sampled.choices == ((23, 25), (24,))
    assert (rollout.task.level, rollout.task.data) == (1, {"equation": "3x = 9"})
    assert rollout.episode.score.turn_values == (0.5, 3.0)
    assert rollout.identity == ""
    assert recorded.identity.startswith("hash:")
    assert [(one.value, one.author, one.note) for one in recorded.labels] == [(1.0, "ada", "right")]
    assert recorded.episode.score.value is None


def test_a_json_array_gives_the_same(
    examples: Path, tmp_path: Path, read: Callable[..., list[Imported]]
) -> None:
    lines = (examples / "practicum.jsonl").read_text().splitlines()
    path = tmp_path / "all.json"
    path.write_text("[" + ",\n".join(lines) + "]")
    assert read(path, "practicum") == read(examples / "practicum.jsonl")


def changed(record: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(record))
    at: Any = copy
    *walk, last = path.split(".")
    for key in walk:
        at = at[int(key) if key.isdigit() else key]
    at[last] = value
    result: dict[str, Any] = copy
    return result


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("practicum", 2, 'its "practicum" is 2, and this version reads up to 1'),
        ("practicum", "x", "reads up to 1"),
        ("episode.trace.nodes.0.token_ids", "abc", "trace.nodes.0.token_ids: Input should be"),
        ("episode.trace.stop", "bored", "trace.stop: Input should be 'finished'"),
        ("episode.trace.nodes.1.parent", 1, "node 1 follows node 1, which is not before it"),
        ("episode.trace.nodes.1.parent", -1, "node 1 follows node -1"),
        ("episode.trace.nodes.1.token_ids", [1], "node 1 has not one log-probability for each"),
        ("episode", None, "the record: Input should be a dictionary or an instance of Episode"),
        ("labels", [{"episode_id": "a"}], "value: Field required"),
        ("identity", "hash:xyz", "its identity is 'hash:xyz'"),
    ],
)
def test_a_record_that_was_meddled_with_says_where(
    path: str, value: Any, reason: str, examples: Path, parts_of: Callable[..., list[Part]]
) -> None:
    record = json.loads((examples / "practicum.jsonl").read_text().splitlines()[0])
    bad, good = parts_of(import_practicum.read, changed(record, path, value), record)
    assert reason in bad.problem
    assert good.found


def test_a_label_out_of_range_is_named(examples: Path, parts_of: Callable[..., list[Part]]) -> None:
    record = json.loads((examples / "practicum.jsonl").read_text().splitlines()[1])
    (bad,) = parts_of(import_practicum.read, changed(record, "labels.0.value", 7))
    assert "a label is 7" in bad.problem


def test_another_parquet_file_is_refused_in_a_sentence(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"a": [1]}), path)
    (part,) = import_practicum.read(path, 0)
    assert "has no column 'record'" in part.problem
    path.write_bytes(b"PAR1 and then nonsense")
    (part,) = import_practicum.read(path, 0)
    assert part.problem.startswith("the Parquet file cannot be read")
