"""Rewards that lead astray are found by playing simple policies."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest

from practicum.core.config.config_sections import ConfigModel
from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message
from practicum.environments.checker import check_environment, measure_pay
from practicum_envs.math.math_environment import MathEnvironment, MathOptions

ACTIONS = tuple(ActionForm(name=name) for name in ("left", "right", "press", "quit"))


class DoorSession:
    """Three presses of the right button open the door."""

    def __init__(self, pays: dict[str, float]) -> None:
        self.pays, self.pressed, self.paid, self.is_over = pays, 0, list[float](), False

    def prompt(self) -> list[Message]:
        return [Message(role="user", content="open the door")]

    def actions(self) -> tuple[ActionForm, ...]:
        return ACTIONS

    async def act(self, text: str) -> Observation:
        if self.is_over:
            raise RuntimeError("the episode is over")
        # A press counts only after a left: left, press, left, press.
        self.pressed += text == ("left", "press", "right", "press")[self.pressed % 4]
        self.is_over = text == "quit" or self.pressed == 4
        self.paid.append(5.0 if self.pressed == 4 else self.pays[text])
        message = Message(role="user", content=f"{self.pressed} of 4")
        return Observation(message=message, reward=self.paid[-1], terminated=self.is_over)

    async def outcome(self) -> Outcome:
        return Outcome(success=self.pressed == 4, turn_rewards=tuple(self.paid))


class Doors:
    """One kind of task, with pay as told."""

    Options: ClassVar[type[ConfigModel]] = ConfigModel
    all_levels: ClassVar[tuple[int, ...]] = (1,)
    name = "doors"

    def __init__(self, **pays: float) -> None:
        self.pays = {"left": 0.0, "right": 0.0, "press": 0.0, "quit": -1.0, **pays}

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        for n in range(20):
            data = {"door": f"{split} {n}"}
            yield Task(id=f"{split}-{n}", env=self.name, split=split, data=data)

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[DoorSession]:
        yield DoorSession(self.pays)

    def reference(self, task: Task) -> Sequence[str]:
        return ("left", "press", "right", "press")


async def warnings(environment: object) -> tuple[str, ...]:
    found = await check_environment(lambda level: environment, levels=(1,), n=4)  # type: ignore[arg-type, return-value]
    assert found.is_sound, found.levels[0].problems
    return tuple(one.sentence for one in found.levels[0].findings if one.part == "rewards")


async def test_a_careful_reward_is_not_warned_of() -> None:
    assert await warnings(Doors(left=-0.1, right=-0.1, press=-0.1, quit=-1.0)) == ()


async def test_a_cheap_way_out_is_found() -> None:
    [warning] = await warnings(Doors(left=-0.5, right=-0.5, press=-0.5, quit=-0.5))
    assert warning.startswith("'quit' at once ends an episode with -0.50 on average")
    assert "giving up" in warning


async def test_pay_for_repeating_is_found() -> None:
    [warning] = await warnings(Doors(right=0.5))
    assert warning.startswith("taking 'right' again and again earns 4.00 of 5.50")


async def test_pay_for_two_actions_in_turn_is_found() -> None:
    pay = await measure_pay(Doors(right=1.0, press=-0.5), next(Doors().tasks("train", 0)), 0)
    assert pay.repeated["right, press"] == pytest.approx(4 * 0.5)
    assert pay.full == pytest.approx(1.0 - 0.5 + 5.0)


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
async def test_math_has_no_traps(level: int) -> None:
    found = await check_environment(
        lambda one: MathEnvironment(MathOptions(level=one)), levels=(level,), n=5
    )
    assert found.levels[0].warnings == ()


class CorridorSession(DoorSession):
    """A corridor of three steps: what leads out of it is not on offer, and may not be taken."""

    def __init__(self) -> None:
        super().__init__({})
        self.at = 0

    def actions(self) -> tuple[ActionForm, ...]:
        names = [*(["go back"] if self.at else []), *(["go on"] if self.at < 3 else []), "done"]
        return tuple(ActionForm(name=name) for name in names)

    async def act(self, text: str) -> Observation:
        if self.is_over or text not in {form.name for form in self.actions()}:
            raise KeyError(text)
        step = {"go on": 1, "go back": -1, "done": 0}[text]
        self.at, self.is_over = self.at + step, text == "done"
        self.paid.append(0.1 * step if step else (1.0 if self.at == 3 else -1.0))
        message = Message(role="user", content=f"at {self.at}")
        return Observation(message=message, reward=self.paid[-1], terminated=self.is_over)

    async def outcome(self) -> Outcome:
        return Outcome(success=self.is_over and self.at == 3, turn_rewards=tuple(self.paid))


class Corridor(Doors):
    """Actions that change by state, with spaces in their names."""

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[CorridorSession]:  # type: ignore[override]
        yield CorridorSession()

    def reference(self, task: Task) -> Sequence[str]:
        return ("go on", "go on", "go on", "done")


async def test_only_what_is_on_offer_is_tried() -> None:
    """Repeating ends where its action is gone, and random tries keep to what is possible."""
    assert await warnings(Corridor()) == ()
    pay = await measure_pay(Corridor(), next(Corridor().tasks("train", 0)), 0)
    assert pay.exits == {"done": -1.0}
    assert pay.repeated["go on"] == pytest.approx(0.3)
    assert 0.0 <= pay.at_random <= 0.3


async def test_an_action_that_fails_is_told_with_what_came_before() -> None:
    class Broken(Corridor):
        def reference(self, task: Task) -> Sequence[str]:
            return ("go on", "jump")

    found = await check_environment(lambda level: Broken(), levels=(1,), n=1)  # type: ignore[arg-type, return-value]
    told = (
        "task 'heldout-0', after ['go on'], 'jump': KeyError: 'jump' (test_reward_traps.py, line "
    )
    assert any(one.startswith(told) for one in found.levels[0].problems)
