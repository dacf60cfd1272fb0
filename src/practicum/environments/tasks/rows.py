"""Rows of a file or a function to tasks."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import ConfigError, UserError
from practicum.core.task import Split, Task
from practicum.user_code import load_callable

__all__ = ["read_tasks"]

ROW = 'rows are objects with a prompt, such as {"id": "a1", "prompt": "2 + 2 = ?", "answer": "4"}'


def read_tasks(data: str, env: str, heldout_share: float) -> list[Task]:
    """Every task, in the order of its source; ids must differ."""
    tasks: dict[str, Task] = {}
    for number, row in enumerate(_rows(data), start=1):
        task = _task(row, f"{data}, row {number}", env, heldout_share)
        if task.id in tasks:
            raise UserError(f"{data} has two rows that are called {task.id!r}; rename one of them")
        tasks[task.id] = task
    if not tasks:
        raise UserError(f"there are no tasks in {data}; {ROW}")
    return list(tasks.values())


def _rows(data: str) -> Iterator[Any]:
    if ":" in data and not Path(data).exists():
        yield from _called(data)
        return
    path = Path(data).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"env.data: there is no file {data}; give a .jsonl file, or FILE.py:FUNCTION that "
            "returns the rows"
        )
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{data} cannot be read: {error}; give a .jsonl file") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise UserError(
                    f"{data}, line {number} is not valid JSON: {error}; write one object a line"
                ) from None


def _called(data: str) -> Iterable[Any]:
    """What a user's function returns."""
    function = load_callable(data, "env.data")
    try:
        return list(function())
    except Exception as error:
        raise UserError(
            f"env.data: {data} failed: {type(error).__name__}: {error}; it takes no arguments and "
            "returns rows"
        ) from error


def _task(row: Any, where: str, env: str, heldout_share: float) -> Task:
    if not isinstance(row, Mapping) or not isinstance(row.get("prompt"), str):
        raise UserError(f"{where} has no prompt; {ROW}")
    try:
        data = json.loads(json.dumps(dict(row), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UserError(f"{where} cannot be kept as JSON: {error}; {ROW}") from None
    named = str(data.pop("id", "")) or _digest(json.dumps(data, sort_keys=True))[:12]
    prompt, level = data.pop("prompt"), data.pop("level", 1)
    if not isinstance(level, int) or isinstance(level, bool) or level < 1:
        raise UserError(f"{where} has level {level!r}; levels are whole numbers from 1")
    split = data.pop("split", None) or _side(named, heldout_share)
    if split not in ("train", "heldout"):
        raise UserError(f"{where} has split {split!r}; write train or heldout, or leave it out")
    return Task(id=named, env=env, split=split, level=level, instruction=prompt, data=data)


def _side(named: str, heldout_share: float) -> Split:
    """By the id alone, so that a task stays on its side when others are added."""
    return "heldout" if int(_digest(named)[:13], 16) / 16**13 < heldout_share else "train"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
