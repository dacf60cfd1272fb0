"""Episodes that wait, in one worker of a cluster and in two: seconds, and how many times as fast.

    practicum cluster up
    python benchmarks/cluster.py
    python benchmarks/cluster.py --episodes 64 --seconds 0.5

A turn blocks its worker for a while, as a program does that answers late; each worker has one
episode at a time. The cluster is the one of this machine; starting its workers is not counted.
"""

import argparse
import asyncio
import os
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from practicum.assemble.clustered import act_in_workers
from practicum.assemble.environments import open_environment
from practicum.config_files import read_config
from practicum.core.trusted_code import VARIABLE

WAITING = '''
import contextlib, time
import practicum as pr

class SlowEnvironment:
    """Each turn takes as long as it is told."""
    name = "slow"
    all_levels = (1,)

    class Options(pr.ConfigModel):
        seconds: float = 0.2

    def __init__(self, options):
        self.seconds = options.seconds

    def tasks(self, split, seed):
        for n in range(100_000):
            yield pr.Task(id=f"t{n}", env="slow", split=split, instruction="wait")

    @contextlib.asynccontextmanager
    async def open(self, task):
        yield Session(self.seconds)

class Session:
    def __init__(self, seconds):
        self.seconds = seconds

    def prompt(self):
        return [pr.Message(role="user", content="wait")]

    def actions(self):
        return (pr.ActionForm(name="wait"),)

    async def act(self, text):
        time.sleep(self.seconds)
        return pr.Observation(message=pr.Message(role="user", content=text), terminated=True)

    async def outcome(self):
        return pr.Outcome(success=True)
'''


async def measure(place: Path, workers: int, episodes: int, seconds: float) -> float:
    """Seconds of all episodes."""
    words = [f"env.seconds={seconds}", "cluster=ray"]
    words += [f"cluster.workers={workers}", "cluster.episodes=1", "cluster.worker_cpus=0.5"]
    config = read_config(f"{place}:SlowEnvironment", words)
    there: Any = open_environment(config.env)
    act_in_workers(config, there)

    async def episode(task: Any) -> None:
        async with there.room_for_episode(), there.open(task) as session:
            await session.act("wait")
            await session.outcome()

    tasks = list(islice(there.tasks("train", 0), episodes))
    try:
        async with there.room_for_episode():
            while there.worker_metrics()["workers"] < workers:
                await asyncio.sleep(0.1)
        started = time.perf_counter()
        await asyncio.gather(*map(episode, tasks))
        return time.perf_counter() - started
    finally:
        await there.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "slow.py")
        place.write_text(WAITING)
        os.environ[VARIABLE] = str(Path(folder).resolve())  # what is run is the text above
        took = {n: asyncio.run(measure(place, n, asked.episodes, asked.seconds)) for n in (1, 2)}
    print(f"{asked.episodes} episodes of {asked.seconds:g} s of waiting each")
    for workers, seconds in took.items():
        print(f"  {workers} worker(s): {seconds:.1f} s")
    print(f"  two are {took[1] / took[2]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
