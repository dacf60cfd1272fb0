import json
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.config.parse_config import build_config
from practicum.core.errors import ConfigError, UserError
from practicum.core.task import Split, Task
from practicum.environments import registry
from practicum.environments.registry import (
    build_environment,
    build_level,
    check_first_tasks,
    environment_class,
    environment_names,
    find_task,
    first_tasks,
    heldout_tasks,
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


class Listed:
    """Gives the tasks that it was made with."""

    name = "listed"

    def __init__(self, *ids: str, words: str = "do it") -> None:
        self.ids, self.words = ids, words

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        for at, named in enumerate(self.ids):
            yield Task(id=named, env="listed", split=split, instruction=self.words, data={"at": at})


def test_two_held_out_tasks_of_one_id_are_refused_before_anything_is_loaded() -> None:
    with pytest.raises(
        UserError, match="two heldout tasks that are called 'b', one of them number"
    ):
        heldout_tasks(Listed("a", "b", "b"), 3, 0)  # type: ignore[arg-type]
    config = build_config({"env": "math", "eval": {"n": 2}}, "test")
    with pytest.raises(
        UserError, match="two train tasks that are called 'b', one of them number 3"
    ):
        check_first_tasks(config, Listed("a", "b", "b"))  # type: ignore[arg-type]


def test_training_tasks_may_come_again_as_they_were() -> None:
    class Again(Listed):
        def tasks(self, split: Split, seed: int) -> Iterator[Task]:
            yield from super().tasks(split, seed)
            yield from super().tasks(split, seed)

    config = build_config({"env": "math", "eval": {"n": 2}}, "test")
    check_first_tasks(config, Again("a", "b"))  # type: ignore[arg-type]


@given(st.lists(st.text(st.sampled_from("ab\ud800"), max_size=3), min_size=1, max_size=5))
def test_any_held_out_ids_are_taken_exactly_if_each_is_a_text_and_none_comes_twice(
    ids: list[str],
) -> None:
    is_text = all(ord(c) not in range(0xD800, 0xE000) for c in "".join(ids))
    if is_text and len(set(ids)) == len(ids):
        assert len(heldout_tasks(Listed(*ids), len(ids), 0)) == len(ids)  # type: ignore[arg-type]
    else:
        with pytest.raises(UserError, match="`tasks`"):
            heldout_tasks(Listed(*ids), len(ids), 0)  # type: ignore[arg-type]


def test_half_a_character_in_a_tasks_words_is_told_with_its_id_and_is_not_the_agents_fault() -> (
    None
):
    with pytest.raises(UserError, match=r"the task 'a' of 'listed' has '\\ud83d' in its words"):
        heldout_tasks(Listed("a", words="smile \ud83d"), 1, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["id", "prompt", "answer"])
def test_half_a_character_in_a_row_is_told_with_its_number(tmp_path: Path, key: str) -> None:
    rows = tmp_path / "rows.jsonl"
    odd = {"id": "b", "prompt": "2 + 2", "answer": "4", key: "x\ud800"}
    rows.write_text("\n".join(map(json.dumps, [{"id": "a", "prompt": "1 + 1"}, odd])))
    with pytest.raises(UserError, match=r"rows.jsonl, row 2 has '\\ud800', half of a surrogate"):
        build_environment("tasks", {"data": str(rows)})


class Leveled:
    """An environment without `find`, whose tasks are those of one level."""

    name = "leveled"

    def __init__(self, level: int, n: int = 3) -> None:
        self.level, self.n = level, n

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        for n in range(self.n):
            yield Task(id=f"{split}-{self.level}-{n}", env=self.name, split=split)


def test_a_task_of_another_level_is_found_by_its_id() -> None:
    one: Any = Leveled(1)
    others: list[Any] = [Leveled(2), Leveled(3, n=2000)]
    assert find_task(one, "heldout-3-1999", others).id == "heldout-3-1999"
    with pytest.raises(UserError, match="at any level; list them with practicum tasks"):
        find_task(one, "heldout-4-0", others)


def test_an_environment_without_a_task_says_where_to_give_some() -> None:
    empty: Any = Leveled(1, n=0)
    with pytest.raises(UserError, match=r"`tasks` \(.*, line \d+\) of 'leveled' gives no task of"):
        first_tasks(empty, "train", 0, 5)
    with pytest.raises(UserError, match=r"no task of 'heldout' .*, or write eval.n=0"):
        heldout_tasks(empty, 5, 0)
    assert len(first_tasks(Leveled(1), "train", 0, 5)) == 3


def test_tasks_that_go_round_an_empty_list_are_told_of_while_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = Event()

    class Screen(StringIO):
        def write(self, text: str) -> int:
            told.set()
            return super().write(text)

    class Rounds:
        name = "rounds"

        def tasks(self, split: Split, seed: int) -> Iterator[Task]:
            while not told.wait(0.01):
                pass
            yield Task(id="late", env=self.name, split=split)

    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    rounds: Any = Rounds()
    assert first_tasks(rounds, "train", 0, 1)[0].id == "late"
    assert "still waiting for the first task: `tasks` (test_registry.py, line" in screen.getvalue()
    assert "press Ctrl-C" in screen.getvalue()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("tac", "agent_company"),
        ("TheAgentCompany", "agent_company"),
        ("the-agent-company", "agent_company"),
        ("os_interaction", "shell"),
        ("LifelongAgentBench", "shell"),
        ("maths", "math"),
        ("shel", "shell"),
    ],
)
def test_what_others_call_an_environment_is_answered_with_our_name(theirs: str, ours: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{ours}'"):
        environment_class(theirs)


def test_a_level_that_a_class_does_not_list_is_refused_with_those_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    leveled = PLUGIN.replace('colour: str = "red"', "level: int | list[int] = 1")
    (tmp_path / "leveled.py").write_text(leveled.replace("(1,)", "(1, 2)"))
    for level in (3, [1, 3]):
        with pytest.raises(ConfigError, match=r"no level 3; there are 1, 2, so write env.level=1"):
            build_environment("leveled.py:Garden", {"level": level})
    build_environment("leveled.py:Garden", {"level": [2, 1]})


def test_a_class_with_reset_and_step_is_an_environment_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(
        "class Mine:\n"
        "    def reset(self): return 'here'\n"
        "    def get_valid_actions(self): return ['left']\n"
        "    def step(self, action): return 'there', 1.0, True, {}\n"
    )
    assert build_environment(f"{file}:Mine").name == "mine"


def test_a_class_of_neither_manner_is_told_both(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text("class Half:\n    def step(self, action): ...\n")
    with pytest.raises(UserError, match=r"as docs/environments\.md shows, or `reset` and `step`"):
        environment_class(f"{file}:Half")


WITHOUT_OFFICE = (
    "import sys; sys.modules['practicum_envs.office'] = None; "
    "from practicum.__main__ import main; main()"
)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("tasks", "math", "--n", "1"), 0, "math-1-"),
        (("tasks", "shell", "--n", "1"), 0, "gen-train"),
        (
            ("tasks", "office", "--n", "1"),
            2,
            "practicum: the environment 'office' cannot be loaded",
        ),
    ],
)
def test_an_environment_that_is_taken_away_leaves_the_rest(
    words: tuple[str, ...], code: int, told: str
) -> None:
    command = [sys.executable, "-c", WITHOUT_OFFICE, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == code, done.stderr
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_one_of_ours_that_an_old_installation_does_not_know_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    with pytest.raises(ConfigError, match=r"older than its code; .* pip install -e \."):
        environment_class("math")
