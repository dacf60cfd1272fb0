import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.store.events import EventLog, read_metrics, read_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def write_steps(path: Path, attempt: int, from_step: int, to_step: int) -> None:
    with EventLog(path, attempt=attempt, from_step=from_step) as log:
        for step in range(from_step + 1, to_step + 1):
            log.append("step", step=step, values={"loss": attempt + step / 10})


def test_rows_come_back_in_order_with_their_values(path: Path) -> None:
    write_steps(path, attempt=1, from_step=0, to_step=3)
    rows, damaged = read_metrics(path)
    assert [(r.kind, r.attempt, r.step, r.values["loss"]) for r in rows] == [
        ("step", 1, 1, 1.1),
        ("step", 1, 2, 1.2),
        ("step", 1, 3, 1.3),
    ]
    assert damaged == []


def test_a_file_that_is_not_there_has_no_rows(path: Path) -> None:
    assert read_metrics(path) == ([], [])


def test_a_replayed_step_is_counted_once(path: Path) -> None:
    write_steps(path, attempt=1, from_step=0, to_step=4)
    write_steps(path, attempt=2, from_step=2, to_step=3)
    assert [(r.attempt, r.step) for r in read_metrics(path).rows] == [(1, 1), (1, 2), (2, 3)]
    assert [r.step for r in read_rows(path).rows if r.kind == "step"] == [1, 2, 3, 4, 3]


def test_a_resumed_run_drops_what_was_rolled_back_before_it_writes_a_step(path: Path) -> None:
    write_steps(path, attempt=1, from_step=0, to_step=4)
    write_steps(path, attempt=2, from_step=2, to_step=2)
    assert [r.step for r in read_metrics(path).rows] == [1, 2]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_line_is_skipped_by_readers(path: Path, cut: int) -> None:
    write_steps(path, attempt=1, from_step=0, to_step=3)
    path.write_bytes(path.read_bytes()[:-cut])
    rows, damaged = read_metrics(path)
    assert [r.step for r in rows] == [1, 2]
    assert damaged == []


def test_the_next_writer_cuts_a_torn_last_line_off(path: Path) -> None:
    write_steps(path, attempt=1, from_step=0, to_step=3)
    path.write_bytes(path.read_bytes()[:-5])
    write_steps(path, attempt=2, from_step=2, to_step=3)
    rows, damaged = read_metrics(path)
    assert [(r.attempt, r.step) for r in rows] == [(1, 1), (1, 2), (2, 3)]
    assert damaged == []


@pytest.mark.parametrize("damage", [b'{"kind": "st', b"", b"[1]", b'{"kind": "step"}', b"\xff\xfe"])
def test_a_damaged_middle_line_is_reported_and_the_others_are_read(
    path: Path, damage: bytes
) -> None:
    write_steps(path, attempt=1, from_step=0, to_step=3)
    lines = path.read_bytes().split(b"\n")
    lines[2] = damage
    path.write_bytes(b"\n".join(lines))
    rows, damaged = read_metrics(path)
    assert [r.step for r in rows] == [1, 3]
    assert [line.number for line in damaged] == [3]


def test_numbers_that_are_not_finite_are_written_as_null(path: Path) -> None:
    with EventLog(path, attempt=1, from_step=0) as log:
        log.append("step", step=1, values={"loss": math.nan, "by_level": [math.inf, {"a": 1.5}]})
    text = path.read_text().splitlines()[-1]

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    values = json.loads(text, parse_constant=refuse)
    assert (values["loss"], values["by_level"]) == (None, [None, {"a": 1.5}])


def test_a_value_may_not_take_the_name_of_what_every_row_has(path: Path) -> None:
    with (
        EventLog(path, attempt=1, from_step=0) as log,
        pytest.raises(ValueError, match=r"\['step'\]"),
    ):
        log.append("step", step=1, values={"step": 2})


def test_a_full_disk_is_one_sentence_and_leaves_no_torn_line(small_disk: Path) -> None:
    path = small_disk / "metrics.jsonl"
    with EventLog(path, attempt=1, from_step=0) as log:
        log.append("step", step=1, values={})
        with pytest.raises(UserError, match="the disk is full"):
            log.append("step", step=2, values={"text": "x" * 2_000_000})
        log.append("step", step=3, values={})
    assert [r.step for r in read_metrics(path).rows] == [1, 3]


def test_rows_written_before_a_kill_are_all_there(path: Path) -> None:
    code = f"""
from pathlib import Path
from practicum.store.events import EventLog
log = EventLog(Path({str(path)!r}), attempt=1, from_step=0)
step = 0
while True:
    step += 1
    log.append("step", step=step, values={{"text": "x" * 1000}})
    print(step, flush=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    while int(writer.stdout.readline()) < 50:
        pass
    writer.send_signal(signal.SIGKILL)
    last = [int(line) for line in writer.stdout.read().split()]
    writer.stdout.close()
    writer.wait()
    rows, damaged = read_metrics(path)
    steps = [r.step for r in rows]
    assert damaged == []
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= max(last, default=50)
