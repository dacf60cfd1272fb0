"""`practicum models`: which models are known, which are here, and how to fetch one."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

app = typer.Typer(no_args_is_help=False, add_completion=False, pretty_exceptions_enable=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.callback(invoke_without_command=True)
def models(context: typer.Context, json_output: JsonOption = False) -> None:
    """List the known models, or fetch one.

    practicum models                      names, sizes, what is here

    practicum models pull smollm2-135m    fetch the default model
    """
    if context.invoked_subcommand is not None:
        return
    import json
    from dataclasses import asdict

    from practicum.engine.models.loading import list_models

    found = list_models()
    if json_output:
        print(json.dumps({"models": [asdict(model) for model in found]}))
    else:
        _print_table(found)


@app.command()
def pull(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A known model, or a hub id.")],
    keep_download: Annotated[
        bool, typer.Option("--keep-download", help="Keep the .gguf file it was made from.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Fetch a model, check it, and make it ready to load."""
    import json
    from dataclasses import asdict

    from rich.console import Console

    from practicum.engine.models.loading import pull

    with _StageBar() as bar:
        pulled = pull(name, bar, keep_download=keep_download)
    if json_output:
        print(json.dumps(asdict(pulled) if pulled else {"name": name, "folder": None}))
        return
    console = Console(highlight=False, soft_wrap=True)
    if pulled is None:
        console.print(f"{name} is made on the spot; there is nothing to fetch")
        return
    console.print(f"{pulled.name} is here: {pulled.folder}", markup=False)
    console.print(f"from    {pulled.source}", markup=False)
    for digest in pulled.sha256:
        console.print(f"sha256  {digest}  checked", markup=False)


def _print_table(found: Sequence[Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console()
    titles = ["model", "parameters", "disk", "here", "comes from"]
    wide = console.width >= WIDE_COLUMNS
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in [*titles, *(["licence", "note"] if wide else [])]:
        side: Any = "right" if title in ("parameters", "disk") else "left"
        table.add_column(title, justify=side, no_wrap=title == "model")
    for model in found:
        size = _short(model.disk_bytes, ("GB", "MB", "kB")) if model.disk_bytes else "-"
        here = "yes" if model.cached else "no"
        parameters = _short(model.parameters, ("B", "M", "k"))
        cells = [model.name, parameters, size, here, model.source]
        table.add_row(*cells, *([model.licence, model.note] if wide else []))
    console.print(table)
    for model in found:
        if model.hub_id not in (None, model.name):
            told = f"{model.name} is also {model.hub_id}, its name on the hub"
            console.print(told, highlight=False, soft_wrap=True)
    console.print("Also: any hub id (owner/name), a model folder, a .gguf file.", highlight=False)


def _short(number: int, units: tuple[str, str, str]) -> str:
    """A large number in four characters or so.

    >>> _short(94_528, ("B", "M", "k")), _short(7_615_616_512, ("B", "M", "k"))
    ('95 k', '7.6 B')
    """
    for unit, size in zip(units, (10**9, 10**6, 10**3), strict=True):
        if number >= size:
            value = number / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return str(number)


WIDE_COLUMNS = 120
"""Terminals narrower than this get the table without licences and notes."""


class _StageBar:
    """A bar on standard error that shows the present stage of a fetch, and goes away at the end."""

    def __init__(self) -> None:
        import sys

        from rich import progress
        from rich.console import Console

        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(bar_width=24),
            progress.DownloadColumn(),
            progress.TimeRemainingColumn(),
            # The stream itself and not whatever sys.stderr is later: a conversion redirects it.
            console=Console(file=sys.stderr),
            redirect_stderr=False,
            transient=True,
        )
        self._stage = ""
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> "_StageBar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._stage = stage
            self._progress.reset(self._task, description=stage, total=total or None)
        self._progress.update(self._task, completed=done)
