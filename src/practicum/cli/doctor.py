"""`practicum doctor`: what is here, what fits, what to install."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from practicum.core.config.run_config import RunConfig
    from practicum.engine.planning.cards import Card, RunEstimate
    from practicum.engine.planning.machine import Machine
    from practicum.engine.planning.memory_plan import MemoryPlan
    from practicum.engine.planning.profiles import Profile

FALLS_SHORT = 1


def doctor(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[key=value]...", help="Values that win over the config's."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="CONFIG|ENV", help="Plan the memory of this run."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Suggest settings for auto, cpu, gpu or ryzen."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(metavar="CARD", help="Plan for a card that is not here, such as h200."),
    ] = None,
    price: Annotated[
        float | None, typer.Option(min=0.0, help="Dollars an hour of that card.")
    ] = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Try out the kinds of sandbox instead.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Look at the machine: cores, memory, devices, packages, what fits.

    practicum doctor                                       what is here

    practicum doctor --config configs/demo.yaml            will this run fit

    practicum doctor --config math model.dtype=bfloat16    and with this change

    practicum doctor --config math --device rtx4090   on a card that is not here

    practicum doctor --sandbox                  where untrusted commands can run

    Exit code 0 when all is well, 1 when the run does not fit or a part it needs is missing.
    """
    if sandbox:
        from practicum.cli.sandbox import report_sandboxes

        report_sandboxes(json_output)
        return
    from practicum.engine.planning.profiles import suggest_profile

    run = _read(config, overrides or [])
    card = _card(device, run, price)
    machine = _machine(card, run)
    named = run.hardware.profile if run else "none"
    suggested = suggest_profile(profile or ("auto" if named == "none" else named), machine)
    plan = _plan(run, machine) if run else None
    problems = _problems(run, machine, plan)
    estimate = _estimate(run, plan, card, price)
    if json_output:
        _print_json(machine, suggested, plan, problems, estimate)
    else:
        _print_page(machine, suggested, run, plan, problems, estimate)
    if problems:
        raise typer.Exit(FALLS_SHORT)


def _read(source: str | None, overrides: list[str]) -> "RunConfig | None":
    from practicum.core.errors import UserError

    if source is None:
        if overrides:
            raise UserError(
                f"{overrides[0]!r} changes a config and none is given; "
                f"type: practicum doctor --config math {overrides[0]}"
            )
        return None
    from practicum.assemble.environments import open_environment
    from practicum.config_files import read_config
    from practicum.core.trusted_code import NotTrusted

    found = read_config(source, overrides)
    try:
        open_environment(found.env)  # its options are checked
    except NotTrusted as error:  # a plan needs no code of a stranger's
        typer.echo(f"not checked: {error}", err=True)
    return found


def _card(device: str | None, run: "RunConfig | None", price: float | None) -> "Card | None":
    from practicum.core.errors import UserError
    from practicum.engine.planning.cards import find_card

    if device is None:
        if price is not None:
            raise UserError("--price is a card's; name the card too, such as --device h200")
        return None
    card = find_card(device)
    if run is None:
        raise UserError(
            f"--device plans a run for {card.title}; say which, such as: "
            f"practicum doctor --config math --device {device}"
        )
    return card


def _machine(card: "Card | None", run: "RunConfig | None") -> "Machine":
    """This one; with a card that is planned for, as if there were one for each process."""
    from practicum.engine.planning.cards import machine_with
    from practicum.engine.planning.machine import detect_machine

    machine = detect_machine()
    count = run.hardware.processes if run else 1
    return machine if card is None else machine_with(machine, card, count)


def _estimate(
    run: "RunConfig | None", plan: "MemoryPlan | None", card: "Card | None", price: float | None
) -> "RunEstimate | None":
    if run is None or plan is None or card is None:
        return None
    from practicum.engine.planning.cards import estimate_run

    # What is not known to be chosen from a list may be as long as a turn may be.
    chosen = run.env is not None and run.env.name == "math"
    is_free = not chosen or (run.env is not None and run.env.options.get("actions") == "free")
    return estimate_run(plan, run, card, is_free=is_free, price=price)


def _plan(run: "RunConfig", machine: "Machine") -> "MemoryPlan | None":
    from practicum.assemble.build_policy import plan_run

    return plan_run(run, machine)


def _problems(run: "RunConfig | None", machine: "Machine", plan: "MemoryPlan | None") -> list[str]:
    """What keeps the run of the config from working here, a sentence each."""
    from practicum.engine.planning.memory import format_bytes

    found = []
    if run is not None:
        found += [
            f"training needs the extra {extra.name!r}; type: {extra.install_command}"
            for extra in machine.extras
            if extra.name == "train" and not extra.is_installed
        ]
    if plan is not None:
        found += [replica.told for replica in plan.replicas if not replica.fits]
    if plan is not None and plan.total_bytes > plan.available_bytes:
        found.append(
            f"the run needs about {format_bytes(plan.total_bytes)} of memory and "
            f"{format_bytes(plan.available_bytes)} are free"
        )
    return found


def _print_json(
    machine: "Machine",
    profile: "Profile",
    plan: "MemoryPlan | None",
    problems: list[str],
    estimate: "RunEstimate | None",
) -> None:
    import json
    from dataclasses import asdict

    from practicum.engine.planning.machine import plan_threads

    value: dict[str, Any] = {
        "ok": not problems,
        "problems": problems,
        "machine": {**asdict(machine), "threads": plan_threads(machine)},
        "profile": asdict(profile),
        "plan": None,
    }
    for shown, extra in zip(value["machine"]["extras"], machine.extras, strict=True):
        shown |= {"is_installed": extra.is_installed, "install_command": extra.install_command}
    if plan is not None:
        value["plan"] = {**asdict(plan), "total_bytes": plan.total_bytes, "fits": plan.fits}
    if estimate is not None:
        value["estimate"] = {
            **asdict(estimate),
            "total_s": estimate.total_s,
            "cost": estimate.cost,
        }
    typer.echo(json.dumps(value))


def _print_page(
    machine: "Machine",
    profile: "Profile",
    run: "RunConfig | None",
    plan: "MemoryPlan | None",
    problems: list[str],
    estimate: "RunEstimate | None",
) -> None:
    from rich.console import Console

    from practicum.cli.plan_view import print_memory, print_sampling

    console = Console(highlight=False)
    if estimate is None:
        _print_machine(console, machine)
        _print_extras(console, machine)
        _print_profile(console, profile)
        console.print()
    else:  # of a card that is not here
        console.print(f"planned for a card that is not here: {_devices(machine)[0]}", markup=False)
    if run is not None:
        print_sampling(console, run)
        print_memory(console, plan, run.model.name)
    for sentence in estimate.sentences() if estimate else ():
        console.print(sentence, markup=False)
    for problem in problems:
        console.print(f"problem: {problem}", style="red", markup=False)


def _print_machine(console: "Console", machine: "Machine") -> None:
    from rich.table import Table

    from practicum.engine.planning.machine import plan_threads
    from practicum.engine.planning.memory import format_bytes

    instructions = {"AVX2": machine.has_avx2, "AVX-512": machine.has_avx512}
    limited = ", as the control group allows" if machine.is_memory_limited else ""
    rows = [
        ("system", f"{machine.system}, Python {machine.python}"),
        ("processor", machine.cpu),
        (
            "cores",
            f"{machine.allowed_cores} may be used, of {machine.physical_cores} cores and "
            f"{machine.logical_cores} threads; a run takes {plan_threads(machine)} threads",
        ),
        ("instructions", ", ".join(n for n, there in instructions.items() if there) or "basic"),
        (
            "memory",
            f"{format_bytes(machine.available_bytes)} free of "
            f"{format_bytes(machine.memory_bytes)}{limited}",
        ),
        ("disk", f"{format_bytes(machine.disk_free_bytes)} free here"),
    ]
    rows += [("device", text) for text in _devices(machine)]
    table = Table.grid(padding=(0, 2))
    for name, text in rows:
        table.add_row(f"[bold]{name}[/]", text)
    console.print(table)


def _devices(machine: "Machine") -> list[str]:
    from practicum.engine.planning.memory import format_bytes

    found = []
    for device in machine.devices:
        text = f"{device.kind} {device.name} {device.capability}".strip()
        text += f", {format_bytes(device.free_bytes)} free of {format_bytes(device.memory_bytes)}"
        if not device.is_usable:
            text += " (the installed torch cannot use it)"
        found.append(text)
    return found or ["no accelerator; the model runs on the CPU"]


def _print_extras(console: "Console", machine: "Machine") -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    base = ", ".join(f"{name} {version}" for name, version in machine.packages.items())
    table.add_row("[bold]installed[/]", base)
    for extra in machine.extras:
        here = ", ".join(f"{name} {v}" for name, v in extra.packages.items() if v)
        missing = [name for name, version in extra.packages.items() if version is None]
        text = here
        if missing:
            lacks = f"[yellow]missing {', '.join(missing)}[/]"
            text = f"{lacks}; type: {extra.install_command.replace('[', chr(92) + '[')}"
        table.add_row(f"[bold]extra {extra.name}[/]", text)
    console.print(table)


def _print_profile(console: "Console", profile: "Profile") -> None:
    from rich.table import Table

    table = Table(title=f"profile {profile.name}: {profile.summary}", title_justify="left")
    table.add_column("setting", no_wrap=True)
    table.add_column("why")
    for suggestion in profile.suggestions:
        table.add_row(suggestion.setting, suggestion.reason)
    console.print()
    console.print(table)
