"""`practicum monitor`: a local web page of runs, rollouts and labels."""

from pathlib import Path
from typing import Annotated

import typer


def monitor(
    runs_dir: Annotated[
        Path, typer.Argument(metavar="RUNS_DIR", help="Folder that holds the runs.")
    ] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for any free one.")] = 8780,
    write: Annotated[
        bool, typer.Option("--write", help="Let the page label, write notes, stop and delete runs.")
    ] = False,
    author: Annotated[
        str, typer.Option(metavar="NAME", help="Who labels; the name you are logged in with.")
    ] = "",
    served: Annotated[Path, typer.Option(help="Folder that holds served models.")] = Path("served"),
) -> None:
    """See runs, rollouts and tokens in a browser, until Ctrl-C.

    Prints an address with a key: open it on this machine. From another one, forward the port
    (ssh -L 8780:127.0.0.1:8780 HOST). It only reads, unless it is told to --write.
    """
    import asyncio

    from practicum.cli.label import login
    from practicum.core.errors import MissingExtra, UserError

    if runs_dir.exists() and not runs_dir.is_dir():
        raise UserError(f"{runs_dir} is a file; give the folder that holds the runs")
    for package in ("starlette", "uvicorn", "httptools", "jinja2", "tokenizers"):
        MissingExtra.unless(package, "monitor", "practicum monitor")
    from practicum.monitor.monitor_app import MonitorSettings, serve_monitor

    settings = MonitorSettings(
        runs_dir=runs_dir,
        served=served,
        port=port,
        may_write=write,
        author=author or login(),
    )

    def ready(address: str) -> None:
        typer.echo(f"{'reading and writing' if write else 'reading'} {runs_dir}; open:")
        typer.echo(address)
        typer.echo("stop with Ctrl-C", err=True)

    asyncio.run(serve_monitor(settings, ready))
