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
from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts, run_groups
from practicum.assemble.build_policy import build_policy
from practicum.core.sample import Credit
from practicum.evaluation.evaluate import evaluate
from practicum.gateway.capture import CapturedConversation
from practicum.rewards.verifiable import TurnRewards
from practicum.training.algorithms.build_algorithms import build_algorithm
from practicum.training.prefix_tree import build_batches, group_samples

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

    def tasks(self, split: pr.Split, seed: int) -> Iterator[pr.Task]:
        """Lamps of random colours, without end."""
        rng = random.Random(f"{split} {seed}")
        for number in range(10**9):
            colour = rng.choice(list(LEVERS))
            yield pr.Task(id=f"{number}", env=self.name, split=split, data={"colour": colour})

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[LampSession]:
        """Start one episode."""
        yield LampSession(str(task.data["colour"]))


def credit(group: pr.Group) -> list[Credit]:
    """GRPO's advantages, by hand: how much better than the other episodes of the same task?"""
    mean, spread = fmean(group.values), stdev(group.values)
    return [Credit(advantages=((value - mean) / (spread + 1e-4),)) for value in group.values]


async def main() -> None:
    """Forty steps of GRPO, and success on held-out tasks before and after."""
    config = pr.RunConfig(env={"name": "lamps"}, model="tiny", algorithm={"lr": 5e-4})
    policy = build_policy(config)  # one model in memory: what samples is what is updated
    grpo, env = build_algorithm(config.algorithm, config.rollouts), Lamps()

    def act(temperature: float) -> RolloutParts:
        params = pr.SamplingParams(temperature=temperature, max_tokens=8)
        return RolloutParts(
            environment=env,
            agent=DiscreteAgent(max_turns=1),
            reward=TurnRewards(),
            converse=lambda _, seed: CapturedConversation(
                policy.sampler, policy.codec, params, seed
            ),
        )

    async def score_heldout(name: str) -> None:
        tasks = list(islice(env.tasks("heldout", 0), 60))
        found = await evaluate(act(0.0), tasks, attempts=1, seed=0, policy=name, fingerprint="")
        part = found.report.success
        print(f"{name}: held-out success {part.value:.2f} [{part.low:.2f}, {part.high:.2f}]")

    await score_heldout("before")
    tasks = env.tasks("train", seed=0)
    for step in range(1, STEPS + 1):
        groups = await run_groups(
            act(1.0), list(islice(tasks, TASKS)), GROUP, label=f"step-{step}", seed=0
        )
        episodes = [episode for group in groups for episode in group.episodes]
        credits = [one for group in groups for one in credit(group)]
        batches = build_batches(group_samples(episodes, credits), budget_tokens=4096)
        report = policy.learner.update(batches, grpo)
        reward = fmean(value for group in groups for value in group.values)
        print(f"step {step}: reward {reward:.2f}, loss {report.loss:+.3f}")
    await score_heldout("after")


if __name__ == "__main__":
    asyncio.run(main())
