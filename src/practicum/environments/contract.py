"""What every environment promises, tried out on its tasks and sessions."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from practicum.core.interfaces import Environment
from practicum.core.task import Split, Task
from practicum.environments.action_forms import is_writable
from practicum.environments.reference_policies import Reference, take_turn

__all__ = ["CONTRACT_TASKS", "session_problems", "supply_problems"]

CONTRACT_TASKS = 50
"""Tasks of each split that the contract is tried on."""


def supply_problems(environment: Environment, level: int, seed: int) -> Iterator[str]:
    """What is wrong with the tasks of one level, one sentence each."""
    train = list(islice(environment.tasks("train", seed), CONTRACT_TASKS))
    heldout = list(islice(environment.tasks("heldout", seed + 1), CONTRACT_TASKS))
    if not train:
        yield "there are no training tasks"
    splits: tuple[tuple[Split, list[Task]], ...] = (("train", train), ("heldout", heldout))
    for split, tasks in splits:
        if any(task.split != split for task in tasks):
            yield f"tasks of {split!r} say they belong to another split"
        yield from _row_problems(environment, tasks, level)
    if len({task.id for task in heldout}) < len(heldout):
        yield f"ids repeat within the first {len(heldout)} held-out tasks"
    if train != list(islice(environment.tasks("train", seed), CONTRACT_TASKS)):
        yield "the same seed does not give the same tasks"
    shared = {_content(task) for task in train} & {_content(task) for task in heldout}
    if shared:
        yield f"{len(shared)} tasks are both in training and held out"


def _row_problems(environment: Environment, tasks: Sequence[Task], level: int) -> Iterator[str]:
    by_id: dict[str, str] = {}
    for task in tasks:
        if task.env != environment.name or task.level != level:
            yield f"task {task.id!r} says env {task.env!r}, level {task.level}"
        if by_id.setdefault(task.id, _content(task)) != _content(task):
            yield f"the id {task.id!r} stands for two tasks"
        try:
            json.dumps(dict(task.data))
        except (TypeError, ValueError):
            yield f"task {task.id!r} holds data that is not JSON"


def _content(task: Task) -> str:
    """What a task is, whatever its id and split say."""
    return json.dumps([task.level, task.instruction, dict(task.data)], sort_keys=True, default=str)


async def session_problems(environment: Environment, task: Task) -> list[str]:
    """What is wrong with a session of the task when its reference is played, one sentence each."""
    async with environment.open(task) as session:
        prompt = session.prompt()
        found = list(_opening_problems(session))
        found += await _turn_problems(session, Reference(environment, task))
    async with environment.open(task) as fresh:
        if fresh.prompt() != prompt:
            found.append("a second session opens with another prompt")
    return [f"task {task.id!r}: {sentence}" for sentence in found]


def _opening_problems(session: Any) -> Iterator[str]:
    if not any(message.content.strip() for message in session.prompt()):
        yield "the prompt is empty"
    offered = session.actions() if hasattr(session, "actions") else session.tools()
    names = [one.name for one in offered]
    if len(set(names)) < len(names):
        yield "two actions have the same name"


async def _turn_problems(session: Any, reference: Reference) -> list[str]:
    found: list[str] = []
    last = ""
    rewards: list[float] = []
    is_over = False
    while (text := reference.next_turn()) is not None:
        last = text
        forms = session.actions() if hasattr(session, "actions") else ()
        if forms and not is_writable(forms, text):
            found.append(f"the reference's {text!r} cannot be written with its actions")
        seen = await take_turn(session, text)
        rewards += [] if seen.reward is None else [seen.reward]
        reference.saw(seen.message.content)
        is_over = seen.terminated
        if is_over:
            break
        if not seen.message.content.strip():
            found.append(f"{text!r} is answered with nothing")
    if (await session.outcome()).turn_rewards != tuple(rewards):
        found.append("the outcome's turn rewards are not what the turns paid")
    if is_over and not await _refuses(session, last):
        found.append("the session goes on after its end")
    return found


async def _refuses(session: Any, text: str) -> bool:
    try:
        await take_turn(session, text)
    except Exception:  # noqa: BLE001 - any error is a refusal; which one is the author's choice
        return True
    return False
