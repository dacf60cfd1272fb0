"""An action that opens an episode of another environment, and what of it is paid to whom."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import practicum as pr
from practicum.environments.nested import NestedSession, SubTask
from practicum.environments.reference_policies import take_turn

EXAMPLE = Path(__file__).parents[3] / "examples" / "05_roles.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = util.spec_from_file_location("roles_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_examples_are_sound(example: ModuleType) -> None:
    for environment in (example.ReviewEnvironment, example.DelegateEnvironment):
        found = pr.check(environment, n=2)
        assert found.is_sound, found


async def test_the_turn_that_hands_on_is_paid_for_what_came_of_it(example: ModuleType) -> None:
    """3x + 7 = 16 solved by the reference of `math`: its pay is the solver's, 1 the manager's."""
    environment = example.DelegateEnvironment(None)
    task = pr.Task(id="t", env="delegate", split="train", data={"equation": "3x + 7 = 16"})
    reference = environment.reference(task)
    roles = []
    async with environment.open(task) as session:
        for text in reference:
            roles.append(session.role())
            seen = await take_turn(session, text)
        outcome = await session.outcome()
    assert roles == ["manager", *["solver/1"] * (len(reference) - 1)]
    assert seen.terminated
    assert outcome.success
    mathematics = pr.build_environment("math")
    inside = mathematics.find("3x + 7 = 16")
    assert sum(outcome.turn_rewards[1:]) == mathematics.full_marks(inside)
    assert outcome.turn_rewards[0] == 1.0


class Steps:
    """An environment of endless steps."""

    name = "steps"

    def __init__(self) -> None:
        self.open_now = 0

    def tasks(self, split: str, seed: int) -> Iterator[pr.Task]:
        return iter(())

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[Any]:
        self.open_now += 1
        try:
            yield _Step()
        finally:
            self.open_now -= 1

    def reference(self, task: pr.Task) -> tuple[str, ...]:
        return ()


class _Step:
    def __init__(self) -> None:
        self.taken = 0

    def prompt(self) -> list[pr.Message]:
        return [pr.Message(role="user", content="step")]

    def actions(self) -> tuple[pr.ActionForm, ...]:
        return (pr.ActionForm(name="step"),)

    async def act(self, text: str) -> pr.Observation:
        self.taken += 1
        return pr.Observation(message=pr.Message(role="user", content=str(self.taken)), reward=0.5)

    async def outcome(self) -> pr.Outcome:
        return pr.Outcome(success=False, turn_rewards=(0.5,) * self.taken)


class Twice(NestedSession):
    """Hands on the same task twice, three turns each, and is paid how many were taken."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps, self.given = steps, 0

    def own_prompt(self) -> list[pr.Message]:
        return [pr.Message(role="user", content="hand on")]

    def own_actions(self) -> tuple[pr.ActionForm, ...]:
        return (pr.ActionForm(name="hand on"),)

    async def own_act(self, text: str) -> SubTask:
        self.given += 1
        task = pr.Task(id="s", env="steps", split="train")
        return SubTask(environment=self.steps, task=task, role="walker", max_turns=3)

    async def came_of(self, subtask: SubTask, outcome: pr.Outcome) -> pr.Observation:
        walked = pr.Message(role="user", content=f"{len(outcome.turn_rewards)} steps")
        return pr.Observation(
            message=walked, reward=float(len(outcome.turn_rewards)), terminated=self.given == 2
        )

    async def outcome(self) -> pr.Outcome:
        return pr.Outcome(success=True, turn_rewards=tuple(self.turn_rewards))


async def test_episodes_inside_end_at_their_limit_and_are_conversations_of_their_own() -> None:
    steps = Steps()
    session = Twice(steps)
    roles, paid = [], 0.0
    for text in ("hand on", *["step"] * 3, "hand on", *["step"] * 3):
        roles.append(session.role())
        assert [form.name for form in session.actions()] == [text]
        seen = await session.act(text)
        paid += seen.reward or 0.0
    assert seen.terminated
    assert roles == ["manager", *["walker/1"] * 3, "manager", *["walker/2"] * 3]
    assert session.turn_rewards == [3.0, 0.5, 0.5, 0.5, 3.0, 0.5, 0.5, 0.5]
    assert paid == sum(session.turn_rewards)
    assert steps.open_now == 2
    await session.close()
    assert steps.open_now == 0
