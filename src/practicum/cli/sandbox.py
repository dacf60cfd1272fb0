"""`practicum sandbox`: prepare what sandboxes need; `doctor --sandbox`: try them out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from practicum.sandboxes.opening import KindSurvey

FALLS_SHORT = 1
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def sandbox() -> None:
    """Prepare the places where untrusted commands run.

    practicum sandbox build                        the private system of shell tasks, once

    practicum sandbox build --archive root.tar     the same from an archive of your own

    practicum doctor --sandbox                     which kinds hold on this machine
    """


@app.command()
def build(
    archive: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.tar",
            exists=True,
            dir_okay=False,
            help="Unpack this root file system, such as docker export writes.",
        ),
    ] = None,
) -> None:
    """Build the root file system of `machine` sandboxes."""
    from practicum.sandboxes.bubblewrap.rootfs import build_root

    print(build_root(print, archive))


def report_sandboxes(json_output: bool) -> None:
    """Try every kind out and say what works and why not; exit code 1 when none holds."""
    import asyncio
    import json
    import sys
    from dataclasses import asdict

    from practicum.sandboxes.opening import limits_note, survey_kinds

    found = asyncio.run(survey_kinds(lambda line: print(line, file=sys.stderr)))
    holds = any(profile.holds for kind in found for profile in kind.profiles)
    if json_output:
        print(
            json.dumps(
                {"ok": holds, "limits": limits_note(), "kinds": [asdict(kind) for kind in found]}
            )
        )
    else:
        _print_page(found, limits_note())
    if not holds:
        raise typer.Exit(FALLS_SHORT)


def _print_page(found: "list[KindSurvey]", limits: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from practicum.sandboxes.opening import broken_claims

    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    for kind in found:
        if kind.missing:
            table.add_row(f"[bold]{kind.kind}[/]", "", "[yellow]not here[/]", kind.missing)
        for one in kind.profiles:
            state = "[green]holds[/]" if one.holds else "[red]not used[/]"
            said = f"{len(one.findings)} of {len(one.findings)} as it should be"
            lines = said if one.holds else "\n".join(broken_claims(one))
            table.add_row(f"[bold]{kind.kind}[/]", one.profile, state, lines)
    console.print(table)
    console.print(limits, style="dim")
