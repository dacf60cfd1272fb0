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
    *("rollouts.tasks_per_step=8", "algorithm.lr=1e-3", "steps=16"),
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
def test_a_role_learns_from_what_it_is_paid(
    practicum: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert practicum(*WORDS, "--name", "both").code == 0
    run = tmp_path / "runs" / "both"
    # The tiny model cannot read the brief, so its drafts stay guesses, most of them wrong; that
    # a verdict of a wrong draft is "reject" it learns.
    first, last = (earned(run, "reviewer", steps) for steps in (range(1, 4), range(14, 17)))
    assert last > first + 0.2, (first, last)
    rows = [row for row in read_metrics(run / "metrics.jsonl")[0] if row.kind == "step"]
    assert len(rows) == 16
