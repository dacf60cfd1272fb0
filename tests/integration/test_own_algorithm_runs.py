"""Whole runs by an algorithm of the user's own."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from practicum.core.errors import ConfigError

SMALL = (
    *("model=tiny", "rollouts.tasks_per_step=2", "rollouts.group_size=4"),
    *("rollouts.max_turns=3", "eval.n=0", "checkpoints.every=1", "env.level=1"),
)
MINE = """
from dataclasses import replace

import practicum as pr
from practicum.training.algorithms.grpo import Grpo


class Mine(Grpo):
    class Options(pr.GroupConfig):
        push: float = 1.0

    def own_loss(self, terms):
        report = super().own_loss(terms)
        return replace(report, loss=self.config.push * report.loss)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def adapter(run: str, step: int) -> bytes:
    return Path(
        "runs", run, "checkpoints", f"step_{step}", "adapter_model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_it_trains_as_the_method_it_equals_and_goes_on_after_a_stop(
    practicum: Any, here: Path
) -> None:
    grpo = practicum("train", "math", *SMALL, "steps=3", "--name", "grpo")
    assert grpo.code == 0, grpo.err
    own = practicum("train", "math", *SMALL, "steps=2", "algorithm=mine.py:Mine", "--name", "own")
    assert own.code == 0, own.err
    assert adapter("own", 2) == adapter("grpo", 2)
    saved = yaml.safe_load((here / "runs/own/config.yaml").read_text())["algorithm"]
    assert (saved["name"], saved["push"]) == ("mine.py:Mine", 1.0)
    (here / "mine.py").write_text(MINE.replace("push: float = 1.0", "push: float = 0.0"))
    again = practicum("train", "--resume", "runs/own", "steps=3")
    assert again.code == 0, again.err
    assert adapter("own", 3) == adapter("grpo", 3)  # with the default that the run began with
    listed = practicum("runs", "own")
    assert listed.code == 0
    (here / "mine.py").unlink()
    assert practicum("runs", "own").out == listed.out  # a run is shown without its code


@pytest.mark.slow
def test_another_option_gives_other_weights(practicum: Any, here: Path) -> None:
    words = ("train", "math", *SMALL, "steps=1", "algorithm=mine.py:Mine")
    for name, push in (("one", 1.0), ("none", 0.0)):
        answer = practicum(*words, f"algorithm.push={push}", "--name", name)
        assert answer.code == 0, answer.err
    assert adapter("one", 1) != adapter("none", 1)


def test_what_is_wrong_is_told_before_a_run_is_made(practicum: Any, here: Path) -> None:
    words = ("train", "math", *SMALL, "steps=1")
    for named, told in {
        "mine.py:Mine algorithm.pull=1": "algorithm.pull is not an option of mine.py:Mine, which",
        "mine.py:Yours": "mine.py has no class 'Yours'; it has Mine",
        "mine.py": "mine.py is a Python file; name a class in it: write mine.py:Mine",
        "gone.py:Mine": "there is no file gone.py; did you mean 'mine.py'?",
        "mine": "for one of your own write algorithm=FILE.py:Class",
    }.items():
        for more in ((), ("--dry-run",)):
            answer = practicum(*words, *f"algorithm={named}".split(), *more)
            assert answer.code == 2
            assert told in answer.sentence
    assert not (here / "runs").exists()


def test_a_policy_of_a_loop_of_ones_own_takes_it_too(here: Path) -> None:
    import practicum as pr

    with pytest.raises(ConfigError, match="is not an option of mine"):
        pr.Policy("math", model="tiny", algorithm={"name": "mine.py:Mine", "pull": 1})
