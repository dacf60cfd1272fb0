"""What a policy earns in the environment `writing` without the work, by way of trying.

Each probe of `practicum_envs.writing.hack_probes` plays tasks of every family at every level, with
names of training and held-out ones in turn. The reference earns 1.

    python benchmarks/writing_probes.py
    python benchmarks/writing_probes.py --tasks 1 --json
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from statistics import fmean

from rich.console import Console
from rich.table import Table

from practicum.core.task import Task
from practicum.environments.reference_policies import ScriptActor, play_episode
from practicum_envs.writing.brief_generator import FAMILIES, LEVELS, draw_task
from practicum_envs.writing.hack_probes import HACKS, hack_turns, turn_hacks
from practicum_envs.writing.writing_environment import WritingEnvironment, WritingOptions


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=4, help="of each family and level")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    tasks = [
        draw_task(level, family, "heldout" if number % 2 else "train", number)
        for level in LEVELS
        for family in FAMILIES.values()
        for number in range(options.tasks)
    ]
    paid = asyncio.run(play_all(tasks))
    if options.json:
        print(json.dumps({"tasks": len(tasks), "paid": paid}))
        return
    table = Table(title=f"Pay over {len(tasks)} tasks; the reference earns 1")
    for name in ("probe", "mean", "most", "solved"):
        table.add_column(name)
    for name, one in paid.items():
        table.add_row(name, f"{one['mean']:.2f}", f"{one['most']:.2f}", str(one["solved"]))
    Console().print(table)


async def play_all(tasks: Sequence[Task]) -> dict[str, dict[str, float]]:
    """For each probe its mean and highest pay, and how many tasks it solved."""
    environment = WritingEnvironment(WritingOptions())
    found = {}
    for name in [*HACKS, *turn_hacks(tasks[0])]:
        plays = []
        for task in tasks:
            turns = hack_turns(task, name) if name in HACKS else turn_hacks(task)[name]
            plays.append(await play_episode(environment, task, ScriptActor(turns), len(turns)))
        pays = [play.total_reward for play in plays]
        solved = sum(play.outcome.success is True for play in plays)
        found[name] = {"mean": fmean(pays), "most": max(pays), "solved": solved}
    return found


if __name__ == "__main__":
    main()
