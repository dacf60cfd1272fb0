"""Ctrl-C while an update computes, in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gc, sys, threading, time

from practicum.cli.main import main
from practicum.training.loop import InterruptGate


def is_updating():
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        while frame is not None and threads.get(ident, "").startswith("compute"):
            code = frame.f_code  # progress bars of loading have an `update` too
            if code.co_name == "update" and code.co_filename.endswith("learner.py"):
                return True
            frame = frame.f_back
    return False


def tell():
    while not is_updating():
        time.sleep(0.01)
    print("updating", flush=True)
    [gate] = [found for found in gc.get_objects() if isinstance(found, InterruptGate)]
    until = time.monotonic() + 240.0
    while not gate.asked and time.monotonic() < until:
        time.sleep(0.01)
    print("asked" if gate.asked and is_updating() else "not asked", flush=True)


threading.Thread(target=tell, daemon=True).start()
main()
"""


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("staleness", [0, 1], ids=["strict", "overlapped"])
def test_a_second_ctrl_c_during_an_update_ends_the_process(tmp_path: Path, staleness: int) -> None:
    words = (
        "train math model=tiny steps=2 eval.before=false eval.n=1 hardware.threads=1 "
        "rollouts.tasks_per_step=2 rollouts.group_size=4 rollouts.max_turns=3 "
        "rollouts.replace_flat_groups=3 algorithm.epochs=1000000"
    )
    more = [f"rollouts.staleness={staleness}", f"runs_dir={tmp_path}", "--name", "x"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words.split(), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "updating\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "asked\n"
        assert process.poll() is None  # once is not enough: the update is to be finished
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in said


INTERACTIVE = """
import asyncio, os, signal, sys

from practicum.training.loop import InterruptGate

sys.ps1 = ">>> "


async def press_twice():
    with InterruptGate().listening():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


try:
    asyncio.run(press_twice())
except KeyboardInterrupt:
    print("goes on")
"""


def test_an_interactive_session_outlives_a_second_ctrl_c() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERACTIVE], capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr
