"""What holds people's words can be read by its owner alone, whatever the umask."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.traces.datasets.test_files import build_varied
from tests.unit.traces.test_feedback import episode, label

from practicum.core.task import Task
from practicum.store.closed_rollouts import put_aside
from practicum.store.trace_export import ExportKind, export_traces
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.datasets.dataset_writing import write_dataset
from practicum.traces.feedback import gather_traffic
from practicum.traces.traffic import TrafficStore

ABOUT = {"README.md", "dataset.json"}
"""They say what a dataset is, and hold nothing that anybody said."""


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """The modes of what is in a folder and is not its owner's alone, and of all there is."""
    found = {path: path.stat().st_mode & 0o777 for path in sorted(folder.rglob("*"))}
    assert found
    return {
        str(path.relative_to(folder)): oct(mode)
        for path, mode in found.items()
        if mode != (0o700 if path.is_dir() else 0o600) and path.name not in ABOUT
    }


def fill(path: Path) -> None:
    with SqliteTraceStore(path) as store:
        store.add_imported([episode(1)], tasks=[Task(id="t1", env="traffic", split="train")])
        store.add_labels([label(1, 1.0, correction="something better")])


def test_traffic_is_private_while_it_is_written_and_copied(tmp_path: Path) -> None:
    store = TrafficStore(tmp_path / "traffic.sqlite")
    store.keep(episode(1), Task(id="t1", env="traffic", split="train"))
    store.label([label(1, 1.0)])
    assert {path.name for path in tmp_path.iterdir()} >= {
        "traffic.sqlite-wal",
        "traffic.sqlite-shm",
    }
    assert modes(tmp_path) == {}
    store.close()
    copy = tmp_path / "copy.sqlite"
    gather_traffic(tmp_path / "traffic.sqlite", copy, base="shop", fingerprint="")
    assert modes(tmp_path) == {}


def test_a_store_that_was_opened_to_others_stays_so(tmp_path: Path) -> None:
    fill(tmp_path / "t.sqlite")
    (tmp_path / "t.sqlite").chmod(0o640)
    with SqliteTraceStore(tmp_path / "t.sqlite") as store:
        assert store.count() == 1
    assert modes(tmp_path) == {"t.sqlite": "0o640"}


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "hf"])
def test_exports_are_private(kind: ExportKind, tmp_path: Path) -> None:
    fill(tmp_path / "t.sqlite")
    with SqliteTraceStore(tmp_path / "t.sqlite") as store:
        assert export_traces(store, tmp_path / "new" / "out", kind) == 1
    assert modes(tmp_path) == {}


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_datasets_are_private(form: str, tmp_path: Path) -> None:
    write_dataset(build_varied("kto"), tmp_path / "d", form=form, question={})
    assert modes(tmp_path) == {}


def test_what_a_store_does_not_take_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "practicum traces import" in put_aside(episode(1), "the disk is full")
    assert modes(tmp_path) == {}
