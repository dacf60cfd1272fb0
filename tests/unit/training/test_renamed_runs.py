"""A run whose folder is renamed, removed or replaced while it trains; then resumed."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.training.test_cancelled_runs import STEPS, Killed, resumed, save_every
from tests.unit.training.test_overlapped_steps import in_order, learned

from practicum.core.errors import FolderMoved
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog
from practicum.training.loop import read_state


def train(folder: Path, attempt: int, in_update: Callable[[int], None], every: int = 100) -> None:
    """Train from what the folder has, with something to happen in a step's update."""
    setup, state = resumed(folder, 1)
    save_every(setup, every)
    done = state.step if state else 0
    steps = iter(range(done + 1, STEPS + 1))
    setup.learner.work = lambda: in_update(next(steps))
    setup.train(folder, state, attempt=attempt)


def move(folder: Path, to: Path) -> Callable[[int], None]:
    return lambda step: folder.rename(to) and None if folder.is_dir() else None


@pytest.mark.parametrize("every", [1, 100], ids=["each step is saved", "only the last is"])
def test_a_run_whose_folder_is_renamed_stops_saved_and_goes_on_there(
    tmp_path: Path, every: int
) -> None:
    folder, moved = tmp_path / "x", tmp_path / "y"
    folder.mkdir()
    with pytest.raises(FolderMoved) as told:
        train(folder, 1, lambda step: move(folder, moved)(step) if step == 2 else None, every)
    assert str(folder) in str(told.value)
    assert str(told.value).endswith(f"practicum train --resume {moved}")
    assert not folder.exists()
    newest = CheckpointStore(moved).load_latest().checkpoint
    assert newest is not None
    assert read_state(newest.path).step == 2  # not even the step that was under way is lost
    train(moved, 2, lambda step: None, every)
    assert learned(moved) == in_order(STEPS)


def test_a_run_that_lost_its_name_to_another_folder_writes_nothing_there(tmp_path: Path) -> None:
    folder, moved = tmp_path / "x", tmp_path / "y"
    folder.mkdir()

    def replace(step: int) -> None:
        if step == 1:
            folder.rename(moved)
            folder.mkdir()

    with pytest.raises(FolderMoved):
        train(folder, 1, replace)
    assert list(folder.iterdir()) == []
    assert CheckpointStore(moved).steps() == [1]


def test_a_run_whose_folder_is_removed_stops_and_makes_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    with pytest.raises(FolderMoved, match="if it is still somewhere"):
        train(folder, 1, lambda step: shutil.rmtree(folder) if step == 1 else None)
    assert not folder.exists()


def test_a_folder_that_is_renamed_and_back_is_where_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    with EventLog(folder / "metrics.jsonl", attempt=1, from_step=0) as log:
        folder.rename(tmp_path / "y")
        with pytest.raises(FolderMoved) as told:
            log.check_place()
        assert told.value.now == tmp_path / "y"
        (tmp_path / "y").rename(folder)
        log.check_place()


EVENTS = st.tuples(st.sampled_from(["rename", "kill", "rename and kill"]), st.integers(1, STEPS))


@settings(max_examples=12)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.sampled_from([100, 2]))
def test_in_any_order_of_rename_kill_and_resume_one_folder_has_the_whole_run(
    events: list[tuple[str, int]], every: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "run0").mkdir()
        for attempt, event in enumerate([*events, None], start=1):
            (folder,) = root.iterdir()

            def happen(
                step: int, event: Any = event, folder: Path = folder, attempt: int = attempt
            ) -> None:
                if event is None or step != event[1]:
                    return
                if "rename" in event[0]:
                    folder.rename(root / f"run{attempt}")
                if "kill" in event[0]:
                    raise Killed

            try:
                train(folder, attempt, happen, every)
            except (FolderMoved, Killed):
                assert event is not None
            (folder,) = root.iterdir()  # there is always one folder, and it goes on
            for step in CheckpointStore(folder).steps():
                saved = CheckpointStore(folder).load(step).path
                assert json.loads((saved / "state.json").read_text())["step"] == step
                assert (saved / "weights").read_text() == f"w{step}"
        assert CheckpointStore(folder).steps()[-1] == STEPS
        assert learned(folder) == in_order(STEPS)
