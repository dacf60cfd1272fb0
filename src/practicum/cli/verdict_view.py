"""What `practicum tasks` prints of others' tasks: which can be played, and what nothing earns."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from practicum.core.capabilities import HasVerdicts
    from practicum.core.interfaces import Environment
    from practicum.core.task import Task, TaskVerdict

RUNS = "runs"
NOT_COMPARABLE = "not comparable"
"""A task whose scores rest on stand-ins."""
PAID_FOR_NOTHING = "full marks for nothing"
AT_ONCE = 2
"""Tasks that are graded together."""


def print_verdicts(environment: "HasVerdicts", json_output: bool) -> None:
    """Every task with its verdict, and how many of each there are."""
    found = environment.verdicts()
    if json_output:
        print(json.dumps({"tasks": [_as_json(one) for one in found], "counts": _counts(found)}))
        return
    rows = [(one.task.id, _verdict(one), _why(one)) for one in found]
    _print_table(("id", "verdict", "what is missing, differs, or was found"), rows)
    print("; ".join(f"{what}: {number}" for what, number in _counts(found).items()))


def _counts(found: "Sequence[TaskVerdict]") -> dict[str, int]:
    missing = Counter(part.partition(" (")[0] for one in found for part in one.missing)
    runs = sum(not one.missing for one in found)
    rest_on = sum(not one.missing and bool(one.task.stand_ins) for one in found)
    counts = {RUNS: runs, "in all": len(found), NOT_COMPARABLE: rest_on}
    return {**counts, **dict(missing.most_common(8))}


def _as_json(one: "TaskVerdict") -> dict[str, object]:
    return {
        "id": one.task.id,
        "runs": not one.missing,
        "comparable": not one.task.stand_ins,
        "missing": list(one.missing),
        "found": list(one.found),
        "notes": list(one.notes),
    }


def _verdict(one: "TaskVerdict") -> str:
    if one.missing:
        return "missing"
    return f"{RUNS}, {NOT_COMPARABLE}" if one.task.stand_ins else RUNS


def _why(one: "TaskVerdict") -> str:
    found = [f"found {', '.join(one.found)}"] if one.found else []
    return "; ".join([*(one.missing or one.notes), *found])


def check_verdicts(environment: "Environment", n: int | None, json_output: bool) -> None:
    """Grade tasks with nothing done, and with their references; exit code 1 where one fails.

    Every task is graded, runnable or not; only those that run have to come to a result. Where some
    are for training, none may be solved by doing nothing.
    """
    import asyncio

    from practicum.core.capabilities import IsTestSet
    from practicum.environments.registry import run_and_close

    rows = asyncio.run(run_and_close(environment, _played(environment, n)))
    counts = {
        "graded": sum("nothing" in one for one in rows),
        "not graded": sum("nothing" not in one for one in rows),
        "points for nothing": sum(one.get("nothing", [0])[0] > 0 for one in rows),
        PAID_FOR_NOTHING: sum(_is_full(one.get("nothing")) for one in rows),
        "references": sum(one["has_reference"] for one in rows),
        "references with full marks": sum(_is_full(one.get("reference")) for one in rows),
    }
    if json_output:
        print(json.dumps({"tasks": rows, "counts": counts}))
    else:
        shown = [
            (
                one["id"],
                RUNS if one["runs"] else "missing",
                _points(one, "nothing"),
                _reference(one),
            )
            for one in rows
        ]
        _print_table(("id", "verdict", "nothing", "reference"), shown)
        print("; ".join(f"{what}: {number}" for what, number in counts.items()))
    is_sound = all("nothing" in one for one in rows if one["runs"])
    solved = counts["references"] == counts["references with full marks"]
    paid = counts[PAID_FOR_NOTHING] > 0 and not isinstance(environment, IsTestSet)
    raise typer.Exit(0 if is_sound and solved and not paid else 1)


def _is_full(points: list[float] | None) -> bool:
    return bool(points) and points is not None and points[0] == points[1]


def _points(row: dict[str, Any], played: str) -> str:
    given = row.get(played)
    return f"{given[0]:g} of {given[1]:g}" if given else str(row.get(f"{played}_failure", ""))


def _reference(row: dict[str, Any]) -> str:
    return _points(row, "reference") if row["has_reference"] else "none is written down"


async def _played(environment: Any, n: int | None) -> list[dict[str, Any]]:
    """What doing nothing and the reference earn, task by task."""
    import asyncio

    from rich.console import Console

    from practicum.cli.progress import CheckBar
    from practicum.core.errors import EnvironmentFailure
    from practicum.environments.reference_policies import ScriptActor, play_episode

    slots = asyncio.Semaphore(AT_ONCE)

    async def play(row: dict[str, Any], name: str, task: "Task", turns: Sequence[str]) -> None:
        try:
            found = await play_episode(environment, task, ScriptActor(turns), len(turns) + 1)
        except EnvironmentFailure as failure:
            row[f"{name}_failure"] = str(failure)
            return
        given: Any = found.outcome.evidence["checkpoints"]
        row[name] = [sum(one[key] for one in given) for key in ("result", "points")]

    async def check(one: "TaskVerdict") -> dict[str, Any]:
        turns = () if one.missing else environment.reference(one.task)
        row = {"id": one.task.id, "runs": not one.missing, "has_reference": bool(turns)}
        async with slots:
            await play(row, "nothing", one.task, ())
            if turns:
                await play(row, "reference", one.task, turns)
        bar.task_done()
        return row

    found = environment.verdicts()[:n]
    with CheckBar(Console(stderr=True), lambda _: None) as bar:
        bar.begin(len(found))
        return list(await asyncio.gather(*map(check, found)))


def _print_table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    Console(highlight=False).print(table)
