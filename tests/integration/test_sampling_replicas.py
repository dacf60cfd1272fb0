"""Replicas that a run starts: lost in the middle of a step, and when the run itself is killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from practicum.samplers.policy_elsewhere import PolicyElsewhere
from practicum.workflows.own_loop import Policy

DEADLINE_S = 300


async def until(met: Any) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not met():
            await asyncio.sleep(0.01)


def children_of(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in listed.read_text().split()] if listed.exists() else []


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.rare
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks up processes in /proc")
async def test_a_replica_of_the_run_that_is_killed_is_started_again_and_the_step_goes_on() -> None:
    policy = Policy(
        "math",
        model="tiny",
        lora="light",
        sampler={"kind": "practicum", "replicas": 1},
        **{"env.level": 4, "rollouts.max_turns": 3, "algorithm.lr": 0.01},
    )
    assert isinstance(policy._live, PolicyElsewhere)
    pool = policy._live._pool
    [member] = pool._members
    assert member.process is not None
    keeper = member.process.pid
    assert keeper is not None
    tasks = list(islice(policy.environment.tasks("train", seed=0), 2))
    rolling = asyncio.create_task(policy.roll_out(tasks, group_size=4))
    await until(lambda: pool.counts.completions >= 10)
    [replica] = children_of(keeper)
    os.kill(replica, signal.SIGKILL)
    groups = await asyncio.wait_for(rolling, DEADLINE_S)
    assert pool.counts.lost == pool.counts.returned == 1
    assert [len(group.usable) for group in groups] == [4, 4]
    assert await policy.update(groups) is not None
    keeper = member.process.pid
    assert keeper is not None
    [replica] = children_of(keeper)
    await policy.close()
    assert not runs(replica)
    assert not runs(keeper)


KILLED = """
import json, sys, time
from practicum.samplers.replica_process import ReplicaProcess

program = "import time, subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; " \\
    "time.sleep(600)']); time.sleep(600)"
process = ReplicaProcess(lambda port: [sys.executable, "-c", program], {}, 60.0)
process.start()
print(json.dumps([process.pid, str(process._log)]), flush=True)
time.sleep(600)
"""


@pytest.mark.rare
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks up processes in /proc")
async def test_what_a_killed_run_has_started_ends_with_it() -> None:
    run = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    with run.stdout:
        keeper, log = json.loads(run.stdout.readline())
        await until(lambda: children_of(keeper) and children_of(children_of(keeper)[0]))
        [replica] = children_of(keeper)
        [grandchild] = children_of(replica)
        run.kill()
        run.wait()
    await until(lambda: not any(map(runs, (keeper, replica, grandchild))))
    Path(log).unlink()
