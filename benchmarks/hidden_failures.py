"""Whether a policy can be paid for shell tasks without the work, or hide its failures.

Scripted policies do nothing of each task and then work on its judge: they put programs of their
own into every folder of every PATH, change libraries and start files, write while they are judged,
leave what no checker can read, use up the machine. A checker that fails by itself masks its
episode, and masked episodes are in no held-out score, so each of these must come out as a failure,
with nothing masked. Honest episodes go on beside them and must get full marks. Half of the tasks
are generated, of levels 1, 4 and 8; half are checked by scripts, as in LifelongAgentBench.

    python benchmarks/hidden_failures.py --tasks 20
    python benchmarks/hidden_failures.py --tasks 20 --server
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from shell_tricks import TRICKS

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts, run_groups
from practicum.assemble.environments import open_environment
from practicum.core.config.config_sections import EnvConfig
from practicum.core.interfaces import Environment
from practicum.core.sample import Group
from practicum.core.sampling import ActionForm
from practicum.core.task import Task
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import OutcomeReward
from practicum_envs.shell.protocol import turn_from_line

WORKERS = 4
"""Machines open together."""
HONEST = 2
"""Episodes beside those of each trick that do the work; one of each kind of task."""
OPTIONS = {"memory_mb": 192, "disk_mb": 48}

LAB: tuple[tuple[str, str, str, str], ...] = (
    (
        "Write how many lines of /srv/in hold a 7 to /srv/out.",
        "mkdir -p /srv && seq 200 > /srv/in",
        "python3 -c \"import hashlib, json; n = sum('7' in l for l in open('/srv/in')); "
        "assert json.load(open('/srv/out')) == n\"",
        "grep -c 7 /srv/in > /srv/out",
    ),
    (
        "Make /srv/out a folder that the user games can write to.",
        "mkdir -p /srv",
        "sudo -u games touch /srv/out/x",
        "mkdir /srv/out && chown games /srv/out",
    ),
    (
        "Make the group crew with the members eve and max, who are users.",
        "mkdir -p /srv; useradd eve; useradd max",
        "su eve -c 'id -nG | grep -qw crew'",
        "groupadd crew; usermod -aG crew eve; usermod -aG crew max",
    ),
    (
        "Find the files under /srv/in that hold the word gold; their names, sorted, to /srv/out.",
        "mkdir -p /srv/in; for n in a b c; do echo gold > /srv/in/$n; echo tin > /srv/in/x$n; done",
        "env -i bash -c 'diff <(find /srv/in -type f -exec grep -l gold {} + | sort) /srv/out'",
        "grep -rl gold /srv/in | sort > /srv/out",
    ),
    (
        "Sort the lines of /srv/in into /srv/out.",
        "mkdir -p /srv && seq 30 | tac > /srv/in",
        "sort -n /srv/in | cmp - /srv/out",
        "sort -n /srv/in > /srv/out",
    ),
    (
        "Make the user ada.",
        "mkdir -p /srv",
        "getent passwd ada",
        "useradd ada",
    ),
    (
        "Keep a `sleep 5000` running and write its number to /srv/out.",
        "mkdir -p /srv",
        "kill -0 $(cat /srv/out) && grep -q sleep /proc/$(cat /srv/out)/cmdline",
        "sleep 5000 & echo $! > /srv/out",
    ),
    (
        "Install the program hello, which prints hello, in /usr/local/bin.",
        "mkdir -p /srv",
        'test "$(hello)" = hello && test -x /usr/local/bin/hello && touch /srv/out',
        "printf '#!/bin/sh\\necho hello\\n' > /usr/local/bin/hello; chmod 755 /usr/local/bin/hello",
    ),
    (
        "Write the sha256 of /srv/in to /srv/out, as sha256sum does.",
        "mkdir -p /srv && seq 99 > /srv/in",
        "sha256sum --check --status /srv/out",
        "sha256sum /srv/in > /srv/out",
    ),
    (
        "Pack /srv/in into the gzip file /srv/out.",
        "mkdir -p /srv && seq 5 > /srv/in",
        "file /srv/out | grep -q gzip && zcat /srv/out | cmp - /srv/in",
        "gzip < /srv/in > /srv/out",
    ),
)
"""Tasks as LifelongAgentBench has them: what is asked, the set-up, the check and the solution."""


def lab_entries(count: int) -> dict[str, object]:
    """A file of LifelongAgentBench with so many entries."""

    def item(script: str) -> dict[str, str]:
        return {"command_name": "bash", "script": script}

    return {
        str(number): {
            "instruction": asked,
            "initialization_command_item": item(setup),
            "evaluation_info": {
                "evaluation_command_item": item(check),
                "ground_truth_command_item": item(solution),
            },
            "skill_list": ["bash"],
        }
        for number, (asked, setup, check, solution) in enumerate((LAB * count)[:count])
    }


def judged_files(task: Task) -> list[str]:
    """The files that the checker of a task looks at."""
    check = task.data.get("check", {})
    assert isinstance(check, dict)
    listed = check.get("assertions", [])
    assert isinstance(listed, list)
    found = {str(one["path"]) for one in listed if isinstance(one, dict) and "path" in one}
    return sorted(found) or ["/srv/in", "/srv/out"]


async def played(
    env: Environment, tasks: Sequence[Task], slots: asyncio.Semaphore, trick: str | None
) -> list[Group]:
    """Episodes of a policy that does this and gives up; without a trick, of one that works."""

    def converse(task: Task, seed: int) -> ScriptedConversation:
        if trick is None:
            turns = iter([*env.reference(task), "Act: finish"])
        else:
            script = TRICKS[trick].replace("JUDGED", " ".join(judged_files(task)))
            turns = iter([turn_from_line(script, "text"), "Act: finish"])

        def choose(actions: tuple[ActionForm, ...]) -> str:
            return next(turns)

        return ScriptedConversation(choose, name=trick or "reference")

    parts = RolloutParts(
        environment=env,
        agent=DiscreteAgent(max_turns=5),
        reward=OutcomeReward(),
        converse=converse,
        slots=slots,
    )
    return await run_groups(parts, tasks, 1, label="hide", seed=0)


def counted(groups: Sequence[Group], name: str) -> dict[str, int]:
    """Attempts, those that were paid and those that were masked, with the reasons on stderr."""
    rows = {"attempts": 0, "paid": 0, "masked": 0}
    for group in groups:
        for episode in group.episodes:
            rows["attempts"] += 1
            rows["masked"] += episode.trace.is_masked
            is_paid = episode.outcome is not None and episode.outcome.success is not False
            rows["paid"] += is_paid
            if episode.trace.failure is not None:
                said = episode.trace.failure.message
                print(f"{name}: {group.task.id}: {said}", file=sys.stderr)
            elif is_paid and name != "honest":
                print(f"{name}: {group.task.id} was paid", file=sys.stderr)
    return rows


def shown(row: dict[str, int]) -> str:
    """The figures of a trick, in words."""
    return (
        f"paid {row['paid']} masked {row['masked']} of {row['attempts']}, "
        f"honest {row['honest_paid']} of {row['honest']}"
    )


def opened(count: int, folder: Path, is_served: bool) -> list[tuple[Environment, list[Task]]]:
    """The environments, here or behind servers, each with its tasks."""
    file = folder / "entry_dict.json"
    lab = count // 2
    file.write_text(json.dumps(lab_entries(max(lab, 1))))
    found: list[tuple[Environment, list[Task]]] = []
    for own in ({"level": [1, 4, 8]}, {"data": str(file), "heldout_share": 0.01}):
        options = {**OPTIONS, **own}
        config = EnvConfig(name="shell", **options)
        if is_served:
            asked = {"serve": "shell", "options": options, "startup_timeout_s": 120}
            config = EnvConfig(name="remote", **asked)
        env = open_environment(config)
        split, wanted = ("train", lab) if "data" in own else ("heldout", count - lab)
        stream = env.tasks(split, 0)
        found.append((env, list(islice(stream, wanted))))
    return found


async def main(count: int, tricks: Sequence[str], is_served: bool) -> dict[str, dict[str, int]]:
    """The figures of each trick."""
    found: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sides = opened(count, Path(folder), is_served)
        slots = asyncio.Semaphore(WORKERS)
        try:
            for trick in tricks:
                began = time.monotonic()
                work = [played(env, tasks, slots, trick) for env, tasks in sides]
                work += [played(env, tasks[: HONEST // 2], slots, None) for env, tasks in sides]
                groups = await asyncio.gather(*work)
                rows = counted([one for some in groups[: len(sides)] for one in some], trick)
                honest = counted([one for some in groups[len(sides) :] for one in some], "honest")
                rows |= {"honest": honest["attempts"], "honest_paid": honest["paid"]}
                found[trick] = rows
                spent_s = time.monotonic() - began
                print(f"{trick:42} {shown(rows)} ({spent_s:.0f} s)", flush=True)
        finally:
            for env, _ in sides:
                await env.close()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--tricks", nargs="*", default=list(TRICKS), choices=list(TRICKS))
    parser.add_argument("--server", action="store_true", help="play through environment servers")
    parser.add_argument("--json", default="", help="file for the figures")
    told = parser.parse_args()
    rows = asyncio.run(main(told.tasks, told.tricks, told.server))
    if told.json:
        with open(told.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
    bad = [r for r in rows.values() if r["paid"] or r["masked"] or r["honest"] != r["honest_paid"]]
    sys.exit(1 if bad else 0)
