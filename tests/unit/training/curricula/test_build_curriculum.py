"""Which curriculum a config gives, over what an environment has."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count, cycle, islice
from typing import Any

import pytest
from tests.unit.training.curricula.simulated_groups import make_group, make_task

from practicum.assemble.driver import open_run_environment
from practicum.assemble.environments import curriculum_of
from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError
from practicum.core.task import Split, Task
from practicum.environments.registry import build_environment
from practicum.training.curricula.build_curriculum import build_curriculum
from practicum.training.curricula.measured_tasks import MeasuredTasks
from practicum.training.curricula.task_kinds import TaskKinds
from practicum.training.curriculum import TaskLedger


@dataclass
class Stream:
    """An environment of nothing but tasks; held-out ones may not be asked for."""

    stream: Any
    name: str = "e"

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        assert split == "train"
        return iter(self.stream())

    def open(self, task: Task) -> AbstractAsyncContextManager[Any]:
        raise AssertionError("nothing is opened")

    def reference(self, task: Task) -> Sequence[str]:
        return ()


def plain() -> Iterator[Task]:
    return (make_task(f"t{n}") for n in count())


def with_levels() -> Iterator[Task]:
    return (make_task(f"t{n}", 1 + n % 3) for n in count())


def with_skills() -> Iterator[Task]:
    return (make_task(f"t{n}", domain="files", skill="ab"[n % 2]) for n in count())


def with_services() -> Iterator[Task]:
    kinds = (["chat"], ["chat", "files"])
    return (make_task(f"t{n}", domain="ab"[n // 2 % 2], services=kinds[n % 2]) for n in count())


def again_and_again() -> Iterator[Task]:
    return cycle([make_task(f"t{n}") for n in range(4)])


def built(stream: Any, **config: Any) -> MeasuredTasks:
    settings = build_config({"env": "math", "curriculum": config}).curriculum
    found = build_curriculum(settings, Stream(stream), seed=0)
    assert isinstance(found, MeasuredTasks)
    return found


def buckets(curriculum: MeasuredTasks, draws: int = 200) -> set[str]:
    for task in curriculum.next_tasks(draws):
        curriculum.observe(make_group(task, [True, False]))
    metrics = curriculum.metrics()
    return {key.removeprefix("mastery_") for key in metrics if key.startswith("mastery_")}


def of_run(values: dict[str, Any], warnings: list[str] | None = None) -> Any:
    config = build_config(values)
    assert config.env is not None
    environment = build_environment(config.env.name, config.env.options)
    warn = (lambda _: None) if warnings is None else warnings.append
    return curriculum_of(config, environment, warn)


def test_without_a_word_it_is_the_environments_own_order() -> None:
    found = of_run({"env": "math", "seed": 3})
    assert isinstance(found, TaskKinds)
    assert found.metrics() == {"kinds": 0, "unsolved_kinds": []}
    own = build_environment("math", {}).tasks("train", 3)
    assert found.next_tasks(20) == list(islice(own, 20))
    assert found.state() == {"drawn": 20, "kinds": {}}
    assert of_run({"env": "math", "seed": 3, "curriculum": "none"}).next_tasks(5) == list(
        islice(build_environment("math", {}).tasks("train", 3), 5)
    )


def test_levels_come_before_skills_and_skills_before_tasks() -> None:
    assert buckets(built(with_levels, name="adaptive")) == {"level_1", "level_2", "level_3"}
    found = buckets(built(with_skills, name="adaptive"))
    assert found == {"domain_files_skill_a", "domain_files_skill_b"}
    found = buckets(built(again_and_again, name="adaptive"))
    assert found == {f"task_t{n}" for n in range(4)}


def test_what_is_measured_can_be_named() -> None:
    assert buckets(built(again_and_again, name="adaptive", by="task")) == {
        f"task_t{n}" for n in range(4)
    }
    assert buckets(built(with_services, name="adaptive", by="service")) == {
        "services_chat",
        "services_chat+files",
    }
    assert buckets(built(with_services, name="adaptive", by="domain")) == {"domain_a", "domain_b"}
    with pytest.raises(ConfigError, match=r"nothing to choose between in 'e'.* by skill;"):
        built(with_levels, name="adaptive", by="skill")


def with_families() -> Iterator[Task]:
    return (make_task(f"t{n}", family="ab"[n % 2]) for n in count())


def with_one_family() -> Iterator[Task]:
    return (make_task(f"t{n}", family="a") for n in count())


def test_where_no_curriculum_is_named_families_are_measured_and_nothing_else() -> None:
    assert build_config({"env": "math"}).curriculum.name == "auto"
    assert buckets(built(with_families, name="auto")) == {"family_a", "family_b"}
    for stream in (plain, with_levels, with_skills, with_one_family):
        settings = build_config({"env": "math"}).curriculum
        found = build_curriculum(settings, Stream(stream), seed=0)
        assert isinstance(found, TaskLedger)
        assert [task.id for task in found.next_tasks(5)] == [f"t{n}" for n in range(5)]


def test_a_run_of_math_keeps_its_order_and_a_run_of_office_goes_by_family() -> None:
    plain_order = of_run({"env": {"name": "math", "level": [1, 2]}})
    same = of_run({"env": {"name": "math", "level": [1, 2]}, "curriculum": "none"})
    assert [t.id for t in plain_order.next_tasks(20)] == [t.id for t in same.next_tasks(20)]
    office = of_run({"env": {"name": "office", "level": [1, 2]}})
    drawn = office.next_tasks(40)
    assert {task.split for task in drawn} == {"train"}
    assert len({task.data["family"] for task in drawn}) > 10


def test_nothing_to_choose_between_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"nothing to choose between.*curriculum: none"):
        built(plain, name="adaptive")
    with pytest.raises(ConfigError, match=r"needs at least two levels.*curriculum: none"):
        built(plain, name="phases")


def test_levels_that_cannot_be_asked_for_are_refused_rather_than_ignored() -> None:
    with pytest.raises(ConfigError, match=r"curriculum.levels = \[1, 2\] cannot be used"):
        built(with_levels, name="adaptive", levels=[1, 2])
    with pytest.raises(ConfigError, match=r"curriculum.levels = \[3\] cannot be used"):
        of_run({"env": "math", "curriculum": {"name": "adaptive", "levels": [3]}})


def test_phases_go_by_the_levels_of_the_tasks_where_none_can_be_asked_for() -> None:
    found = built(with_levels, name="phases")
    assert {task.level for task in found.next_tasks(20)} == {1}
    with pytest.raises(ConfigError, match=r"no task of level 7 among the first 512; .* 1, 2, 3"):
        built(with_levels, name="phases", phases=[[1], [7]])


def test_levels_are_those_of_the_environments_option_or_else_all() -> None:
    warnings: list[str] = []
    every = of_run({"env": "math", "curriculum": "adaptive"}, warnings)
    assert {task.level for task in every.next_tasks(60)} == {1, 2, 3, 4, 5}
    [warning] = warnings
    assert "env.level=[1, 2, 3, 4, 5]" in warning
    some = of_run({"env": {"name": "math", "level": [2, 4]}, "curriculum": "adaptive"}, warnings)
    assert {task.level for task in some.next_tasks(30)} == {2, 4}
    assert len(warnings) == 1


def test_levels_and_phases_can_be_given() -> None:
    env = {"name": "math", "level": [1, 2, 3]}
    named = of_run({"env": env, "curriculum": {"name": "adaptive", "levels": [3, 5]}})
    assert {task.level for task in named.next_tasks(30)} == {3, 5}
    phases = of_run({"env": env, "curriculum": {"name": "phases", "phases": [[2, 3], [1]]}})
    assert {task.level for task in phases.next_tasks(30)} == {2, 3}
    with pytest.raises(ConfigError, match="levels are 1 to 5"):
        of_run({"env": env, "curriculum": {"name": "adaptive", "levels": [1, 9]}})


def test_training_tasks_alone_are_drawn() -> None:
    found = of_run({"env": {"name": "math", "level": [1, 2]}, "curriculum": "adaptive"})
    assert {task.split for task in found.next_tasks(200)} == {"train"}


def test_a_run_is_told_of_a_curriculum_that_cannot_be_before_anything_is_made() -> None:
    config = build_config({"env": {"name": "math", "level": 1}, "curriculum": "phases"})
    with pytest.raises(ConfigError, match="needs at least two levels, and 'math' has one"):
        open_run_environment(config)


@pytest.mark.parametrize(
    ("curriculum", "sentence"),
    [
        ("rising", "curriculum.name = 'rising' cannot be used.*auto, none, phases, adaptive"),
        ({"threshold": 0.5}, "options need the curriculum's name; add name: adaptive"),
        ({"name": "none", "threshold": 0.5}, "unknown key 'curriculum.threshold'"),
        ({"name": "phases", "explore": 0.5}, "unknown key 'curriculum.explore'"),
        ({"name": "phases", "phases": [[1], []]}, "at least one level"),
        ({"name": "phases", "phases": [[1], [1, 2]]}, "each level is in one phase"),
        ({"name": "phases", "phases": [[1], [2]], "levels": [1, 2]}, "exclude each other"),
        ({"name": "adaptive", "levels": [2, 2]}, "named twice"),
        ({"name": "adaptive", "threshold": 1.5}, "curriculum.threshold = 1.5 cannot be used"),
    ],
)
def test_a_mistake_in_the_config_is_one_sentence(curriculum: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as error:
        build_config({"env": "math", "curriculum": curriculum})
    assert "\n" not in str(error.value)
