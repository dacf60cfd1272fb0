"""Whether a policy can hide its failures in the shell environment.

Scripted policies do nothing of each task and then try to stop its checker: they fill the machine's
memory, put a FIFO or an endless file in place of what is judged, fork without end while it is
judged, delete what the checker reads. A checker that fails by itself masks its episode, and masked
episodes are in no held-out score, so each of these must come out as a failure, with nothing masked.
Half of the tasks are generated, half are checked by scripts, as in LifelongAgentBench.

    python benchmarks/hidden_failures.py --tasks 50
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from itertools import islice

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts, run_groups
from practicum.assemble.environments import open_environment
from practicum.core.config.config_sections import EnvConfig
from practicum.core.sampling import ActionForm
from practicum.core.task import Task
from practicum.environments.shell.shell_environment import ShellEnvironment
from practicum.evaluation.evaluate import task_result
from practicum.evaluation.report import build_report
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import OutcomeReward

HOG = """
import os, time
for size in range(900, 0, -6):
    ready, done = os.pipe()
    if os.fork() == 0:
        held = bytearray(size << 20)
        held[::4096] = b"x" * len(held[::4096])
        os.write(done, b".")
        time.sleep(9999)
    os.close(done)
    if os.read(ready, 1):
        time.sleep(9999)
"""
IN_BACKGROUND = "</dev/null >/dev/null 2>&1 &"

TRICKS = {
    "simply fails": "true",
    "memory hog": f"setsid python3 -c '{HOG}' {IN_BACKGROUND}\nsleep 3",
    "FIFO": "for f in JUDGED; do rm -rf $f; mkdir -p $(dirname $f); mkfifo $f; done",
    "endless file": "for f in JUDGED; do rm -rf $f; mkdir -p ${f%/*}; ln -s /dev/zero $f; done",
    "fork bomb": f"setsid bash -c 'sleep 0.5; b() {{ b | b & }}; b' {IN_BACKGROUND}\nsleep 0.45",
    "deleted inputs": "rm -rf /srv /root /home /opt /var /etc /tmp",
    "full disk": "cat /dev/zero > /root/zero; for n in $(seq 5000); do : > /root/$n; done",
}
"""What each policy does after it has failed; JUDGED stands for the files that are judged."""

WORKERS = 8
"""Machines open together."""


def scripted_tasks(count: int) -> list[Task]:
    """Tasks whose checker is a script that reads what the set-up and the policy left."""
    return [
        Task(
            id=f"sorted-{number}",
            env="shell",
            split="heldout",
            instruction="Sort the lines of /srv/in into /srv/out.",
            data={
                "source": "written",
                "setup": f"mkdir -p /srv && seq {10 + number} | tac > /srv/in",
                "reference": "sort -n /srv/in > /srv/out",
                "check": {"kind": "script", "script": "sort -n /srv/in | cmp - /srv/out"},
            },
        )
        for number in range(count)
    ]


def judged_files(task: Task) -> list[str]:
    """The files that the checker of a task looks at."""
    check = task.data["check"]
    assert isinstance(check, dict)
    listed = check.get("assertions", [])
    assert isinstance(listed, list)
    found = {str(one["path"]) for one in listed if isinstance(one, dict) and "path" in one}
    return sorted(found) or ["/srv/in", "/srv/out"]


async def play(
    shell: ShellEnvironment, tasks: Sequence[Task], trick: str
) -> tuple[float | None, int, int]:
    """Success, masked attempts and attempts of a policy that does this and gives up."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        script = TRICKS[trick].replace("JUDGED", " ".join(judged_files(task)))
        turns = iter([shell.turn_from_line(script), "Act: finish"])

        def choose(actions: tuple[ActionForm, ...]) -> str:
            return next(turns)

        return ScriptedConversation(choose, name=trick)

    parts = RolloutParts(
        environment=shell,
        agent=DiscreteAgent(max_turns=5),
        reward=OutcomeReward(),
        converse=converse,
        slots=asyncio.Semaphore(WORKERS),
    )
    groups = await run_groups(parts, tasks, 1, label="hide", seed=0)
    report = build_report(
        [task_result(group) for group in groups],
        policy=trick,
        env="shell",
        fingerprint="",
        seed=0,
        duration_s=0.0,
    )
    for group in groups:
        for episode in group.episodes:
            if episode.trace.failure is not None:
                print(f"{trick}: {group.task.id}: {episode.trace.failure.message}", file=sys.stderr)
    successes = [s for r in report.tasks for s in r.successes if s is not None]
    success = sum(successes) / len(successes) if successes else None
    return success, report.masked, len(tasks)


async def main(count: int, tricks: Sequence[str]) -> dict[str, dict[str, float | int | None]]:
    """The figures of each policy."""
    options = {"memory_mb": 192, "disk_mb": 48, "command_timeout_s": 10.0}
    shell = open_environment(EnvConfig(name="shell", **options))
    assert isinstance(shell, ShellEnvironment)
    tasks = [*islice(shell.tasks("heldout", 0), count // 2), *scripted_tasks(count - count // 2)]
    try:
        found = {}
        for trick in tricks:
            success, masked, attempts = await play(shell, tasks, trick)
            found[trick] = {"success": success, "masked": masked, "attempts": attempts}
            print(f"{trick:16} success {success} masked {masked} of {attempts}", flush=True)
    finally:
        await shell.close()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--tricks", nargs="*", default=list(TRICKS), choices=list(TRICKS))
    parser.add_argument("--json", default="", help="file for the figures")
    told = parser.parse_args()
    rows = asyncio.run(main(told.tasks, told.tricks))
    if told.json:
        with open(told.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
    hidden = [name for name, row in rows.items() if row["masked"] or row["success"] != 0.0]
    sys.exit(1 if hidden else 0)
