"""A user's file: its shapes, what is wrong with a row, and how programs are judged by its tests."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum_envs.code.tests.code_play import environment, played
from practicum_envs.code.user_rows import read_row, user_tasks

HUMAN_EVAL = {
    "task_id": "HumanEval/900",
    "prompt": 'def add(a, b):\n    """Adds two numbers, so that 1 and 2 give 3."""\n',
    "entry_point": "add",
    "canonical_solution": "    return a + b\n",
    "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n"
    "    total = candidate(1, 1)\n    assert candidate(total, b=4) == 6\n"
    "    for n in range(3):\n        assert candidate(n, n) == 2 * n\n",
}
MBPP = {
    "task_id": 901,
    "text": "Write a function to make a list of the squares up to n.",
    "code": "def squares(n):\n    return [i * i for i in range(1, n + 1)]",
    "test_setup_code": "",
    "test_list": [
        "assert squares(1) == [1]",
        "assert squares(3) == [1, 4, 9]",
        "assert sum(squares(2)) == 5",
    ],
    "challenge_test_list": [],
}
WITH_TESTS = {
    "id": "double",
    "prompt": "Write double(x), and print double of the number that is read.",
    "tests": [{"call": "double(4)", "expect": 8}, {"stdin": "3\n", "stdout": "6"}],
    "solution": "def double(x):\n    return 2 * x\n\n\n"
    "if __name__ == '__main__':\n    print(double(int(input())))\n",
}
ROWS = (HUMAN_EVAL, MBPP, WITH_TESTS)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return str(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"prompt": "x"}, "has no tests; rows are objects in the shape of HumanEval"),
        ({"tests": [{"call": "f()", "expect": 1}]}, "has no prompt"),
        ({"prompt": "x", "test": "f(", "entry_point": "f"}, "its test is no Python"),
        ({"prompt": "x", "test": "x = 1", "entry_point": "f"}, "defines no check"),
        ({"text": "x", "test_list": []}, "no test in its test_list"),
        ({"text": "x", "test_list": ["assert 1 == 1"]}, "calls no function"),
        ({"prompt": "x", "tests": [{"call": "f()"}]}, "has the test"),
        ([1], "is no object"),
    ],
)
def test_a_row_that_cannot_be_used_is_told_so(row: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_row(row, "rows.jsonl, row 1")


def test_each_assertion_of_a_check_is_a_test_of_its_own() -> None:
    problem = read_row(HUMAN_EVAL, "row 1")
    assert [one.count("assert") for one in problem.assertions] == [1, 1, 1]
    assert "total = candidate(1, 1)" in problem.assertions[1]


def test_a_file_is_split_by_the_ids_of_its_rows(tmp_path: Path) -> None:
    rows = [{**MBPP, "task_id": number} for number in range(200)]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    tasks = user_tasks(str(path), "code", 0.2)
    held = {one.id for one in tasks if one.split == "heldout"}
    assert 20 < len(held) < 60
    again = user_tasks(str(path), "code", 0.2)
    assert held == {one.id for one in again if one.split == "heldout"}


needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")


@needs_bwrap
async def test_solutions_of_every_shape_earn_full_marks(file: str) -> None:
    env = environment(data=file)
    for task in env.every_task() or ():
        _, total, outcome = await played(env, task, env.reference(task))
        assert outcome.success, outcome.evidence
        assert total == pytest.approx(1.0)
        _, total, outcome = await played(env, task, ())
        assert (total, outcome.success) == (0.0, False)
    await env.close()


@needs_bwrap
async def test_a_turn_of_code_alone_is_handed_in(file: str) -> None:
    env = environment(data=file)
    task = env.find("HumanEval/900")
    said, total, outcome = await played(env, task, ["```python\n    return a + b\n```"])
    assert outcome.success
    assert said == ["3 of 3 tests are met."]
    assert total == pytest.approx(1.0)
    await env.close()


CHEATS = {
    "by heart": "def squares(n):\n    return [1]",
    "equal to all": "class S(list):\n    def __eq__(self, other):\n        return True\n\n"
    "def squares(n):\n    return S()",
    "changed asserts": "import builtins\nbuiltins.AssertionError = Exception\n\n"
    "def squares(n):\n    return None",
    "the table": "import gc\n\ndef squares(n):\n    return [o for o in gc.get_objects() "
    "if isinstance(o, str) and 'assert' in o]",
    "leaves": "import os\n\ndef squares(n):\n    os._exit(0)",
}


@needs_bwrap
@pytest.mark.parametrize("name", CHEATS)
async def test_a_users_tests_are_not_met_by_tricks(file: str, name: str) -> None:
    env = environment(data=file)
    turns = [f"write_function\n{CHEATS[name]}", "submit"]
    said, total, outcome = await played(env, env.find("901"), turns)
    assert said[-1] == "0 of 2 tests are met."
    assert outcome.success is False
    assert total < 0
    await env.close()


@needs_bwrap
async def test_own_assertions_and_the_shown_one_can_be_run(file: str) -> None:
    env = environment(data=file)
    turns = ["write_function\ndef squares(n):\n    return [n]", "test_code\nsquares(2) == [1, 4]"]
    said, _, _ = await played(env, env.find("901"), turns)
    assert said[1] == "1 of 2 assertions hold.\nIt fails: assert squares(2) == [1, 4]"
    await env.close()
