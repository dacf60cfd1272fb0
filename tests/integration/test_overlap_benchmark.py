"""The benchmark of overlapped steps, at a tiny size. Nothing here is timed."""

import itertools
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from practicum.core.task import Task

SCRIPT = str(Path(__file__).parents[2] / "benchmarks" / "overlap.py")
SIZES = ["--warm=1", "--steps=2", "--tasks=2", "--group=2", "--heldout=2", "--median=0.001"]


@pytest.mark.rare
def test_both_loops_make_episodes_and_are_compared_task_by_task(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [SCRIPT, *SIZES, "--threads=1", "--json"])
    with pytest.raises(SystemExit) as leave:
        runpy.run_path(SCRIPT, run_name="__main__")
    assert leave.value.code == 1  # two steps do not reach the bar
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    strict, overlapped = found["rows"]
    assert (strict["staleness"], overlapped["staleness"]) == (0, 2)
    assert strict["episodes"] >= 8
    assert overlapped["episodes"] >= 8
    assert strict["figures"]["staleness_max"] is None
    assert len(overlapped["difference"]) == 3


def test_waits_are_lognormal_and_the_same_for_the_same_seed() -> None:
    latency: Any = runpy.run_path(SCRIPT)["Latency"](median=0.2, sigma=0.7, seed=3)
    task = Task(id="a", env="e", split="train")
    once = list(itertools.islice(latency.of_episode(task, 1), 4000))
    assert once == list(itertools.islice(latency.of_episode(task, 1), 4000))
    assert once[:5] != list(itertools.islice(latency.of_episode(task, 2), 5))
    logs = np.log(once)
    assert np.mean(logs) == pytest.approx(np.log(0.2), abs=0.05)
    assert np.std(logs) == pytest.approx(0.7, abs=0.05)
