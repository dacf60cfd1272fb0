"""A run that is cancelled, as by a notebook's interrupt, or killed, at any point; then resumed."""

import asyncio
import tempfile
import threading
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.training.overlapped_cases import Setup
from tests.unit.training.test_overlapped_steps import in_order, learned

from practicum.store.checkpoints import CheckpointStore
from practicum.training.loop import read_state, to_its_end

STEPS = 3


class Killed(BaseException):
    """Ends a run as a kill does: nothing is saved."""


class Ending:
    """Ends a run in its nth update, or at its nth episode."""

    def __init__(self, setup: Setup, how: str, nth: int) -> None:
        self._setup, self._how, self._left = setup, how, nth
        if how.endswith("update"):
            setup.learner.work = self._in_update
        else:
            setup.episodes = Told(self._at_episode)  # type: ignore[assignment]
            setup.__post_init__()

    async def around(self, work: Awaitable[Any]) -> Any:
        self._loop, self._main = asyncio.get_running_loop(), asyncio.ensure_future(work)
        return await self._main

    def _is_now(self) -> bool:
        self._left -= 1
        return self._left == 0

    def _in_update(self) -> None:
        if not self._is_now():
            return
        if self._how == "kill in update":
            raise Killed
        told = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (self._main.cancel(), told.set()))
        told.wait()

    def _at_episode(self) -> None:
        if self._is_now():
            self._main.cancel()


class Told(list[Any]):
    """A list that tells of what is appended."""

    def __init__(self, tell: Any) -> None:
        super().__init__()
        self._tell = tell

    def append(self, item: Any) -> None:
        super().append(item)
        self._tell()


def resumed(folder: Path, staleness: int) -> tuple[Setup, Any]:
    """The run as it goes on from its newest checkpoint, and the loop's state there."""
    setup = Setup(lambda task: 0.0, staleness=staleness, steps=STEPS)
    found = CheckpointStore(folder).load_latest().checkpoint
    if found is None:
        return setup, None
    setup.weights.updates = int((found.path / "weights").read_text().removeprefix("w"))
    return setup, read_state(found.path)


def save_every(setup: Setup, every: int) -> None:
    checkpoints = setup.config.checkpoints.model_copy(update={"every": every})
    setup.config = setup.config.model_copy(update={"checkpoints": checkpoints})


ENDINGS = st.tuples(
    st.sampled_from(["cancel in update", "kill in update", "cancel at episode"]),
    st.integers(1, 2 * STEPS),
)


@settings(max_examples=12)
@given(st.lists(ENDINGS, min_size=1, max_size=3), st.integers(1, 2), st.sampled_from([100, 2]))
def test_whenever_it_is_cancelled_or_killed_a_checkpoint_holds_the_weights_of_its_name(
    endings: list[tuple[str, int]], staleness: int, every: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for attempt, ending in enumerate([*endings, None], start=1):
            setup, state = resumed(folder, staleness)
            around = Ending(setup, *ending).around if ending else lambda work: work
            save_every(setup, every)
            try:
                setup.train(folder, state, attempt=attempt, around=around)
            except (asyncio.CancelledError, Killed):
                assert ending is not None
            for step in CheckpointStore(folder).steps():
                saved = CheckpointStore(folder).load(step)
                assert (saved.path / "weights").read_text() == f"w{step}"
                assert read_state(saved.path).step == step
        assert setup.weights.updates == STEPS  # every step was trained once
        assert learned(folder) == in_order(STEPS)


def test_a_cancelled_update_is_recorded_and_saved_as_the_step_that_it_is(tmp_path: Path) -> None:
    setup = Setup(lambda task: 0.0, staleness=1, steps=STEPS)
    save_every(setup, 100)
    with pytest.raises(asyncio.CancelledError):
        setup.train(tmp_path, around=Ending(setup, "cancel in update", 2).around)
    assert CheckpointStore(tmp_path).steps() == [2]
    assert (CheckpointStore(tmp_path).load(2).path / "weights").read_text() == "w2"


def test_work_is_awaited_to_its_end_however_often_that_is_cancelled() -> None:
    done = []

    async def work() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        done.append(True)

    async def cancelled_thrice() -> None:
        job = asyncio.ensure_future(to_its_end(work()))
        for _ in range(3):
            await asyncio.sleep(0)
            job.cancel()
        await job

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled_thrice())
    assert done == [True]
