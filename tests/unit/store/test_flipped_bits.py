"""Files in which one bit has changed: what is read is what was written, or is named as damaged."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.store.events import EventLog, read_metrics, read_rows
from practicum.store.trace_store import SqliteTraceStore

FLIPS = 200
"""Bits of a trace store that are tried; which ones follows from their number."""


def flip(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "metrics.jsonl"
    with EventLog(path, attempt=1, from_step=0) as log:
        for step in range(1, 6):
            values = {"loss": step / 7, "reward": -1.5, "success": {"value": 0.5, "n": 100}}
            log.append("step", step=step, values=values)
    return path


@given(place=st.floats(0, 1, exclude_max=True))
def test_a_flipped_bit_of_the_metrics_is_never_a_wrong_number(metrics: Path, place: float) -> None:
    content = metrics.read_bytes()
    written = {(row.kind, row.step): row for row in read_rows(metrics).rows}
    changed = metrics.with_name("changed.jsonl")
    changed.write_bytes(flip(content, int(place * len(content) * 8)))
    found = read_rows(changed)
    assert all(written[row.kind, row.step] == row for row in found.rows)
    assert len(found.rows) < len(written)
    assert found.damaged


def test_lines_of_older_versions_have_no_checksum_and_are_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "step", "attempt": 1, "step": 1, "time": 2.5, "loss": 0.5}\n')
    with EventLog(path, attempt=2, from_step=1) as log:
        log.append("step", step=2, values={"loss": 0.25})
    rows, damaged = read_metrics(path)
    assert [(row.step, row.values) for row in rows] == [(1, {"loss": 0.5}), (2, {"loss": 0.25})]
    assert damaged == []


@pytest.fixture
def stored(tmp_path: Path, make_episode: Callable[..., Episode]) -> Path:
    path = tmp_path / "traces.sqlite"
    with SqliteTraceStore(path) as store:
        store.begin_attempt(attempt=1, from_step=0)
        for step in range(1, 9):
            episodes = [make_episode(f"e{step}-{n}") for n in range(4)]
            store.add_many(episodes, attempt=1, step=step, purpose="train")
        store.begin_attempt(attempt=2, from_step=4)
        store.add_many([make_episode("again")], attempt=2, step=5, purpose="train")
        store.add_imported([make_episode("imported")])
        for n in range(4):
            label = Label(episode_id=f"e1-{n}", value=n / 4, author="ann", created_at=5.0 + n)
            store.add_label(label)
    return path


def everything(store: SqliteTraceStore) -> dict[str, Any]:
    """All that a store says, by what it says it of."""
    said: dict[str, Any] = {f"episode {e.trace.id}": e for e in store.episodes()}
    said |= {f"summary {s.id}": s for s in store.summaries()}
    said |= {f"label {label.episode_id}": label for label in store.labels()}
    said |= {f"found {f.summary.id}": f.summary for f in store.find(limit=1000)}
    said |= {f"got {name}": store.get(name) for name in ("again", "e1-1", "imported")}
    said["count"] = store.count_where("success = true or success = false or success = none")
    said["counts"] = store.counts_by("purpose")
    return said


@pytest.mark.parametrize("read_only", [True, False])
def test_a_flipped_bit_of_a_store_is_never_a_wrong_number(
    stored: Path, read_only: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with SqliteTraceStore(stored, read_only=True) as store:
        written = everything(store)
    content = stored.read_bytes()
    chance = random.Random(0)
    changed = stored.with_name("changed.sqlite")
    harmless = 0
    for _ in range(FLIPS):
        for leftover in stored.parent.glob("changed.sqlite*"):
            leftover.unlink()
        changed.write_bytes(flip(content, chance.randrange(len(content) * 8)))
        try:
            with SqliteTraceStore(changed, read_only=read_only) as store:
                found = everything(store)
                damaged = list(store.damaged)
        except UserError:  # one sentence about the whole file
            continue
        if not damaged:
            assert found == written
            harmless += 1
            continue
        assert "damaged and left out" in capfd.readouterr().err
        lost = written.keys() - found.keys()
        gone = {key for key in found if key.startswith("got ") and found[key] is None}
        kept = written.keys() - lost - gone - {"count", "counts"}
        # Without a row of `attempts`, steps that were repeated are there twice.
        if all(one.table != "attempts" for one in damaged):
            assert {key: found[key] for key in kept} == {key: written[key] for key in kept}
    assert harmless < FLIPS


def test_a_damaged_row_is_named_and_left_out_and_the_store_goes_on(
    stored: Path, make_episode: Callable[..., Episode], capfd: pytest.CaptureFixture[str]
) -> None:
    content = stored.read_bytes()
    place = content.index(b"e3-2\x03train") + 1
    stored.write_bytes(flip(content, place * 8))
    with SqliteTraceStore(stored) as store:
        (damaged,) = store.damaged
        assert damaged.table == "episodes"
        assert "e3-2" not in {s.id for s in store.summaries()}
        assert len(store.summaries(step=3)) == 3
        store.begin_attempt(attempt=3, from_step=8)
        store.add_many([make_episode("new")], attempt=3, step=9, purpose="train")
        assert store.get("new") == make_episode("new")
    assert str(damaged) in capfd.readouterr().err


def test_a_damaged_episode_is_named_and_left_out(
    stored: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = stored.read_bytes()
    place = content.index(b"\x78\x9c") + 40  # a zlib stream
    stored.write_bytes(flip(content, place * 8))
    with SqliteTraceStore(stored, read_only=True) as store:
        assert len(list(store.episodes())) == len(store.summaries()) - 1
        assert [one.table for one in store.damaged] == ["bodies"]
    assert "of bodies" in capfd.readouterr().err


def test_changed_rows_have_new_checksums(stored: Path) -> None:
    with SqliteTraceStore(stored) as store:
        (label,) = store.labels(episode_id="e1-1")
        store.remove_label(label)
        store.begin_attempt(attempt=2, from_step=3)
        store.rescore(list(store.query_rows("step = 2")))
    copy = shutil.copy(stored, stored.with_name("copy.sqlite"))
    with SqliteTraceStore(Path(copy), read_only=True) as store:
        assert store.damaged == []
