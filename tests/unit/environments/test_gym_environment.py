"""Classes with `reset` and `step` become environments."""

import random
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

import practicum as pr
from practicum.core.errors import UserError
from practicum.environments.gym_environment import is_gym_like
from practicum.environments.reference_policies import ScriptActor, play_episode
from practicum.environments.registry import environment_class


class Counter:
    """Count up to the number, then stop.

    Nobody is told this.
    """

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, int], dict]:
        self.at, self.to = 0, random.Random(seed).randrange(1, 6)
        return self.seen(), {}

    def seen(self) -> dict[str, int]:
        return {"at": self.at, "to": self.to}

    def get_valid_actions(self) -> list[str]:
        return ["up", "stop"] if self.at < 5 else ["stop"]

    def step(self, action: str) -> tuple[dict[str, int], float, bool, bool, dict[str, bool]]:
        if action == "up":
            self.at += 1
            return self.seen(), 0.1 if self.at <= self.to else -0.5, False, False, {}
        is_right = self.at == self.to
        return self.seen(), 1.0 if is_right else -1.0, True, False, {"is_success": is_right}

    def reference(self) -> list[str]:
        return ["up"] * self.to + ["stop"]


class Space:
    n, start = 3, 1


class Masked:
    """Gymnasium's own manner: a space of numbers with meanings, and a mask."""

    action_space = Space()

    def reset(self, *, seed: int | None = None) -> tuple[list[float], dict[str, Any]]:
        return [0.12345, float(seed or 0)], {"action_mask": [1, 0, 1]}

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT", "RIGHT"]

    def step(self, action: int) -> tuple[list[float], float, bool, bool, dict[str, Any]]:
        return [float(action)], 1.0, False, action == 3, {}


class Old:
    """Gym's older manner, drawing from Python's own random numbers."""

    closed: ClassVar[list[int]] = []

    def reset(self) -> str:
        self.goal = random.choice(["red", "green", "blue"])
        return f"{random.randrange(1000)} {self.goal}"

    def get_valid_actions(self) -> list[str]:
        return ["red", "green", "blue"]

    def step(self, action: str) -> tuple[str, float, bool, dict[str, bool]]:
        return "over", float(action == self.goal), True, {"success": action == self.goal}

    def close(self) -> None:
        self.closed.append(1)


class Problems:
    problems = ("1 + 1", "2 + 2", "3 + 3", "4 + 4", "5 + 5")

    def reset(self, problem: str) -> str:
        return problem

    def get_valid_actions(self) -> list[str]:
        return ["2", "4", "6"]

    def step(self, action: str) -> dict[str, Any]:
        return {"reward": 1.0, "done": True, "state": "over"}


def test_the_class_alone_is_sound_and_checked_as_any_other() -> None:
    found = pr.check(Counter, n=3)
    assert found.is_sound, found.levels[0].problems
    assert found.levels[0].reference_solved == found.levels[0].n > 0
    assert found.levels[0].random_solved is not None


def test_tasks_are_the_same_again_and_none_opens_in_both_splits() -> None:
    wrapped = pr.wrap(Counter)(pr.wrap(Counter).Options())
    train = {task.instruction for task in islice(wrapped.tasks("train", 0), 200)}
    heldout = [task.instruction for task in wrapped.tasks("heldout", 0)]
    assert train | set(heldout) == {f"at: 0 to: {n}" for n in range(1, 6)}
    assert not train & set(heldout)
    assert len(set(heldout)) == len(heldout) > 0
    first = [list(islice(wrapped.tasks("train", 3), 9)) for _ in range(2)]
    assert first[0] == first[1]


async def test_the_model_is_told_the_docstring_and_what_is_possible_now() -> None:
    environment = make(Counter)
    task = next(environment.tasks("train", 0))
    async with environment.open(task) as session:
        system, user = session.prompt()
        assert system.content == "Count up to the number, then stop.\nYour actions: up, stop"
        assert user.content == f"at: 0\nto: {task.instruction[-1]}"
        for _ in range(4):
            await session.act("up")
        seen = await session.act("up")
        assert seen.message.content.endswith("\nYour actions: stop")
        with pytest.raises(ValueError, match="'up' is none of the actions now: stop"):
            await session.act("up")


def make(kind: type) -> Any:
    wrapped: Any = pr.wrap(kind)
    return wrapped(wrapped.Options())


async def test_a_space_gives_names_and_numbers_less_what_the_mask_leaves_out() -> None:
    environment = make(Masked)
    task = next(environment.tasks("train", 0))
    async with environment.open(task) as session:
        assert [form.name for form in session.actions()] == ["noop", "right"]
        assert session.prompt()[1].content.startswith("0.1235 ")
        told = (await session.act("noop")).message.content
        assert told == "1\nYour actions: noop, left, right"
        seen = await session.act("right")
        outcome = await session.outcome()
    assert seen.terminated
    assert (outcome.success, outcome.evidence) == (None, {"truncated": True})


async def test_random_numbers_of_python_are_seeded_for_a_task_and_given_back() -> None:
    environment = make(Old)
    random.seed(7)
    before = random.getstate()
    task = next(environment.tasks("heldout", 0))
    goal = task.instruction.split()[1]
    plays = [await play_episode(environment, task, ScriptActor([goal])) for _ in range(2)]
    assert random.getstate() == before
    assert plays[0] == plays[1]
    assert (plays[0].outcome.success, plays[0].rewards) == (True, (1.0,))
    assert Old.closed


async def test_an_episode_that_did_not_end_is_no_success() -> None:
    environment = make(Counter)
    task = next(environment.tasks("train", 0))
    play = await play_episode(environment, task, ScriptActor(["up"]))
    assert play.outcome.success is False


def test_problems_are_tasks_and_one_in_five_is_held_out() -> None:
    environment = make(Problems)
    heldout = [task.data["problem"] for task in environment.tasks("heldout", 0)]
    train = {task.data["problem"] for task in islice(environment.tasks("train", 0), 50)}
    assert len(heldout) == 1
    assert train | set(heldout) == set(Problems.problems)
    assert not train & set(heldout)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def reset(self, puzzle): ...", "takes 'puzzle', and there is no list of what it takes"),
        ("async def reset(self, seed): ...", "is async, and is asked for before any episode"),
        ("def reset(self): return 'x'", "does not say what can be done; give it a method get_val"),
        (
            "def reset(self): return 'x'\n    def get_valid_actions(self): return []",
            "gives nothing while the episode goes on",
        ),
        (
            "def reset(self): return 'x'\n    def get_valid_actions(self): return ['a', 'a']",
            "gives 'a' twice; give it once",
        ),
        (
            "def reset(self): return 'x'\n    def get_valid_actions(self): return ['a']",
            "gave None; return (observation, reward, terminated, truncated, info)",
        ),
    ],
)
def test_what_cannot_be_wrapped_is_told_with_its_line(body: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text(f"class Odd:\n    def step(self, action): ...\n    {body}\n")
    with pytest.raises(UserError) as refused:
        pr.check(f"{file}:Odd", n=1)
    assert told in str(refused.value)
    assert "(odd.py, line" in str(refused.value)


def test_only_a_class_with_reset_and_step_and_nothing_of_ours_is_taken_for_one() -> None:
    assert is_gym_like(Counter)
    assert not is_gym_like(pr.wrap(Counter))
    assert not is_gym_like(environment_class("math"))


def make_counter() -> Counter:
    return Counter()


def test_a_function_that_makes_one_is_named_as_a_class_is(tmp_path: Path) -> None:
    assert pr.check(make_counter, n=1).is_sound  # type: ignore[arg-type]
    assert pr.check(pr.wrap(lambda: Counter()), n=1).is_sound
    assert pr.wrap(lambda: Counter(), name="count").name == "count"  # type: ignore[attr-defined]
    file = tmp_path / "made.py"
    file.write_text("def make():\n    return 3\n\n\ndef needs(what):\n    return what\n")
    with pytest.raises(UserError, match="a int cannot be wrapped: it has no reset and no step"):
        pr.check(f"{file}:make", n=1)
    with pytest.raises(UserError, match=r"cannot be made: TypeError: needs\(\) missing"):
        pr.check(f"{file}:needs", n=1)


def test_an_object_is_refused_with_what_to_give() -> None:
    with pytest.raises(UserError, match="an object; give its class, or a function that makes one"):
        pr.wrap(Counter())  # type: ignore[arg-type]
