"""`practicum tasks`: list, show and check an environment's tasks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from practicum.cli.verdict_view import check_verdicts, print_verdicts

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.core.config.config_sections import EnvConfig
    from practicum.core.interfaces import Environment
    from practicum.core.task import Task
    from practicum.environments.checker import EnvironmentCheck, LevelCheck

CHECK_ALL = "all"


def tasks(
    env: Annotated[str, typer.Argument(metavar="ENV", help="Environment, such as math.")],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[key=value]...",
            help="Options, such as actions=free; split=heldout lists held-out tasks.",
        ),
    ] = None,
    level: Annotated[int | None, typer.Option(help="Only this level.")] = None,
    show: Annotated[
        str | None, typer.Option(metavar="ID", help="Show one task and its reference solution.")
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="Check N held-out tasks of each level (20 unless given), or all; of --data, rows.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "--repo",
            "--path",
            metavar="PATH",
            help="Your own tasks (shell), your checkout (agent-company), task folders (harbor).",
        ),
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="How many to list.")] = 10,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at an environment's tasks, and check that they are sound.

    practicum tasks math                  ten training tasks

    practicum tasks math --level 4        of level 4

    practicum tasks math --check 500      every level: reference solves all, doing nothing none

    practicum tasks shell --data entry_dict.json --check all     all tasks of a file of yours

    practicum tasks agent-company --repo PATH       every task, and what is missing for it

    practicum tasks harbor --path PATH              the same of task folders
    """
    from practicum.assemble.environments import open_environment
    from practicum.core.capabilities import HasVerdicts

    split = next((w for w in reversed(options or []) if w.startswith("split=")), "split=train")
    words = [word for word in options or [] if not word.startswith("split=")]
    config = _env_config(env, words, level, data)
    environment = open_environment(config)
    if check is not None:
        _check(environment, config, check, json_output)
    elif show is not None:
        _show(config, environment, show, json_output)
    elif isinstance(environment, HasVerdicts):
        print_verdicts(environment, json_output)
    else:
        _list(environment, split.removeprefix("split="), n, json_output)


def _env_config(env: str, options: list[str], level: int | None, data: str | None) -> "EnvConfig":
    from practicum.api import env_values
    from practicum.core.config.config_sections import EnvConfig
    from practicum.core.config.parse_config import apply_overrides
    from practicum.environments.registry import environment_class

    words = [f"env.{word.removeprefix('env.')}" for word in options]
    if level is not None:
        words.append(f"env.level={level}")
    if data is not None:
        fields = environment_class(env).Options.model_fields
        key = next((one for one in ("repo", "path") if one in fields), "data")
        words.append(f"env.{key}={data}")
    values = apply_overrides({"env": env_values(env)}, words)
    return EnvConfig.model_validate(values["env"])


def _list(environment: "Environment", split: str, n: int, json_output: bool) -> None:
    import json

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from practicum.cli.arguments import plain
    from practicum.core.errors import UserError
    from practicum.environments.registry import first_tasks

    if split not in ("train", "heldout"):
        raise UserError(f"split={split} is not a split; write split=train or split=heldout")
    found = first_tasks(environment, split, 0, n)  # type: ignore[arg-type]
    if json_output:
        print(json.dumps({"env": environment.name, "tasks": [_as_json(task) for task in found]}))
        return
    table = Table(box=None, header_style="bold")
    for heading in ("id", "level", "task"):
        table.add_column(heading, overflow="fold")
    for task in found:
        table.add_row(task.id, str(task.level), escape(plain(task.instruction)))
    Console(highlight=False).print(table)


def _show(config: "EnvConfig", environment: "Environment", named: str, json_output: bool) -> None:
    import json

    from rich.console import Console
    from rich.text import Text

    from practicum.assemble.environments import choose_task
    from practicum.cli.arguments import indented, plain

    task = choose_task(config, environment, named)
    solution = list(environment.reference(task))
    if json_output:
        print(json.dumps({**_as_json(task), "reference": solution}))
        return
    console = Console(highlight=False)
    facts = f"  ({task.id}, level {task.level}, {task.split})"
    console.print(Text.assemble((plain(task.instruction), "bold"), facts))
    if not solution:
        console.print("its solution is not written down: play it with --policy reference")
    for number, turn in enumerate(solution, 1):
        console.print(f"{number:2d}  {indented(turn)}", markup=False, emoji=False, soft_wrap=True)


def _as_json(task: "Task") -> dict[str, object]:
    return {
        "id": task.id,
        "level": task.level,
        "split": task.split,
        "instruction": task.instruction,
    }


def _check(environment: "Environment", config: "EnvConfig", check: str, quiet: bool) -> None:
    """Print what was found at each level; exit code 1 when anything falls short."""
    import asyncio
    import json

    from rich.console import Console

    from practicum.assemble.environments import check_config
    from practicum.cli.progress import CheckBar
    from practicum.core.capabilities import HasVerdicts
    from practicum.core.errors import UserError
    from practicum.environments.registry import is_own

    if check != CHECK_ALL and not (check.isdigit() and int(check) > 0):
        raise UserError(f"--check {check!r} is not a number of tasks; give one, or all")
    n = None if check == CHECK_ALL else int(check)
    if isinstance(environment, HasVerdicts):
        check_verdicts(environment, n, quiet)
    console = Console(highlight=False, stderr=quiet)
    as_list = is_own(config.name) and not quiet
    with CheckBar(Console(stderr=True), lambda one: _print_level(console, one, as_list)) as bar:
        found = asyncio.run(check_config(config, n, 0, bar))
    if quiet:
        print(json.dumps(found.as_json()))
    else:
        _print_list(console, found) if as_list else None
        _print_whole(console, found)
    raise typer.Exit(0 if found.is_sound else 1)


def _print_level(console: "Console", one: "LevelCheck", as_list: bool) -> None:
    console.print(f"level {one.level}: {_counts([one])}")
    _print_intervals(console, [one])
    if as_list:  # it tells of every level what was found
        return
    for problem in one.problems:
        console.print(f"  {problem}", style="red", markup=False)
    for warning in one.warnings:
        console.print(f"  warning: {warning}", style="yellow", markup=False)


STYLES = {"ok": "green", "wrong": "red", "warning": "yellow", "none": "dim"}


def _print_list(console: "Console", found: "EnvironmentCheck") -> None:
    """Every part of the check in the order in which they are mended."""
    from rich.text import Text

    from practicum.environments.checklist import checked_parts

    for one in checked_parts(found):
        said = [] if one.findings else [one.said]
        line = f"{one.verdict:8}{one.part:20}{''.join(said)}".rstrip()
        console.print(Text(line, STYLES[one.verdict]), soft_wrap=True)
        for finding in dict.fromkeys(finding.sentence for finding in one.findings):
            console.print(f"{'':8}{finding}", markup=False, soft_wrap=True)


def _print_whole(console: "Console", found: "EnvironmentCheck") -> None:
    if len(found.levels) > 1:
        console.print(f"together: {_counts(found.levels)}")
        _print_intervals(console, found.levels)
    warned = sum(len(one.warnings) for one in found.levels)
    sound = f"sound, but see the warnings above ({warned})" if warned else "all sound"
    console.print(sound if found.is_sound else "[red]not sound[/red]")


def _print_intervals(console: "Console", levels: "Sequence[LevelCheck]") -> None:
    if told := _intervals(levels):
        console.print(f"  95 %: {told}", style="dim", markup=False)


def _intervals(levels: "Sequence[LevelCheck]") -> str:
    """How sure the shares are, were these tasks drawn from all there are."""
    from practicum.stats.intervals import wilson_interval

    def bounds(name: str, found: "Sequence[tuple[int | None, int]]") -> str:
        known = [(count, n) for count, n in found if count is not None and n]
        if not known:
            return ""
        count, n = (sum(one) for one in zip(*known, strict=True))
        low, high = wilson_interval(count / n, n)
        return f"{name} [{low:.2f}, {high:.2f}]"

    told = (
        bounds("reference", [(one.reference_solved, one.with_reference) for one in levels]),
        bounds("do-nothing", [(one.do_nothing_paid, one.n - one.unknown) for one in levels]),
        bounds("near-miss", [(one.near_miss_solved, one.n) for one in levels]),
        bounds("random", [(one.random_solved, one.n) for one in levels]),
    )
    return ", ".join(filter(None, told))


def _counts(levels: "Sequence[LevelCheck]") -> str:
    """What was found, in numbers of tasks."""
    n, unknown = sum(one.n for one in levels), sum(one.unknown for one in levels)
    with_reference = sum(one.with_reference for one in levels)
    parts = [
        f"reference {sum(one.reference_solved for one in levels)}/{with_reference}",
        f"do-nothing {sum(one.do_nothing_paid for one in levels)}/{n - unknown}",
    ]
    missed = [one.near_miss_solved for one in levels if one.near_miss_solved is not None]
    if missed:
        parts.append(f"near-miss {sum(missed)}/{n}")
    chance = [one.random_solved for one in levels if one.random_solved is not None]
    parts.append(f"random {sum(chance)}/{n}" if chance else "random: no action is listed")
    if unknown:
        parts.append(f"success of {unknown} not known without an answer or a reward")
    if with_reference < n:
        parts.append(f"{n - with_reference} without a reference")
    return ", ".join(parts)
