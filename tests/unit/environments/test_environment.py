import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum.environments.checker import check_environment
from practicum.environments.registry import build_environment

ROWS = [{"id": f"sum-{n}", "prompt": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(60)]


def write(folder: Path, rows: list[Any]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    return str(path)


def make(folder: Path, rows: list[Any] = ROWS, **options: Any) -> Any:
    return build_environment("tasks", {"data": write(folder, rows), **options})


def test_rows_are_tasks_and_what_else_they_hold_is_data(tmp_path: Path) -> None:
    rows = [{"id": 7, "prompt": "Say hi", "level": 2, "split": "train", "names": ["a"], "n": 1.5}]
    (task,) = make(tmp_path, rows).every_task()
    assert (task.id, task.env, task.split, task.level) == ("7", "tasks", "train", 2)
    assert task.instruction == "Say hi"
    assert task.data == {"names": ["a"], "n": 1.5}


def test_a_side_follows_from_the_id_alone(tmp_path: Path) -> None:
    environment = make(tmp_path, heldout_share=0.3)
    sides = {task.id: task.split for task in environment.every_task()}
    share = sum(side == "heldout" for side in sides.values()) / len(sides)
    assert 0.15 < share < 0.45
    fewer = {t.id: t.split for t in make(tmp_path, ROWS[10:30], heldout_share=0.3).every_task()}
    assert fewer == {name: sides[name] for name in fewer}
    heldout = [task.id for task in environment.tasks("heldout", 0)]
    assert sorted(heldout) == sorted(name for name, side in sides.items() if side == "heldout")


def test_training_tasks_come_again_in_an_order_of_the_seed(tmp_path: Path) -> None:
    environment = make(tmp_path)
    count = sum(task.split == "train" for task in environment.every_task())

    def order(seed: int) -> list[str]:
        return [task.id for task in islice(environment.tasks("train", seed), 2 * count)]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)[:count]) == sorted(order(1)[count:])


async def test_an_answer_is_compared_with_the_rows(tmp_path: Path) -> None:
    environment = make(tmp_path, system="Be brief.")
    task = environment.find("sum-3")
    for said, success in (("4", True), (" 4\n", True), ("5", False), (None, False)):
        async with environment.open(task) as session:
            assert [m.content for m in session.prompt()] == ["Be brief.", "3 + 1 = ?"]
            if said is not None:
                assert (await session.act(said)).terminated
            assert (await session.outcome()).success is success
    without = make(tmp_path, [{"id": "a", "prompt": "Write a poem"}])
    async with without.open(without.find("a")) as session:
        await session.act("Roses")
        outcome = await session.outcome()
    assert outcome.success is None
    assert outcome.evidence["answer"] == "Roses"
    assert list(without.reference(without.find("a"))) == []


async def test_a_check_of_the_tasks_goes_through(tmp_path: Path) -> None:
    environment = make(tmp_path)
    found = await check_environment(lambda level: environment, levels=[1], n=20)
    assert found.is_sound, found.levels[0].problems
    assert found.levels[0].reference_solved == 20


def test_rows_come_from_a_function_of_the_users_too(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text("def rows():\n    yield {'prompt': 'hi'}\n")
    environment = build_environment("tasks", {"data": f"{tmp_path}/made.py:rows"})
    (task,) = environment.every_task()  # type: ignore[attr-defined]
    assert (task.instruction, len(task.id)) == ("hi", 12)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "there are no tasks in"),
        ([{"id": "a"}], "row 1 has no prompt"),
        (["a"], "row 1 has no prompt"),
        ([{"id": "a", "prompt": "x"}] * 2, "two rows that are called 'a'"),
        ([{"prompt": "x", "split": "test"}], "split 'test'; write train or heldout"),
        ([{"prompt": "x", "level": 0}], "level 0; levels are whole numbers from 1"),
    ],
)
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, rows: list[Any], said: str) -> None:
    with pytest.raises(UserError) as wrong:
        make(tmp_path, rows)
    assert said in str(wrong.value)


def test_a_source_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.jsonl").write_text('{"prompt": "x"}\n{"prompt"\n')
    (tmp_path / "bad.py").write_text("def rows():\n    raise OSError('no disk')\n")
    for data, said in (
        (f"{tmp_path}/none.jsonl", "there is no file"),
        (f"{tmp_path}/broken.jsonl", "line 2 is not valid JSON"),
        (f"{tmp_path}/bad.py:rows", "OSError: no disk"),
        (f"{tmp_path}/bad.py:tasks", "has no function 'tasks'; it has rows"),
    ):
        with pytest.raises(UserError) as wrong:
            build_environment("tasks", {"data": data})
        assert said in str(wrong.value)
