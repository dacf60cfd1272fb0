import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.learning_together import (
    alone,
    learned_state,
    learning_together,
    whole_batch,
)

from practicum.core.sample import Batch
from practicum.engine.learning.micro_batches import divide
from practicum.training.algorithms.grpo import Grpo

pytestmark = pytest.mark.rare


def in_parts(batch: Batch, count: int) -> list[Batch]:
    """What each of so many processes has of it."""
    parts = [part for share in divide([batch], count) for part in share]
    assert len(parts) == count
    return parts


def test_a_checkpoint_moves_from_one_process_to_two_to_four_and_back(tmp_path: Path) -> None:
    """All the while with the bits of one process that accumulates the same parts."""
    one, stay = alone(tmp_path / "start"), alone(tmp_path / "again")
    sampled = [whole_batch(one, episodes=8, turns=3, temperature=1.0 + n) for n in range(4)]
    # They are of the first weights alone, so they are not compared with those of later ones.
    lessons = [replace(batch, term_checked=batch.term_weight < 0) for batch in sampled]
    for lesson, count in zip(lessons, (1, 2, 4, 1), strict=True):
        stay.learner.update(in_parts(lesson, count), Grpo())
    one.learner.update([lessons[0]], Grpo())
    at = tmp_path / "1"
    learned_state(one.learner, at)
    for count, lesson in ((2, lessons[1]), (4, lessons[2])):
        with learning_together(count) as several:
            several.start_from(at)
            read = learned_state(several.learner, tmp_path / f"{count} as read")
            assert read == {file.name: file.read_bytes() for file in sorted(at.iterdir())}
            several.learner.update([lesson], Grpo())
            at = tmp_path / str(count)
            learned_state(several.learner, at)
    one.learner.load(at)
    one.learner.update([lessons[3]], Grpo())
    assert one.learner.fingerprint() == stay.learner.fingerprint()
    assert learned_state(one.learner, tmp_path / "moved") == learned_state(
        stay.learner, tmp_path / "stayed"
    )


TRAIN = (
    *("-m", "practicum", "train", "math", "model=tiny", "warm_start=none", "eval.n=0"),
    *("rollouts.tasks_per_step=2", "rollouts.group_size=3", "rollouts.max_turns=3"),
    *("hardware.threads=1", "checkpoints.every=1"),
)


def replicas_of(process: "subprocess.Popen[bytes]") -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    named = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return [pid for pid, line in named.items() if line.endswith(b"practicum\0train\0")]


def wait_for(path: Path, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 300
    while not path.exists():
        assert process.poll() is None, "it ended early"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_process_ends_the_run_with_one_sentence_and_it_goes_on_in_one(
    tmp_path: Path,
) -> None:
    command = [sys.executable, *TRAIN, "steps=500", "--name", "a", "--processes", "3"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said)
        wait_for(tmp_path / "runs/a/checkpoints/step_2", process)
        first, second = replicas_of(process)
        os.kill(second, signal.SIGKILL)
        assert process.wait(120) == 1
    (told,) = re.findall("practicum: .*", (tmp_path / "said").read_text())
    assert f"process 2 (pid {second}) was killed by SIGKILL" in told
    assert not Path(f"/proc/{first}").exists()
    steps = max(
        int(p.name.removeprefix("step_")) for p in tmp_path.glob("runs/a/checkpoints/step_*")
    )
    resume = [sys.executable, "-m", "practicum", "train", "--resume", "runs/a"]
    words = [f"steps={steps + 2}", "--processes", "1"]
    done = subprocess.run([*resume, *words], cwd=tmp_path, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()


def test_torchrun_trains_one_run_with_the_bits_of_our_own_processes(tmp_path: Path) -> None:
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    words = (*TRAIN, "steps=2", "--name")
    started = {
        "ours": (*words, "ours", "--processes", "2"),
        "theirs": (*torchrun, *words, "theirs"),
    }
    for command in started.values():
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stderr.decode()
    assert {path.name for path in (tmp_path / "runs").iterdir()} >= set(started)
    files = [tmp_path / f"runs/{n}/checkpoints/step_2/adapter_model.safetensors" for n in started]
    assert files[0].read_bytes() == files[1].read_bytes()


APART = """
import sys
from practicum.core.errors import PracticumError
from practicum.engine.learning.process_group import ProcessGroup

rank, meeting = int(sys.argv[1]), sys.argv[2]
group = ProcessGroup(rank, 2, meeting)
assert group.gathered(lambda: rank) == [0, 1]

def work():
    group.gathered(lambda: rank)
    if rank:
        raise RuntimeError("of one process alone")
    return group.gathered(lambda: rank)

try:
    group.gathered(work)
except PracticumError as error:
    print(type(error).__name__, flush=True)
finally:
    group.leave()
"""


def test_an_error_of_one_process_alone_ends_the_others_and_is_taken_for_nothing_else(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", APART]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    both = [
        subprocess.Popen(
            [*command, str(rank), f"file://{tmp_path}/meeting"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    (told, _), (_, said) = (process.communicate(timeout=300) for process in both)
    assert told == b"ProcessLost\n"
    assert b"of one process alone" in said
    assert [process.returncode for process in both] == [0, 1]
