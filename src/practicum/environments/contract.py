"""What the tasks and sessions of an environment must be like, whatever they are about."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from practicum.core.capabilities import HasRoles, actions_of, tools_of
from practicum.core.interfaces import DiscreteSession, Environment, Session
from practicum.core.sampling import action_problems
from practicum.core.task import Split, Task
from practicum.environments.checklist import Finding, Part
from practicum.environments.reference_policies import Reference, is_writable, take_turn

CONTRACT_TASKS = 50
"""Tasks of each split on which the contract is tested."""


def task_problems(environment: Environment, level: int, seed: int) -> Iterator[Finding]:
    """What is wrong with the tasks of one level, one sentence each; no session is opened."""
    train = _first(environment, "train", seed)
    heldout = _first(environment, "heldout", seed + 1)
    if not train:
        yield Finding(part="tasks", sentence="there are no training tasks")
    splits: tuple[tuple[Split, list[Task]], ...] = (("train", train), ("heldout", heldout))
    for split, tasks in splits:
        if any(task.split != split for task in tasks):
            wrong = f"tasks of {split!r} say they belong to another split"
            yield Finding(part="train and held-out", sentence=wrong)
        yield from _as_findings("tasks", _problems_of_split(environment, tasks, level))
    ids = Counter(task.id for task in heldout)
    if doubles := [name for name, times in ids.items() if times > 1]:
        repeated = f"the id {doubles[0]!r} repeats within the first {len(heldout)} held-out tasks"
        yield Finding(part="tasks", sentence=repeated)
    again = [*_first(environment, "train", seed), *_first(environment, "heldout", seed + 1)]
    if [(one.id, content_of(one)) for one in again] != [
        (one.id, content_of(one)) for one in (*train, *heldout)
    ]:
        yield Finding(part="tasks", sentence="the same seed does not give the same tasks")
    others = [*_first(environment, "train", seed + 1), *_first(environment, "heldout", seed)]
    yield from _as_findings("tasks", _ids_of_two([*train, *heldout, *others]))
    shared = {content_of(task) for task in train} & {content_of(task) for task in heldout}
    if shared:
        both = f"{len(shared)} tasks are both in training and held out"
        yield Finding(part="train and held-out", sentence=both)


def _as_findings(part: Part, sentences: Iterable[str]) -> list[Finding]:
    return [Finding(part=part, sentence=one) for one in sentences]


def _first(environment: Environment, split: Split, seed: int) -> list[Task]:
    return list(islice(environment.tasks(split, seed), CONTRACT_TASKS))


def _ids_of_two(tasks: Sequence[Task]) -> Iterator[str]:
    """The first id that stands for one task here and for another there."""
    by_id: dict[str, str] = {}
    for task in tasks:
        if by_id.setdefault(task.id, content_of(task)) != content_of(task):
            yield (
                f"the id {task.id!r} stands for two tasks; let it say what the task is, such as a "
                "hash of its data"
            )
            return


def _problems_of_split(
    environment: Environment, tasks: Sequence[Task], level: int
) -> Iterator[str]:
    for task in tasks:
        if task.env != environment.name or task.level != level:
            yield f"task {task.id!r} says env {task.env!r}, level {task.level}"
        try:
            json.dumps(dict(task.data))
        except (TypeError, ValueError):
            yield f"task {task.id!r} holds data that is not JSON"


def content_of(task: Task) -> str:
    """A task without its id and split, to find duplicates."""
    return json.dumps([task.level, task.instruction, dict(task.data)], sort_keys=True, default=str)


async def session_problems(environment: Environment, task: Task) -> list[Finding]:
    """What is wrong with a session of the task under its reference, one sentence each."""
    async with environment.open(task) as session:
        if not isinstance(session, DiscreteSession | Session):
            lacking = (
                f"task {task.id!r}: its session, a {type(session).__name__}, must have prompt, "
                "outcome, and either actions and act or tools and call"
            )
            return [Finding(part="session", sentence=lacking)]
        prompt, offered = session.prompt(), _offered(session)
        found = _opening_problems(session)
        found += await _turn_problems(session, Reference(environment, task))
        found = list(dict.fromkeys(found))
    async with environment.open(task) as fresh:
        if fresh.prompt() != prompt:
            found.append(_of_session("a second session opens with another prompt"))
        elif _offered(fresh) != offered:
            found.append(_of_session("a second session opens with other actions"))
    return [replace(one, sentence=f"task {task.id!r}: {one.sentence}") for one in found]


def _of_session(sentence: str) -> Finding:
    return Finding(part="session", sentence=sentence)


def _of_actions(sentence: str) -> Finding:
    return Finding(part="actions", sentence=sentence)


def _opening_problems(session: Any) -> list[Finding]:
    found = []
    if not any(message.content.strip() for message in session.prompt()):
        found.append(_of_session("the prompt is empty"))
    found += map(_of_actions, action_problems(actions_of(session)))
    names = [tool.name for tool in tools_of(session)]
    if len(set(names)) < len(names):
        found.append(_of_actions("two tools have the same name"))
    return found


def _offered(session: Any) -> list[tuple[str, bool]]:
    """The names of the actions that are possible now, and whether each has an argument."""
    return [(form.name, form.argument is not None) for form in actions_of(session)]


async def _turn_problems(session: Any, reference: Reference) -> list[Finding]:
    found: list[Finding] = []
    last = ""
    rewards: list[float] = []
    is_over = False
    while (text := reference.next_turn()) is not None:
        last = text
        forms = actions_of(session)
        found += map(_of_actions, action_problems(forms))
        if _offered(session) != _offered(session):
            found.append(_of_actions("`actions` gives others when it is asked twice before a turn"))
        if forms and not is_writable(forms, text):
            unwritable = f"the reference's {text!r} cannot be written with its actions"
            found.append(_of_actions(unwritable))
        seen = await take_turn(session, text)
        rewards += [] if seen.reward is None else [seen.reward]
        reference.observe(seen.message.content)
        is_over = seen.terminated
        if is_over:
            break
        if not seen.message.content.strip():
            found.append(_of_session(f"{text!r} is answered with nothing"))
    paid = (await session.outcome()).turn_rewards
    # What a role is paid may be known only after another's turn; then it is the sum that agrees.
    agree = math.isclose(sum(paid), sum(rewards), abs_tol=1e-9) and isinstance(session, HasRoles)
    if not agree and paid != tuple(rewards):
        found.append(_of_session("the outcome's turn rewards are not what the turns paid"))
    if is_over and not await _refuses(session, last):
        found.append(
            _of_session("the session goes on after its end; let `act` raise an error then")
        )
    return found


async def _refuses(session: Any, text: str) -> bool:
    try:
        await take_turn(session, text)
    except Exception:  # noqa: BLE001 - any error is a refusal; which one is the author's choice
        return True
    return False


async def opening_warnings(environment: Environment, seed: int) -> list[Finding]:
    """A warning where held-out tasks open just as training tasks do."""
    splits: tuple[Split, Split] = ("train", "heldout")
    train, heldout = [
        {await _prompt_of(environment, task) for task in _first(environment, split, seed)}
        for split in splits
    ]
    if not heldout or not heldout <= train:
        return []
    alike = (
        "every held-out task that was looked at opens with the prompt of a training task: unless "
        "they differ in what is hidden, held-out success says nothing about new tasks"
    )
    return [Finding(part="train and held-out", sentence=alike, is_warning=True)]


async def _prompt_of(environment: Environment, task: Task) -> str:
    async with environment.open(task) as session:
        return "\n".join(message.content for message in session.prompt())
