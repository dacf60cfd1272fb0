"""Steps are computed beside the event loop."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.engine.reference import (
    build_engine,
    build_fresh_policy,
    build_policy,
    random_requests,
    sample_all,
)
from tests.unit.engine.sampling.test_engine import assert_no_slot_is_lost
from tests.unit.engine.training_cases import batches_of, play
from torch.utils._python_dispatch import TorchDispatchMode

from practicum.engine.compute_thread import run_attended
from practicum.engine.decoder import dense_decode
from practicum.engine.policy import TorchPolicy
from practicum.engine.sampling import scheduler, token_sampler
from practicum.training.algorithms.grpo import Grpo


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return build_policy()


async def test_the_event_loop_goes_on_while_a_step_is_computed(
    policy: TorchPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that takes long holds nobody back who does not wait for a token."""
    engine = policy.sampler
    step = engine._step

    def slow_step() -> bool:
        time.sleep(0.05)
        return step()

    monkeypatch.setattr(engine, "_step", slow_step)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await sample_all(engine, random_requests(3, count=2))
    ticking.cancel()
    assert ticks >= 10


async def test_a_driver_that_is_cancelled_leaves_only_when_its_step_is_done(
    policy: TorchPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = build_engine(policy)
    running = threading.Event()
    step, after = engine._step, []

    def slow_step() -> bool:
        running.set()
        time.sleep(0.1)
        is_done = step()
        after.append(engine._driver.done() if engine._driver else None)
        return is_done

    monkeypatch.setattr(engine, "_step", slow_step)
    waiting = asyncio.ensure_future(sample_all(engine, random_requests(4, count=2)))
    while not running.is_set():
        await asyncio.sleep(0.001)
    assert engine._driver is not None
    engine._driver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert after == [False]
    monkeypatch.undo()
    requests = random_requests(5, count=3)
    assert await sample_all(engine, requests) == await sample_all(policy.sampler, requests)
    assert_no_slot_is_lost(engine)


class OperationsHere(TorchDispatchMode):
    """Notes what is computed in this thread and is not a mere view."""

    def __init__(self) -> None:
        super().__init__()
        self.large: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> torch.Tensor:
        """The operation as it is."""
        found: torch.Tensor = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor) and found.numel() > 500 and not func.is_view:
            self.large.add(str(func))
        return found


async def test_nothing_large_is_computed_in_the_caller_s_thread(tmp_path: Path) -> None:
    """A second team of OpenMP's makes every operation slow for as long as the process lives."""
    here = OperationsHere()
    with here:
        policy = build_fresh_policy()
        traces = await play(policy)
        policy.sampler.fingerprint()
        policy.learner.update(batches_of(traces), Grpo())
        policy.learner.save(tmp_path)
        policy.sampler.fingerprint()
    assert not here.large


def test_steps_give_way_to_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever Python works for every row or layer, and only in the thread that computes."""
    seen: dict[str, set[str]] = {}
    for module in (scheduler, token_sampler, dense_decode):

        def noted(name: str = module.__name__) -> None:
            seen.setdefault(name, set()).add(threading.current_thread().name)

        monkeypatch.setattr(module, "give_way", noted)
    engine = build_policy().sampler
    requests = random_requests(3, 12)
    attended = run_attended(sample_all(engine, requests))
    plain = asyncio.run(sample_all(engine, requests))
    assert [one.token_ids for one in attended] == [one.token_ids for one in plain]
    assert len(seen) == 3
    assert {name.partition("_")[0] for names in seen.values() for name in names} == {"compute"}
