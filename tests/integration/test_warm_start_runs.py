"""Whole runs whose imitation ends once it has taught enough: killed around that, and resumed."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir

pytestmark = [pytest.mark.slow, pytest.mark.rare]

EASY = '''
from contextlib import asynccontextmanager
import practicum as pr

class Session:
    def prompt(self): return [pr.Message(role="user", content="left or right?")]
    def actions(self): return (pr.ActionForm(name="left"), pr.ActionForm(name="right"))
    async def act(self, text):
        self.paid = 1.0 if text == "left" else 0.5
        return pr.Observation(message=pr.Message(role="user", content="done"), terminated=True)
    async def outcome(self):
        return pr.Outcome(success=True, turn_rewards=(self.paid,))

class Easy:
    """Whatever is done solves it, and left pays more."""
    name = "easy"
    all_levels = (1,)
    class Options(pr.ConfigModel):
        """None."""
    def __init__(self, options): pass
    def tasks(self, split, seed):
        return (pr.Task(id=f"{split}-{n}", env="easy", split=split) for n in range(64))
    def reference(self, task): return ["left"]
    @asynccontextmanager
    async def open(self, task):
        yield Session()
'''
SETTINGS = (
    "model=tiny",
    "steps=6",
    "warm_start={name: reference, steps: 5, until: 0.5}",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=3",
    "eval.n=2",
    "checkpoints.every=1",
    "checkpoints.keep=9",
    "hardware.threads=1",
)
KILLED = """
import os, signal, sys
from practicum.cli.main import main
from practicum.store.run_dir import RunDir
from practicum.training import loop

save, replace = loop.save, RunDir.replace_config

def save_and_die(*parts, **how):
    saved = save(*parts, **how)
    if saved.step == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return saved

def die(*parts):
    os.kill(os.getpid(), signal.SIGKILL)

if sys.argv[1] == "saved":
    loop.save = save_and_die
else:
    RunDir.replace_config = die
sys.argv = ["practicum", *sys.argv[2:]]
main()
"""
"""The command line, killed when the end of imitation is saved, or before it is even written."""


def stages(run: Path) -> list[Any]:
    rows = read_metrics(RunDir(run).metrics_path).rows
    return [row.values["stage"] for row in rows if row.kind == "step"]


@pytest.mark.parametrize("when", ["saved", "before"])
def test_imitation_ends_where_it_has_taught_enough_also_in_a_killed_run(
    tmp_path: Path, practicum: Callable[..., Any], when: str
) -> None:
    (tmp_path / "easy.py").write_text(EASY)
    words = ["train", f"{tmp_path / 'easy.py'}:Easy", *SETTINGS, f"runs_dir={tmp_path}"]
    whole = practicum(*words, "--name", "whole")
    assert whole.code == 0, whole.err
    assert stages(tmp_path / "whole") == ["sft"] * 2 + ["grpo"] * 4
    assert "held-out after 2 steps" in whole.err
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, when, *words, "--name", "killed"],
        capture_output=True,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert killed.returncode == -9, killed.stderr[-2000:]
    assert practicum("train", "--resume", tmp_path / "killed").code == 0
    one, two = (RunDir(tmp_path / name) for name in ("whole", "killed"))
    assert stages(two.path) == stages(one.path)
    assert two.config().warm_start == one.config().warm_start
    last = Path("checkpoints") / "step_6" / "adapter_model.safetensors"
    assert (two.path / last).read_bytes() == (one.path / last).read_bytes()
