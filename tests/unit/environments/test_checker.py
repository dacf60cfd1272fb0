"""The checker finds what is wrong: each test breaks a small environment in one way."""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message
from practicum.environments.checker import EnvironmentCheck, LevelCheck, check_environment
from practicum.environments.checklist import PARTS, checked_parts


@dataclass
class CoinSession:
    """Say `heads`, twice; each pays 1."""

    task: Task
    rewards: list[float] = field(default_factory=list)

    def __hash__(self) -> int:
        return id(self)

    def prompt(self) -> list[Message]:
        return [Message(role="user", content=self.task.instruction)]

    def actions(self) -> tuple[ActionForm, ...]:
        return (ActionForm(name="heads"), ActionForm(name="tails"))

    async def act(self, text: str) -> Observation:
        if len(self.rewards) >= 2:
            raise RuntimeError("over")
        self.rewards.append(float(text == "heads"))
        message = Message(role="user", content=f"{text} it is")
        return Observation(
            message=message, reward=self.rewards[-1], terminated=len(self.rewards) == 2
        )

    async def outcome(self) -> Outcome:
        return Outcome(success=self.rewards == [1.0, 1.0], turn_rewards=tuple(self.rewards))


class CoinEnvironment:
    """Endless sound tasks; subclasses break one thing each."""

    name: str = "coin"
    session: type[CoinSession] = CoinSession

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        for n in count(seed * 1000):
            yield self.row(split, n)

    def row(self, split: Split, n: int) -> Task:
        return Task(
            id=f"coin-{split}-{n}",
            env="coin",
            split=split,
            instruction=f"{split} coin {n}",
            data={"n": n},
        )

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[CoinSession]:
        yield self.session(task)

    def reference(self, task: Task) -> Sequence[str]:
        return ["heads", "heads"]


async def check(environment: Any, n: int = 12) -> LevelCheck:
    report = await check_environment(lambda level: environment, levels=[1], n=n, seed=0)
    assert report.is_sound == report.levels[0].is_sound
    return report.levels[0]


async def test_a_sound_environment_passes_and_chance_is_reported() -> None:
    found = await check(CoinEnvironment(), n=200)
    assert found.is_sound
    assert (found.n, found.reference_solved, found.do_nothing_paid) == (200, 200, 0)
    assert found.random_solved is not None
    assert 30 <= found.random_solved <= 70
    assert found.problems == ()


class Halfway(CoinEnvironment):
    """Its sessions can act, and nothing says how."""

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncIterator[Any]:
        whole = CoinSession(task)
        yield SimpleNamespace(prompt=whole.prompt, act=whole.act, outcome=whole.outcome)


async def test_a_session_that_is_of_neither_kind_is_said_to_lack_something() -> None:
    found = await check(Halfway(), n=1)
    assert not found.is_sound
    assert found.problems[0].startswith("task 'coin-heldout-0': its session, a SimpleNamespace")
    assert found.problems[0].endswith("either actions and act or tools and call")


class FreePoints(CoinSession):
    async def outcome(self) -> Outcome:
        return Outcome(success=True, turn_rewards=tuple(self.rewards))


class Unsolvable(CoinSession):
    async def outcome(self) -> Outcome:
        return Outcome(success=False, turn_rewards=tuple(self.rewards))


class Unsaid(CoinSession):
    async def outcome(self) -> Outcome:
        return Outcome(success=None if len(self.rewards) < 2 else True, turn_rewards=(1.0, 1.0))


class Silent(CoinSession):
    def prompt(self) -> list[Message]:
        return [Message(role="user", content=" ")]


class Mute(CoinSession):
    async def act(self, text: str) -> Observation:
        seen = await super().act(text)
        return replace(seen, message=Message(role="user", content=""))


class NeverOver(CoinSession):
    async def act(self, text: str) -> Observation:
        if len(self.rewards) < 2:
            return await super().act(text)
        return Observation(message=Message(role="user", content="more"), terminated=True)


class Misreported(CoinSession):
    async def outcome(self) -> Outcome:
        return Outcome(success=self.rewards == [1.0, 1.0], turn_rewards=(5.0,) * len(self.rewards))


class Moody(CoinSession):
    openings = count()

    def prompt(self) -> list[Message]:
        return [Message(role="user", content=f"opening {next(self.openings)}")]


class Fickle(CoinSession):
    changes = count()

    async def act(self, text: str) -> Observation:
        seen = await super().act(text)
        self.rewards[-1] += next(self.changes) * 1e-3
        return replace(seen, reward=self.rewards[-1])

    async def outcome(self) -> Outcome:
        return Outcome(success=len(self.rewards) == 2, turn_rewards=tuple(self.rewards))


class Unlisted(CoinSession):
    def actions(self) -> tuple[ActionForm, ...]:
        return (ActionForm(name="tails"), ActionForm(name="edge"))


class Twins(CoinSession):
    def actions(self) -> tuple[ActionForm, ...]:
        return (ActionForm(name="heads"), ActionForm(name="heads"))


class Nameless(CoinSession):
    def actions(self) -> tuple[ActionForm, ...]:
        return (*super().actions(), ActionForm(name=""))


class Padded(CoinSession):
    def actions(self) -> tuple[ActionForm, ...]:
        return (*super().actions(), ActionForm(name="edge "))


class BrokenLine(CoinSession):
    def actions(self) -> tuple[ActionForm, ...]:
        late = (ActionForm(name="on\nedge"),) if self.rewards else ()
        return (*super().actions(), *late)


class Renaming(CoinSession):
    names = count()

    def actions(self) -> tuple[ActionForm, ...]:
        return (*super().actions(), ActionForm(name=f"edge {next(self.names)}"))


class RenamedLater(CoinSession):
    openings = count()

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.edge = f"edge {next(self.openings)}"

    def actions(self) -> tuple[ActionForm, ...]:
        return (*super().actions(), ActionForm(name=self.edge))


class UsingUpItsTask(CoinSession):
    async def act(self, text: str) -> Observation:
        data: Any = self.task.data
        data["n"] += 1
        return await super().act(text)


class Breaking(CoinSession):
    async def act(self, text: str) -> Observation:
        raise OSError("the coin is lost")


@pytest.mark.parametrize(
    ("session", "sentence"),
    [
        (Unsolvable, "the reference does not solve it"),
        (Silent, "the prompt is empty"),
        (Mute, "is answered with nothing"),
        (NeverOver, "the session goes on after its end; let `act` raise an error then"),
        (Misreported, "turn rewards are not what the turns paid"),
        (Moody, "opens with another prompt"),
        (Fickle, "gave another result the second time"),
        (Unlisted, "cannot be written with its actions"),
        (Twins, "two actions have the same name 'heads'; give one of them another"),
        (Nameless, "an action has the name ''; give it a word"),
        (Padded, "the action 'edge ' begins or ends with a space"),
        (BrokenLine, r"the action 'on\nedge' has a line break"),
        (Renaming, "`actions` gives others when it is asked twice before a turn"),
        (RenamedLater, "a second session opens with other actions"),
        (UsingUpItsTask, "its sessions change its data, so it is another task the next time"),
        (Breaking, "OSError: the coin is lost"),
    ],
)
async def test_a_session_that_breaks_its_promise_is_found(
    session: type[CoinSession], sentence: str
) -> None:
    environment = CoinEnvironment()
    environment.session = session
    found = await check(environment)
    assert not found.is_sound
    assert any(sentence in problem for problem in found.problems), found.problems


@pytest.mark.parametrize("session", [FreePoints, Unsaid])
async def test_pay_or_success_for_doing_nothing_is_found(session: type[CoinSession]) -> None:
    environment = CoinEnvironment()
    environment.session = session
    found = await check(environment)
    assert found.do_nothing_paid == found.n == 12
    assert not found.is_sound


class SharedTasks(CoinEnvironment):
    def row(self, split: Split, n: int) -> Task:
        return replace(super().row(split, 1), split=split, id=f"{split}-{n}", instruction="same")


class SameIds(CoinEnvironment):
    def row(self, split: Split, n: int) -> Task:
        return replace(super().row(split, n), id="one")


class Numbered(CoinEnvironment):
    """Its ids count the tasks of a seed, whatever they are."""

    def row(self, split: Split, n: int) -> Task:
        return replace(super().row(split, n), id=f"coin-{split}-{n % 1000}")


class Repeating(CoinEnvironment):
    def row(self, split: Split, n: int) -> Task:
        return super().row(split, n // 2)


class WrongSide(CoinEnvironment):
    def row(self, split: Split, n: int) -> Task:
        return replace(super().row(split, n), split="train")


class WrongLevel(CoinEnvironment):
    def row(self, split: Split, n: int) -> Task:
        return replace(super().row(split, n), level=3)


class NotJson(CoinEnvironment):
    def row(self, split: Split, n: int) -> Task:
        data: Any = {"n": {n}}
        return replace(super().row(split, n), data=data)


class Unrepeatable(CoinEnvironment):
    def __init__(self) -> None:
        self.made = count()

    def row(self, split: Split, n: int) -> Task:
        return super().row(split, next(self.made))


class Few(CoinEnvironment):
    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        yield from (self.row(split, seed * 1000 + n) for n in range(5))


class NoTasks(CoinEnvironment):
    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        return iter(())


class NoTraining(CoinEnvironment):
    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        yield from super().tasks(split, seed) if split == "heldout" else ()


class TooHighMarks(CoinEnvironment):
    def full_marks(self, task: Task) -> float:
        return 3.0


class LongReference(CoinEnvironment):
    def reference(self, task: Task) -> Sequence[str]:
        return ["heads"] * 3


class BrokenSupply(CoinEnvironment):
    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        raise KeyError("no tasks today")


async def test_fewer_tasks_than_asked_for_are_all_checked_and_told() -> None:
    found = await check(Few())
    assert (found.is_sound, found.n) == (True, 5)
    [tasks] = [one for one in checked_parts(of_one(found)) if one.part == "tasks"]
    assert tasks.said.startswith("5 looked at, all that level 1 has: ids")


def of_one(level: LevelCheck) -> EnvironmentCheck:
    return EnvironmentCheck(env="coin", seed=0, levels=(level,))


async def test_the_list_has_every_part_in_order_and_says_which_is_wrong() -> None:
    sound = list(checked_parts(of_one(await check(CoinEnvironment()))))
    assert [one.part for one in sound] == list(PARTS)
    assert {one.part: one.verdict for one in sound if one.verdict != "ok"} == {
        "near-misses": "none"  # it knows of none
    }
    wrong = list(checked_parts(of_one(await check(LongReference()))))
    assert {one.part for one in wrong if one.verdict == "wrong"} == {"reference"}
    [reference] = [one for one in wrong if one.part == "reference"]
    assert "the episode ends before the reference does" in reference.findings[0].sentence


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (SharedTasks, "both in training and held out"),
        (SameIds, "the id 'one' stands for two tasks"),
        (Numbered, "stands for two tasks; let it say what the task is, such as a hash"),
        (Repeating, "repeats within the first 50 held-out tasks"),
        (WrongSide, "tasks of 'heldout' say they belong to another split"),
        (WrongLevel, "says env 'coin', level 3"),
        (NotJson, "holds data that is not JSON"),
        (Unrepeatable, "the same seed does not give the same tasks"),
        (NoTasks, "there are no tasks to check"),
        (NoTraining, "there are no training tasks"),
        (TooHighMarks, "the reference earns 2.0, full marks are 3.0"),
        (LongReference, "the episode ends before the reference does"),
        (BrokenSupply, "KeyError: 'no tasks today'"),
    ],
)
async def test_a_supply_that_breaks_its_promise_is_found(
    make: Callable[[], CoinEnvironment], sentence: str
) -> None:
    found = await check(make())
    assert not found.is_sound
    assert any(sentence in problem for problem in found.problems), found.problems


class Free(CoinSession):
    def actions(self) -> tuple[ActionForm, ...]:
        return ()


async def test_without_listed_actions_there_is_no_random_figure() -> None:
    environment = CoinEnvironment()
    environment.session = Free
    found = await check(environment)
    assert found.is_sound
    assert found.random_solved is None


async def test_levels_are_reported_one_by_one_and_as_json() -> None:
    told: list[int] = []

    def build(level: int) -> CoinEnvironment:
        environment = CoinEnvironment()
        environment.row = lambda split, n: replace(  # type: ignore[method-assign]
            CoinEnvironment.row(environment, split, n), level=level
        )
        return environment

    report = await check_environment(
        build, levels=[1, 2], n=3, seed=0, report=lambda level: told.append(level.level)
    )
    assert told == [1, 2]
    written = json.loads(json.dumps(report.as_json()))
    assert written["is_sound"] is True
    assert [level["reference_solved"] for level in written["levels"]] == [3, 3]


async def test_no_levels_is_not_sound() -> None:
    report = await check_environment(lambda level: CoinEnvironment(), levels=[], n=3)
    assert not report.is_sound


class TenFlips(CoinSession):
    """It ends after ten coins."""

    async def act(self, text: str) -> Observation:
        self.rewards.append(0.1)
        is_over = len(self.rewards) == 10
        message = Message(role="user", content=f"{len(self.rewards)} of 10")
        return Observation(message=message, reward=0.1, terminated=is_over)

    async def outcome(self) -> Outcome:
        return Outcome(success=len(self.rewards) == 10, turn_rewards=tuple(self.rewards))


class LongSolutions(CoinEnvironment):
    session = TenFlips

    def reference(self, task: Task) -> Sequence[str]:
        return ["heads"] * 10


async def test_references_longer_than_an_episode_are_told_with_what_to_type() -> None:
    told = [w for w in (await check(LongSolutions(), n=3)).warnings if "max_turns" in w]
    sentence = "3 of 3 references have more than 8 turns; type rollouts.max_turns=10 when you train"
    assert told == [sentence]


class Unanswered(CoinSession):
    async def outcome(self) -> Outcome:
        return Outcome(success=None)


class OwnRows(CoinEnvironment):
    """A list of tasks without answers, as with a reward of one's own."""

    session = Unanswered

    def every_task(self) -> list[Task]:
        return [self.row("train", n) for n in range(5)]

    def reference(self, task: Task) -> Sequence[str]:
        return ()


async def test_an_outcome_that_nobody_can_tell_is_not_pay_for_doing_nothing() -> None:
    found = await check(OwnRows(), n=5)
    assert (found.do_nothing_paid, found.unknown) == (0, 5)
    assert found.is_sound
