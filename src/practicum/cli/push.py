"""`practicum push`: an exported model goes to the Hugging Face hub."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def push(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="RUN|CHECKPOINT|DIR", help="What leaves; a folder that was exported goes as is."
        ),
    ],
    to: Annotated[str, typer.Option(metavar="OWNER/NAME", help="Where to on the hub.")],
    what: Annotated[
        Literal["adapter", "merged", "gguf"], typer.Option(help="What a run is exported as.")
    ] = "adapter",
    quant: Annotated[
        list[str] | None, typer.Option(help="Types of .gguf files, as for export.")
    ] = None,
    n: Annotated[int, typer.Option(min=1, help="Held-out tasks to check the export on.")] = 100,
    private: Annotated[bool, typer.Option("--private", help="Only you may see it.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent, and send nothing.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Send an exported model to the Hugging Face hub, with its card.

    practicum push latest --to me/algebra --dry-run             what would be sent

    practicum push latest --to me/algebra-gguf --what gguf      the file for llama.cpp

    practicum push exports/demo-merged --to me/algebra          a folder that is there already
    """
    import json

    from practicum.engine.models.publishing import Upload, require_hub_id

    hub_id = require_hub_id(to)
    upload = Upload(folder=_folder(policy, what, quant or [], n), hub_id=hub_id)
    files = upload.files()
    address = None if dry_run else upload.send(private=private)
    if json_output:
        told = {"to": hub_id, "folder": str(upload.folder), "files": files, "address": address}
        print(json.dumps(told))
        return
    for name, size in files.items():
        typer.echo(f"{size / 1e6:10.2f} MB  {name}")
    total = sum(files.values()) / 1e6
    if address is None:
        typer.echo(
            f"{len(files)} files, {total:.1f} MB, would go from {upload.folder} to {hub_id}; "
            f"to send them: practicum push {upload.folder} --to {hub_id}"
        )
    else:
        typer.echo(f"{len(files)} files, {total:.1f} MB, are at {address}")


def _folder(
    policy: str, what: Literal["adapter", "merged", "gguf"], quants: list[str], n: int
) -> Path:
    """The folder of an export; a run is exported first, unless it was before."""
    from rich.console import Console

    from practicum.cli.export import ExportLines
    from practicum.core.checkpoint import EXPORT_RESULTS
    from practicum.workflows.exports import export

    if (Path(policy) / EXPORT_RESULTS).is_file():
        return Path(policy)
    folder = Path("exports") / f"{policy.replace('/', '-')}-{what}"
    if (folder / EXPORT_RESULTS).is_file():
        typer.echo(f"{folder} was exported before and is taken as it is", err=True)
        return folder
    with ExportLines(Console(stderr=True)) as watcher:
        return export(policy, what, folder, quants=quants, n=n, watcher=watcher).folder
