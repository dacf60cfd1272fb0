"""The package that `practicum new` makes trains as it stands."""

from pathlib import Path
from typing import Any

import pytest

import practicum as pr


@pytest.mark.slow
@pytest.mark.rare
def test_the_untouched_package_is_sound_and_gains_on_held_out_tasks(
    practicum: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = practicum("new", "parcels")
    assert made.code == 0
    named = "parcels:ParcelsEnvironment"
    assert f"practicum tasks {named} --check 5" in made.out
    checked = practicum("tasks", named, "--check", "5")
    assert (checked.code, "all sound" in checked.out) == (0, True), checked.out
    trained = practicum("train", "parcels/tiny.yaml", "--name", "tiny")
    assert trained.code == 0, trained.err
    reports = pr.load("runs/tiny").evaluations
    before, after = reports[min(reports)], reports[max(reports)]
    assert before.success is not None
    assert after.success is not None
    assert before.success.n == after.success.n >= 20
    assert before.success.high < after.success.low


@pytest.mark.slow
def test_the_list_says_in_order_what_is_wrong_with_a_package(
    practicum: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    practicum("new", "crates")
    rewards = Path("crates/crates/rewards.py")
    rewards.write_text(rewards.read_text().replace("MISTAKE = -1.0", "MISTAKE = 2.0"))
    reference = Path("crates/crates/reference.py")
    reference.write_text(reference.read_text().replace("[*jobs[:-1], FINISH]", "solve(data)"))
    answer = practicum("tasks", "crates:CratesEnvironment", "--check", "5")
    assert answer.code == 1
    parts = [line[8:28].strip() for line in answer.out.splitlines() if line[:8].strip() in WORDS]
    assert parts == [
        *("tasks", "train and held-out", "session", "actions", "reference", "doing nothing"),
        *("near-misses", "random actions", "determinism", "rewards", "speed"),
    ]
    assert "wrong   near-misses" in answer.out
    assert "near-miss 1 is accepted" in answer.out
    assert "not sound" in answer.out


WORDS = ("ok", "wrong", "warning", "none")
