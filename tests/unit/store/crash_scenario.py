"""A run that keeps everything a trainer keeps, to be killed and resumed; started by test_crash.

    python crash_scenario.py FOLDER

For every failpoint, and for every time it is reached, a fork of this process is killed there in
`FOLDER/killed/<failpoint>/<n>`; a copy of what it left is then resumed, by a process that is not
killed, in `FOLDER/resumed/<failpoint>/<n>`. A run that nothing killed is in `FOLDER/whole`.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from practicum.core.config.parse_config import build_config
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Trace
from practicum.store import durable
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import EventLog
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

LAST_STEP = 3


def train(folder: Path) -> None:
    """Start the run in `folder` or go on with it, to its last step."""
    path = folder / "x"
    run = RunDir(path) if RunDir.is_run(path) else RunDir.create(folder, CONFIG, name="x")
    with run.hold():
        store = CheckpointStore(run.path)
        store.recover()
        latest = store.load_latest().checkpoint
        start = latest.step if latest else 0
        if latest:
            store.mark_best(json.loads((latest.path / "state.json").read_text())["best"])
        attempt = run.begin_attempt(from_step=start, threads=1, device="cpu").attempt
        with (
            EventLog(run.metrics_path, attempt=attempt, from_step=start) as metrics,
            SqliteTraceStore(run.traces_path) as traces,
        ):
            traces.begin_attempt(attempt, start)
            for step in range(start + 1, LAST_STEP + 1):
                traces.add_many(episodes(step), attempt=attempt, step=step, purpose="train")
                metrics.append("step", step=step, values={"loss": 1 / step})
                metrics.sync()
                save(store, step)
                log(folder, step)
            save(store, LAST_STEP)  # a step saved twice: the old one is displaced
            log(folder, LAST_STEP)


def save(store: CheckpointStore, step: int) -> None:
    def write(target: Path) -> None:
        (target / "adapter_model.safetensors").write_text(f"weights after {step} steps")
        (target / "state.json").write_text(json.dumps({"best": 1}))

    store.save(step, write, fingerprint=f"f{step}", keep=1)
    if step == 1:
        store.mark_best(step)


def episodes(step: int) -> list[Episode]:
    return [
        Episode(
            trace=Trace(id=f"{step}-{n}", task_id="t", env="math"),
            outcome=None,
            score=Score(components={"a": step / 3}),
        )
        for n in range(2)
    ]


def log(folder: Path, step: int) -> None:
    """Note, outside the run, that a step is saved: from here on it may not be lost."""
    with (folder / "saved").open("a") as file:
        file.write(f"{step}\n")


def in_a_fork(work: Callable[[], None]) -> int:
    """Do the work in another process; gives the signal that ended it, 0 if it ended by itself."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    assert os.WEXITSTATUS(status) == 0, "the work failed"
    return 0


def kill_everywhere(root: Path) -> None:
    """Kill the run at each failpoint as often as it is reached, and resume a copy of each."""
    for name in durable.FAILPOINTS:
        nth = 0
        while True:
            nth += 1
            killed = root / "killed" / name / str(nth)
            killed.mkdir(parents=True)

            def killed_run(setting: str = f"{name}:{nth}", folder: Path = killed) -> None:
                durable.arm(setting)
                train(folder)

            if in_a_fork(killed_run) != signal.SIGKILL:
                shutil.rmtree(killed)
                break
            resumed = root / "resumed" / name / str(nth)
            shutil.copytree(killed, resumed, symlinks=True)
            assert in_a_fork(lambda folder=resumed: train(folder)) == 0


if __name__ == "__main__":
    CONFIG = build_config({"env": "math"})
    root = Path(sys.argv[1])
    whole = root / "whole"
    whole.mkdir(parents=True)
    train(whole)
    kill_everywhere(root)
