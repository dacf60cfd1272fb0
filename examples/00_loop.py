"""The whole idea on one page: sample groups, score them, credit them, update, evaluate.

`practicum train` does the same with checkpoints, metrics and many more choices. The task: a lamp
shows a colour, and the right lever has another name than the colour. Nothing tells the model which
belongs to which but its reward.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from statistics import fmean, stdev

import practicum as pr

LEVERS = {"red": "stop", "green": "go", "amber": "wait"}
STEPS, TASKS, GROUP = 40, 8, 8


class LampSession:
    """One episode: the lamp is seen, one lever is pulled, and that is all."""

    def __init__(self, colour: str) -> None:
        self._colour = colour
        self._pulled = ""

    def prompt(self) -> list[pr.Message]:
        """What the model reads first."""
        return [pr.Message(role="user", content=f"lamp: {self._colour}")]

    def actions(self) -> tuple[pr.ActionForm, ...]:
        """What it may do. Other tokens cannot be sampled."""
        return tuple(pr.ActionForm(name=lever) for lever in LEVERS.values())

    async def act(self, text: str) -> pr.Observation:
        """Pull the lever."""
        self._pulled = text
        return pr.Observation(message=pr.Message(role="user", content="pulled"), terminated=True)

    async def outcome(self) -> pr.Outcome:
        """The evidence that the reward reads."""
        is_right = self._pulled == LEVERS[self._colour]
        return pr.Outcome(success=is_right, turn_rewards=(float(is_right),))


class Lamps:
    """Tasks, and a session for each."""

    name = "lamps"
    all_levels = (1,)

    class Options(pr.ConfigModel):
        """It has none."""

    def __init__(self, options: Options) -> None:
        """Nothing to prepare."""

    def tasks(self, split: pr.Split, seed: int) -> Iterator[pr.Task]:
        """Lamps of random colours, without end."""
        rng = random.Random(f"{split} {seed}")
        for number in range(10**9):
            colour = rng.choice(list(LEVERS))
            of = f"{split}-{seed}-{number}"
            yield pr.Task(id=of, env=self.name, split=split, data={"colour": colour})

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[LampSession]:
        """Start one episode."""
        yield LampSession(str(task.data["colour"]))


def credit(group: pr.Group) -> list[float]:
    """GRPO's advantages, by hand: how much better than the other episodes of the same task?"""
    mean, spread = fmean(group.values), stdev(group.values)
    return [(value - mean) / (spread + 1e-4) for value in group.values]


async def main() -> None:
    """Forty steps of GRPO, and success on held-out tasks before and after."""
    policy = pr.Policy(Lamps, model="tiny", algorithm={"lr": 5e-4}, rollouts={"max_turns": 1})

    async def score_heldout(name: str) -> None:
        part = (await policy.evaluate(60)).success
        print(f"{name}: held-out success {part.value:.2f} [{part.low:.2f}, {part.high:.2f}]")

    await score_heldout("before")
    tasks = policy.environment.tasks("train", seed=0)
    for step in range(1, STEPS + 1):
        groups = await policy.roll_out(list(islice(tasks, TASKS)), group_size=GROUP)
        report = await policy.update(groups, [credit(group) for group in groups])
        reward = fmean(value for group in groups for value in group.values)
        print(f"step {step}: reward {reward:.2f}, loss {report.loss if report else 0.0:+.3f}")
    await score_heldout("after")


if __name__ == "__main__":
    asyncio.run(main())
