import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from practicum.core.errors import MissingExtra, UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.store.trace_export import export_kind, export_traces
from practicum.store.trace_store import SqliteTraceStore

MakeEpisode = Callable[..., Episode]


@pytest.fixture
def store(tmp_path: Path, make_episode: MakeEpisode) -> Iterator[SqliteTraceStore]:
    with SqliteTraceStore(tmp_path / "traces.sqlite") as opened:
        opened.add(make_episode("rollout"), attempt=1, step=1, purpose="train")
        opened.add_imported([make_episode(f"e{n}", value=n - 1.0) for n in range(3)])
        opened.add_label(Label(episode_id="e1", value=0.5, author="ada", created_at=1.0))
        yield opened


def test_each_line_holds_everything(store: SqliteTraceStore, tmp_path: Path) -> None:
    seen: list[int] = []
    out = tmp_path / "deep" / "all.jsonl"
    assert export_traces(store, out, "jsonl", on_episode=lambda: seen.append(1)) == 4
    assert len(seen) == 4
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["episode"]["trace"]["id"] for row in rows] == ["rollout", "e0", "e1", "e2"]
    assert [bool(row["identity"]) for row in rows] == [False, True, True, True]
    assert rows[2]["labels"][0]["author"] == "ada"
    assert set(rows[0]) == {"practicum", "episode", "task", "labels", "identity"}


def test_a_condition_chooses(store: SqliteTraceStore, tmp_path: Path) -> None:
    out = tmp_path / "some.json"
    assert export_traces(store, out, "json", where="success and score >= 1") == 2
    assert len(json.loads(out.read_text())) == 2
    assert export_traces(store, out, "json", where="id = nobody") == 0
    assert json.loads(out.read_text()) == []


def test_a_table_shows_what_is_in_the_records(store: SqliteTraceStore, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "dataset"
    assert export_traces(store, out, "hf", where="score > 0") == 2
    rows = parquet.read_table(out / "data" / "train.parquet").to_pylist()
    assert [(row["id"], row["score"], row["success"]) for row in rows] == [
        ("rollout", 1.0, True),
        ("e2", 1.0, True),
    ]
    assert [message["role"] for message in rows[0]["messages"]] == ["user", "assistant"]
    card = (out / "README.md").read_text()
    assert "path: data/train.parquet" in card
    assert "2 episodes that match `score > 0`" in card


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(
    store: SqliteTraceStore, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "all.jsonl").write_text("old")

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        export_traces(store, out / "all.jsonl", "jsonl", on_episode=fail)
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("all.jsonl", "old")]


def test_without_its_extra_parquet_says_what_to_type(
    store: SqliteTraceStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'practicum\[parquet\]'"):
        export_traces(store, tmp_path / "x.parquet", "parquet")


@pytest.mark.parametrize(
    ("out", "named", "kind"),
    [
        ("a.jsonl", "", "jsonl"),
        ("a.json", "", "json"),
        ("a.parquet", "", "parquet"),
        ("a", "", "hf"),
        ("a.b", "hf", "hf"),
        ("a.json", "jsonl", "jsonl"),
    ],
)
def test_the_name_says_what_is_written(out: str, named: str, kind: str) -> None:
    assert export_kind(Path(out), named) == kind


def test_a_name_that_says_nothing_is_refused() -> None:
    with pytest.raises(UserError, match=r"end it with \.jsonl, \.json, \.parquet, or add --to"):
        export_kind(Path("a.csv"))
