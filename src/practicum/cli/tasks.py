"""`practicum tasks`: list, show and check an environment's tasks."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.assemble import LevelCheck
    from practicum.core.config import EnvConfig
    from practicum.core.interfaces import Environment
    from practicum.core.task import Task

__all__ = ["tasks"]

CHECK_ALL = "all"


def tasks(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, such as math.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Options, such as actions=free."),
    ] = None,
    level: Annotated[int | None, typer.Option(help="Only this level.")] = None,
    show: Annotated[
        str | None, typer.Option(metavar="ID", help="Show one task and its reference solution.")
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(metavar="N|all", help="Check N held-out tasks a level, or all of them."),
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="How many to list.")] = 10,
    split: Annotated[str, typer.Option(help="train or heldout.")] = "train",
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at the tasks of an environment, and check that they can be solved but not cheated.

    practicum tasks math                  ten training tasks

    practicum tasks math --level 4        of level 4

    practicum tasks math --check 500      every level: reference solves all, doing nothing none
    """
    from practicum.assemble import open_environment

    config = _env_config(env, options or [], level)
    environment = open_environment(config)
    if check is not None:
        _check(config, level, check, json_output)
    elif show is not None:
        _show(environment, show, json_output)
    else:
        _list(environment, split, n, json_output)


def _env_config(env: str, options: list[str], level: int | None) -> "EnvConfig":
    from practicum.core.config import EnvConfig, apply_overrides

    words = [f"env.{word.removeprefix('env.')}" for word in options]
    if level is not None:
        words.append(f"env.level={level}")
    values = apply_overrides({"env": {"name": env}}, words)
    return EnvConfig.model_validate(values["env"])


def _list(environment: "Environment", split: str, n: int, json_output: bool) -> None:
    import json
    from itertools import islice

    from rich.console import Console
    from rich.table import Table

    from practicum.core.errors import UserError

    if split not in ("train", "heldout"):
        raise UserError(f"--split {split!r} is not a split; choose train or heldout")
    found = list(islice(environment.tasks(split, 0), n))  # type: ignore[arg-type]
    if json_output:
        print(json.dumps({"env": environment.name, "tasks": [_as_json(task) for task in found]}))
        return
    table = Table(box=None, header_style="bold")
    for heading in ("id", "level", "task"):
        table.add_column(heading, overflow="fold")
    for task in found:
        table.add_row(task.id, str(task.level), task.instruction)
    Console(highlight=False).print(table)


def _show(environment: "Environment", named: str, json_output: bool) -> None:
    import json

    from rich.console import Console

    from practicum.assemble import find_task

    task = find_task(environment, named)
    solution = list(environment.reference(task))
    if json_output:
        print(json.dumps({**_as_json(task), "reference": solution}))
        return
    console = Console(highlight=False)
    console.print(f"[bold]{task.instruction}[/bold]  ({task.id}, level {task.level}, {task.split})")
    for number, turn in enumerate(solution, 1):
        console.print(f"{number:2d}  {turn}")


def _as_json(task: "Task") -> dict[str, object]:
    return {
        "id": task.id,
        "level": task.level,
        "split": task.split,
        "instruction": task.instruction,
    }


def _check(config: "EnvConfig", level: int | None, check: str, quiet: bool) -> None:
    """Print what was found at each level; exit code 1 when anything falls short."""
    import asyncio
    import json

    from rich.console import Console

    from practicum.assemble import check_levels
    from practicum.core.errors import UserError

    if check != CHECK_ALL and not (check.isdigit() and int(check) > 0):
        raise UserError(f"--check {check!r} is not a number of tasks; give one, or all")
    n = None if check == CHECK_ALL else int(check)
    console = Console(highlight=False, stderr=quiet)
    found = asyncio.run(check_levels(config, level, n, 0, lambda one: _print_level(console, one)))
    if quiet:
        print(json.dumps(found.as_json()))
    else:
        console.print("all sound" if found.is_sound else "[red]not sound[/red]")
    raise typer.Exit(0 if found.is_sound else 1)


def _print_level(console: "Console", one: "LevelCheck") -> None:
    chance = "no action is listed" if one.random_solved is None else f"{one.random_solved}/{one.n}"
    console.print(
        f"level {one.level}: reference {one.reference_solved}/{one.n}, "
        f"do-nothing {one.do_nothing_paid}/{one.n}, random {chance}"
    )
    for problem in one.problems:
        console.print(f"  {problem}", style="red", markup=False)
