"""A writer and a reviewer practise in one episode, each paid by the turn."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from practicum.store.events import read_metrics
from practicum.store.trace_store import SqliteTraceStore

REVIEW = str(Path(__file__).parents[2] / "examples" / "05_roles.py:ReviewEnvironment")
WORDS = (
    *("train", REVIEW, "model=tiny", "warm_start=none", "eval.n=2", "hardware.threads=1"),
    *("rollouts.tasks_per_step=8", "algorithm.lr=1e-3", "steps=40", "seed=1"),
)


def earned(run: Path, role: str, steps: range) -> float:
    """What a turn of a role was paid, on average."""
    with SqliteTraceStore(run / "traces.sqlite", read_only=True) as store:
        episodes = [e for step in steps for e in store.episodes(step=step, purpose="train")]
    return fmean(
        paid
        for e in episodes
        if e.outcome is not None
        for paid, name in zip(e.outcome.turn_rewards, e.turn_roles, strict=True)
        if name == role
    )


@pytest.mark.slow
@pytest.mark.rare
def test_the_writer_learns_from_what_its_own_turns_are_paid(
    practicum: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert practicum(*WORDS, "--name", "both").code == 0
    run = tmp_path / "runs" / "both"
    first, last = (earned(run, "writer", steps) for steps in (range(1, 4), range(38, 41)))
    assert last > first + 0.4, (first, last)
    rows = [row for row in read_metrics(run / "metrics.jsonl")[0] if row.kind == "step"]
    assert len(rows) == 40
