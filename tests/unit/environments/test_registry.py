from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError, UserError
from practicum.core.task import Split, Task
from practicum.environments.registry import (
    build_environment,
    build_level,
    environment_class,
    environment_names,
    find_task,
    shared_tasks,
)

PLUGIN = """
from practicum.core.config.config_sections import ConfigModel

class Options(ConfigModel):
    colour: str = "red"

class Garden:
    name = "garden"
    Options = Options
    all_levels = (1,)
    def __init__(self, options):
        self.options = options
    def tasks(self, split, seed):
        return iter(())
    def open(self, task):
        raise NotImplementedError

class Bare:
    pass
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package that brings environments, good and bad."""
    (tmp_path / "garden_package.py").write_text(PLUGIN)
    info = tmp_path / "garden_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: garden-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[practicum.environments]\n"
        "garden = garden_package:Garden\n"
        "bare = garden_package:Bare\n"
        "gone = garden_package:Gone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_math_is_built_by_name_with_its_options() -> None:
    task = next(build_environment("math", {"level": 4}).tasks("train", 0))
    assert (task.env, task.level) == ("math", 4)
    assert "math" in environment_names()


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        (
            "maths",
            {},
            "unknown environment 'maths'; did you mean 'math'? known are agent_company",
        ),
        ("math", {"levle": 2}, "unknown key 'env.levle'; did you mean 'env.level'?"),
        ("math", {"level": 6}, "env.level = 6 cannot be used: levels are 1 to 5"),
        ("math", {"level": []}, "env.level = [] cannot be used: levels are 1 to 5"),
        ("math", {"level": [1, 0]}, "env.level = [1, 0] cannot be used"),
        ("math", {"level": [[1]]}, "env.level = [[1]] cannot be used"),
        ("math", {"level": True}, "env.level = True cannot be used"),
        ("math", {"actions": "loose"}, "env.actions = 'loose' cannot be used"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_key(
    name: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build_environment(name, options)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("plugins")
def test_a_package_of_ones_own_adds_an_environment() -> None:
    assert {"garden", "math"} <= set(environment_names())
    garden: Any = build_environment("garden", {"colour": "blue"})
    assert garden.options.colour == "blue"
    assert environment_class("garden").all_levels == (1,)
    with pytest.raises(ConfigError, match=r"env\.color.*did you mean 'env\.colour'"):
        build_environment("garden", {"color": "blue"})


@pytest.mark.usefixtures("plugins")
def test_a_level_is_asked_for_only_where_there_is_such_an_option() -> None:
    assert next(build_level("math", 3, {"level": 1}).tasks("train", 0)).level == 3
    garden: Any = build_level("garden", 1, {"colour": "blue"})
    assert garden.options.colour == "blue"


@pytest.mark.usefixtures("plugins")
def test_a_package_that_cannot_be_used_is_named() -> None:
    with pytest.raises(UserError, match=r"'gone' cannot be loaded from 'garden_package:Gone'"):
        build_environment("gone")
    with pytest.raises(UserError, match=r"Bare' has no Options and no all_levels"):
        build_environment("bare")


def test_a_path_without_its_ending_is_told_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"give FILE\.py:Class"):
        environment_class("/tmp/lamps:Lamps")


def test_a_task_is_found_by_its_id_where_the_environment_cannot_look_it_up() -> None:
    class Listed:
        name = "listed"

        def tasks(self, split: Split, seed: int) -> Iterator[Task]:
            for n in range(3):
                yield Task(id=f"{split}-{n}", env=self.name, split=split)

    listed: Any = Listed()
    assert find_task(listed, "heldout-2").split == "heldout"
    assert find_task(listed, "train-1").split == "train"
    with pytest.raises(UserError, match=r"'other' is the id of none of the first .* find\(text\)"):
        find_task(listed, "other")


def test_a_task_of_both_splits_is_named() -> None:
    class Overlapping:
        def tasks(self, split: Split, seed: int) -> Iterator[Task]:
            first = 0 if split == "train" else 7
            for n in range(first, first + 10):
                yield Task(id=f"t{n}", env="overlapping", split=split)

    environment: Any = Overlapping()
    own = build_config({"env": "mine.py:Overlapping", "eval": {"n": 5}})
    assert shared_tasks(own, environment) == [
        "3 of 5 held-out tasks are training tasks too, such as 't7': held-out figures are too good"
    ]
