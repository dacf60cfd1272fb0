"""Trains the tiny model again and again, killed at every failpoint and at random moments.

Run as a script with a folder: it forks one child for each attempt, so that torch is loaded once.
`whole/x` is never killed; `again/x` is the same once more; `killed/<failpoint>/x` and
`random/<n>/x` are killed once and then resumed to the end. `stages/whole/x` goes through two stages
with a value head, and `stages/<step>/x` are killed as soon as that step is saved.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from practicum.assemble.build_policy import build_policy
from practicum.cli.main import main
from practicum.core.config.parse_config import build_config
from practicum.store.durable import FAILPOINTS, arm
from practicum.training import loop

SETTINGS = (
    "model=tiny",
    "steps=4",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=3",
    "rollouts.max_turns=3",
    "eval.n=4",
    "eval.every=2",
    "checkpoints.every=1",
    "checkpoints.keep=2",
    "hardware.threads=1",
)
RANDOM_KILLS = 2

STAGES = (
    "[{steps: 2, algorithm: {name: sft, batch: 2}, data: {source: reference, n: 5}},"
    " {steps: 2, algorithm: {name: ppo, epochs: 2, minibatches: 2, lr: 1e-3}}]"
)
STAGED = (*(word for word in SETTINGS if not word.startswith("steps=")), f"stages={STAGES}")
STAGE_KILLS = (1, 2, 3)
"""Inside the first stage, at the boundary, and inside the second."""


def train(words: Sequence[str]) -> None:
    sys.argv = ["practicum", "train", *words]
    main()


def fork(words: Sequence[str], *, failpoint: str = "", last_saved: int = 0) -> int:
    """Start a training in a child and give its pid."""
    pid = os.fork()
    if pid:
        return pid
    torch.set_num_threads(1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    if failpoint:
        arm(failpoint)
    if last_saved:
        die_after_saving(last_saved)
    try:
        train(words)
    except SystemExit as leave:
        os._exit(int(leave.code or 0))
    os._exit(70)


def wait(pid: int) -> int:
    """The exit code, or minus the signal."""
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def start(folder: Path, settings: Sequence[str] = SETTINGS) -> list[str]:
    folder.mkdir(parents=True)
    return ["math", *settings, f"runs_dir={folder}", "--name", "x"]


def finish(folder: Path) -> None:
    """Resume a killed run, or start again one that was killed before it existed."""
    if (folder / "x").exists():
        code = wait(fork(["--resume", str(folder / "x")]))
    else:
        code = wait(fork(["math", *SETTINGS, f"runs_dir={folder}", "--name", "x"]))
    assert code == 0, f"{folder}: resuming ended with {code}"


def warm_up() -> None:
    """Load once what every child needs; one thread, since a fork keeps only one."""
    torch.set_num_threads(1)
    policy = build_policy(
        build_config({"env": "math", "model": "tiny", "hardware": {"threads": 1}})
    )
    policy.learner.fingerprint()


def run_all(root: Path) -> None:
    warm_up()
    began = time.monotonic()
    for name in ("whole", "again"):
        code = wait(fork(start(root / name)))
        assert code == 0, f"{name} ended with {code}"
    duration = (time.monotonic() - began) / 2
    for name in FAILPOINTS:
        folder = root / "killed" / name
        code = wait(fork(start(folder), failpoint=name))
        (folder / "code").write_text(str(code))
        finish(folder)
    dice = random.Random(0)
    for number in range(RANDOM_KILLS):
        folder = root / "random" / str(number)
        code = kill_midway(folder, delay=dice.uniform(0.1, 0.9) * duration)
        (folder / "code").write_text(str(code))
        finish(folder)
    run_stages(root / "stages")


def run_stages(root: Path) -> None:
    """A run of two stages, whole and killed after some of its steps."""
    code = wait(fork(start(root / "whole", STAGED)))
    assert code == 0, f"the run of two stages ended with {code}"
    for step in STAGE_KILLS:
        folder = root / str(step)
        code = wait(fork(start(folder, STAGED), last_saved=step))
        (folder / "code").write_text(str(code))
        finish(folder)


def die_after_saving(step: int) -> None:
    """From now on the process kills itself as soon as it has saved that step."""
    save = loop.save

    def save_and_die(*parts: Any, **how: Any) -> Any:
        saved = save(*parts, **how)
        if saved.step == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return saved

    loop.save = save_and_die


def kill_midway(folder: Path, *, delay: float) -> int:
    """Kill a training after a while; one that was done by then is begun anew and killed sooner."""
    while True:
        pid = fork(start(folder))
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        code = wait(pid)
        if code != 0:
            return code
        shutil.rmtree(folder)
        delay /= 2


if __name__ == "__main__":
    run_all(Path(sys.argv[1]))
