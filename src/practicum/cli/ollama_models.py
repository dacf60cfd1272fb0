"""`practicum ollama`: an exported folder becomes a model of Ollama's, is tried, listed, removed."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Hand exported models to Ollama.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command()
def create(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="What --to ollama wrote.")],
    tag: Annotated[str | None, typer.Option(help="Its name in Ollama; the folder's.")] = None,
    json_output: Json = False,
) -> None:
    """Make a model of each Modelfile in a folder, and ask it something.

    practicum export latest my-model --to ollama

    practicum ollama create my-model
    """
    import json
    from dataclasses import asdict

    from practicum.delivery.ollama_program import create as make

    place = folder.resolve()
    # Beside other kinds the folder is called after its kind.
    named = place.parent.name if place.name == "ollama" else place.name
    made = make(folder, tag or named.lower())
    if json_output:
        print(json.dumps({"created": [asdict(one) for one in made]}))
        return
    for one in made:
        typer.echo(f"{one.tag} {one.digest}: it answers {one.answer[:60]!r}")


@app.command(name="list")
def list_models(
    exports: Annotated[
        Path, typer.Option(help="Folder below which the exports are that models came from.")
    ] = Path("exports"),
    json_output: Json = False,
) -> None:
    """List Ollama's models, with the base and the run each comes from."""
    import json

    from practicum.delivery.ollama_program import listed, origins

    known = origins(exports)
    rows = [
        {"tag": tag, "digest": digest, **known.get(tag, {})} for tag, digest in listed().items()
    ]
    if json_output:
        print(json.dumps({"models": rows}))
        return
    for row in rows:
        came = f"{row['base']} + {row['policy']} ({row['fingerprint']})" if "base" in row else "-"
        typer.echo(f"{row['tag']}  {row['digest']}  {came}")


@app.command()
def rm(tag: Annotated[str, typer.Argument(help="Its name in Ollama.")]) -> None:
    """Remove a model from Ollama; the export stays."""
    from practicum.delivery.ollama_program import remove

    remove(tag)
    typer.echo(f"{tag} is removed from Ollama")


@app.command()
def run(
    tag: Annotated[str, typer.Argument(help="Its name in Ollama.")],
    prompt: Annotated[
        str | None, typer.Argument(help="What to ask; without it, talk in Ollama's own window.")
    ] = None,
) -> None:
    """Ask a model of Ollama's something, or talk with it."""
    from practicum.delivery.ollama_program import run as ask
    from practicum.delivery.ollama_program import talk

    if prompt is None:
        talk(tag)
    else:
        typer.echo(ask(tag, prompt))
