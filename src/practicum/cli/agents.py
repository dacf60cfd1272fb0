"""`practicum agents`: who can do the work, and what has to be installed for it."""

from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.callback()
def agents() -> None:
    """Agents that do the work in episodes. A config names one with `agent:`.

    practicum agents list                 all agents, and which are ready

    practicum agents install openhands    the OpenHands SDK, in an environment of its own
    """


@app.command("list")
def list_agents(json_output: JsonOption = False) -> None:
    """Every agent a config can name, and whether it is ready to be used."""
    import json
    from dataclasses import asdict

    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from practicum.agents.installation import known_agents

    found = known_agents()
    if json_output:
        print(json.dumps({"agents": [asdict(one) for one in found]}))
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("agent", "ready", "what it is"):
        table.add_column(title, no_wrap=title == "agent")
    for one in found:
        table.add_row(one.name, "yes" if one.ready else "no", one.about)
    console = Console(highlight=False)
    console.print(table)
    for one in found:
        if not one.ready:
            console.print(f"{one.name}: {one.missing}", markup=False, soft_wrap=True)


@app.command()
def install(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An agent: openhands.")],
    json_output: JsonOption = False,
) -> None:
    """Install what an agent needs; where it is there already, say so."""
    import json
    import sys

    from rich.console import Console

    from practicum.agents.installation import install_agent

    err = Console(file=sys.stderr, highlight=False)
    with err.status("") as status:

        def say(line: str) -> None:
            if err.is_terminal:
                status.update(line)
            else:
                err.print(line, markup=False, soft_wrap=True)

        installed = install_agent(name, say)
    if json_output:
        print(json.dumps(installed))
    else:
        print(f"{name} is ready: version {installed['version']}, {installed['python']}")
