"""Plays scripted turns in the code environment, for its tests."""

from collections.abc import Sequence
from itertools import islice

from practicum.core.task import Outcome, Split, Task
from practicum.sandboxes.opening import unchecked_sandboxes
from practicum_envs.code.code_environment import CodeEnvironment, CodeOptions


def environment(**options: object) -> CodeEnvironment:
    made = CodeEnvironment(CodeOptions(**options))  # type: ignore[arg-type]
    made.use_sandboxes(lambda kind: unchecked_sandboxes("bubblewrap", lambda line: None))
    return made


def some_tasks(env: CodeEnvironment, split: Split, count: int, seed: int = 0) -> list[Task]:
    return list(islice(env.tasks(split, seed), count))


async def played(
    env: CodeEnvironment, task: Task, turns: Sequence[str]
) -> tuple[list[str], float, Outcome]:
    """What was said after each turn, the total reward, and the outcome."""
    said: list[str] = []
    total = 0.0
    async with env.open(task) as session:
        for turn in turns:
            seen = await session.act(turn)
            said.append(seen.message.content)
            total += seen.reward or 0.0
        outcome = await session.outcome()
    return said, total, outcome
