"""A script in the manner of OpenPipe's ART: it rolls out by itself and says when to learn.

With ART this would begin with `import art`. The task is small enough for the tiny model, whose
weights are random: it is asked for digits, and is paid the share of its answer that is digits.
"""

import asyncio
import sys
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import practicum.compat.art as art

STEPS = 10
GROUPS, ATTEMPTS = 4, 8
LENGTH = 8


async def rollout(model: art.TrainableModel, number: int) -> art.Trajectory:
    """One attempt: ask the model, keep its choice, pay for it."""
    trajectory = art.Trajectory(
        messages_and_choices=[{"role": "user", "content": f"Write digits. ({number})"}],
        metadata={"scenario_id": number},
    )
    completion = await model.openai_client().chat.completions.create(
        model=model.get_inference_name(),
        messages=trajectory.messages(),
        max_tokens=LENGTH,
    )
    choice = completion.choices[0]
    trajectory.messages_and_choices.append(choice)
    answer = choice.message.content or ""
    trajectory.reward = sum(sign.isdecimal() for sign in answer) / LENGTH
    trajectory.metrics["length"] = len(answer)
    return trajectory.finish()


async def train(folder: Path) -> list[float]:
    """The mean reward of each step."""
    model = art.TrainableModel(
        name="digits", project="examples", base_model="tiny", base_path=str(folder)
    )
    async with art.LocalBackend() as backend:
        await model.register(backend)
        rewards = []
        for step in range(await model.get_step(), STEPS):
            groups = await art.gather_trajectory_groups(
                (
                    art.TrajectoryGroup(rollout(model, number) for _ in range(ATTEMPTS))
                    for number in range(GROUPS)
                ),
                pbar_desc=f"step {step + 1}",
                max_exceptions=2,
            )
            await model.train(groups, config=art.TrainConfig(learning_rate=6e-3))
            rewards.append(fmean(t.reward for group in groups for t in group))
            print(f"step {await model.get_step()}: reward {rewards[-1]:.2f}", flush=True)
        await model.delete_checkpoints(best_checkpoint_metric="train/reward")
    return rewards


def main() -> int:
    with TemporaryDirectory() as folder:
        rewards = asyncio.run(train(Path(folder)))
    gain = fmean(rewards[-2:]) - fmean(rewards[:2])
    print(f"the last two steps are {gain:.2f} above the first two")
    return 0 if gain > 0.3 else 1


if __name__ == "__main__":
    sys.exit(main())
