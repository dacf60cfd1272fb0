from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum import ConfigModel
from practicum.core.capabilities import HasParts, parts_of, session_kind
from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError, UserError
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Trace
from practicum.core.user_code import register
from practicum.environments.mixture import MixtureEnvironment
from practicum.environments.registry import build_environment
from practicum.rewards.composite import RewardByEnvironment
from practicum.rewards.verifiable import FunctionReward

_NUMBERS = count()


def counted(called: str, train: int | None, heldout: int = 5) -> str:
    """The name of a class of environments with so many tasks; None trains without end."""

    class Counted:
        class Options(ConfigModel):
            colour: str = "red"

        name = called
        all_levels = (1,)

        def __init__(self, options: Any) -> None:
            self.options = options

        def tasks(self, split: Split, seed: int) -> Iterator[Task]:
            most = (10**9 if train is None else train) if split == "train" else heldout
            for at in range(most):
                yield Task(id=f"{called}-{split}-{seed}-{at}", env=called, split=split)

        @asynccontextmanager
        async def open(self, task: Task) -> AsyncIterator[str]:
            yield f"a session of {called}"

        def reference(self, task: Task) -> Sequence[str]:
            return (called, "done")

    Counted.__qualname__ = f"{called}{next(_NUMBERS)}"
    return register(Counted)


def mixed(*parts: Any) -> MixtureEnvironment:
    found = build_environment("mixed", {"parts": list(parts)})
    assert isinstance(found, MixtureEnvironment)
    return found


def envs(environment: MixtureEnvironment, n: int, split: Split = "train") -> list[str]:
    return [task.env for task in islice(environment.tasks(split, 0), n)]


@given(weights=st.lists(st.floats(0.1, 9.0), min_size=1, max_size=4))
def test_every_stretch_of_tasks_has_the_shares_of_the_weights(weights: list[float]) -> None:
    names = [f"e{at}" for at in range(len(weights))]
    parts = zip(names, weights, strict=True)
    environment = mixed(*({"name": counted(name, None), "weight": w} for name, w in parts))
    drawn = envs(environment, 200)
    for n in range(1, 201):
        came = Counter(drawn[:n])
        for name, weight in zip(names, weights, strict=True):
            assert abs(came[name] - n * weight / sum(weights)) < len(weights)


def test_training_tasks_that_end_begin_anew_and_heldout_ones_end() -> None:
    environment = mixed(counted("short", 2, heldout=1), counted("long", None, heldout=4))
    assert Counter(envs(environment, 100)) == {"short": 50, "long": 50}
    assert Counter(envs(environment, 100, "heldout")) == {"short": 1, "long": 4}


def test_one_without_training_tasks_is_named() -> None:
    with pytest.raises(UserError, match="'empty' gives no training task"):
        envs(mixed(counted("full", None), counted("empty", 0)), 4)


async def test_each_task_is_opened_and_solved_where_it_is_from() -> None:
    environment = mixed(counted("a", None), counted("b", None))
    for task in islice(environment.tasks("train", 0), 6):
        assert environment.reference(task) == (task.env, "done")
        assert environment.reference_turn(task, ("seen",)) == "done"
        assert environment.reference_turn(task, ("seen", "seen")) is None
        async with environment.open(task) as session:
            assert session == f"a session of {task.env}"


async def test_each_task_is_paid_by_its_own_environments_reward() -> None:
    rewards = {
        name: FunctionReward(name=name, function=lambda *_, pays=pays: pays)
        for name, pays in (("a", 0.25), ("b", 8.0))
    }
    by_environment = RewardByEnvironment(rewards=rewards)
    for name, pays in (("a", 0.25), ("b", 8.0)):
        task = Task(id="t", env=name, split="train")
        trace = Trace(id="x", task_id="t", env=name)
        assert (await by_environment.score(task, trace, Outcome(success=True))).value == pays


def test_options_of_each_are_its_own_and_checked() -> None:
    environment = mixed({"name": "math", "level": [2, 3], "weight": 2}, counted("b", None))
    assert {t.level for t in islice(environment.tasks("train", 0), 30) if t.env == "math"} == {2, 3}
    with pytest.raises(ConfigError, match="levl"):
        mixed({"name": "math", "levl": 2}, counted("b", None))


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (["math", "math"], "math is there twice"),
        (["math", {"name": "math", "level": 2}], "math is there twice"),
        (["math", {"name": "shell", "protocol": "tools"}], "protocol: text"),
        (["math", "nosuch"], "unknown environment 'nosuch'"),
        (["math", {"name": "shell", "weight": 0}], "weight"),
        ([], "parts"),
    ],
)
def test_what_cannot_be_mixed_is_told(parts: list[Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        mixed(*parts)


def test_two_classes_of_one_name_are_told() -> None:
    with pytest.raises(ConfigError, match="two of the environments are called 'twin'"):
        mixed(counted("twin", None), counted("twin", None))


def test_a_task_of_no_part_is_told() -> None:
    stray = Task(id="t", env="office", split="train")
    with pytest.raises(UserError, match="is of 'office', and the environments are math, b"):
        mixed("math", counted("b", None)).of(stray)


def test_a_config_may_list_environments() -> None:
    config = build_config({"env": ["math", {"name": "shell", "weight": 2}]}, "test")
    assert config.env is not None
    assert (config.env.name, config.env_name) == ("mixed", "mixed")
    assert config.env.options == {"parts": ["math", {"name": "shell", "weight": 2}]}
    assert build_config(config.model_dump(mode="json"), "again") == config


def test_a_mixture_is_found_by_a_tasks_text_and_knows_its_parts() -> None:
    environment = mixed(counted("b", 3), "math")
    assert environment.find("3x + 7 = 16").env == "math"
    with pytest.raises(UserError, match="is a task of none of b, math"):
        environment.find("no such thing")
    assert isinstance(environment, HasParts)
    assert list(parts_of(environment)) == ["b", "math"]
    assert list(parts_of(environment.parts["math"])) == ["math"]
    assert session_kind(environment) == "discrete"
