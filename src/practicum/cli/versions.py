"""`practicum served`: versions of served models, which one is served, what waits, going back."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from practicum.store.served_versions import ServedVersion

app = typer.Typer(help="Versions of served models: publish, promote, refuse, roll back.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A name in served/, or the folder of one.")
]
Why = Annotated[str, typer.Option(help="A note for the history.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command(name="list")
def list_models(
    folder: Annotated[str, typer.Argument(metavar="[DIR]", help="Where they are.")] = "served",
    json_output: Json = False,
) -> None:
    """List the served models and their versions."""
    import json
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from practicum.core.errors import UserError
    from practicum.store.served_versions import list_served

    models, rows = list_served(Path(folder)), []
    for model in models:
        waits = [one.version for one in model.waiting()]
        row = {
            "name": model.name,
            "versions": model.versions(),
            "waiting": waits,
            "current": None,
            "problem": "",
        }
        try:
            found = model.current
            row |= {"current": found.version, "base": found.base, "sha256": found.sha256}
        except UserError as error:
            row["problem"] = str(error)
        rows.append(row)
    if json_output:
        print(json.dumps({"served": rows}))
        return
    table = Table(title=f"served models in {folder}")
    for column in ("name", "current", "versions", "waiting", "base model", "sha256"):
        table.add_column(column)
    for model, row in zip(models, rows, strict=True):
        table.add_row(
            str(row["name"]),
            str(row["current"] or row["problem"]),
            ", ".join(model.versions()),
            ", ".join(one.version for one in model.waiting()),
            str(row.get("base", "")),
            str(row.get("sha256", ""))[:16],
        )
    Console().print(table)


@app.command()
def history(name: Name, json_output: Json = False) -> None:
    """What was served when, and why."""
    import json

    from rich.console import Console

    from practicum.store.served_versions import find_served

    rows = find_served(name).history()
    if json_output:
        print(json.dumps({"history": rows}))
        return
    console = Console(highlight=False, soft_wrap=True)
    for row in rows:
        came = f" (it was {row['from']})" if row["from"] else ""
        why = f": {row['why']}" if row["why"] else ""
        console.print(
            f"{row['at']}  {row['action']:8}  {row['version']}{came}  {row['sha256'][:16]}{why}",
            markup=False,
        )


@app.command()
def waiting(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A served model; all in served/.")
    ] = None,
    json_output: Json = False,
) -> None:
    """What waits for a person, and what speaks for it."""
    import json
    from dataclasses import asdict

    from rich.console import Console

    from practicum.store.served_versions import SERVED, find_served, list_served

    models = list_served(SERVED) if name is None else [find_served(name)]
    found = [(model.name, one) for model in models for one in model.waiting()]
    if json_output:
        print(json.dumps({"waiting": [{"name": of, **asdict(one)} for of, one in found]}))
        return
    console = Console(highlight=False, soft_wrap=True)
    for of, one in found:
        lines = (
            f"{of} version {one.version} waits since {one.at}; it was compared with "
            f"{one.instead_of}",
            f"  {one.why}",
            f"  practicum served promote {of} {one.version}, or practicum served refuse {of} "
            f"{one.version}",
        )
        console.print("\n".join(lines), markup=False)
    if not found:
        console.print("nothing waits for a person")


@app.command()
def refuse(
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Such as 0002.")],
    why: Why = "",
) -> None:
    """Do not serve a version that waits."""
    from rich.console import Console

    from practicum.store.served_versions import find_served

    model = find_served(name)
    refused = model.refuse(version, why)
    told = f"{name} version {refused.version} is refused; {model.current.version} is served"
    Console(highlight=False, soft_wrap=True).print(told, markup=False)


@app.command()
def publish(
    name: Name,
    source: Annotated[
        str, typer.Argument(metavar="RUN|CHECKPOINT", help="A run, a step of it, or an adapter.")
    ],
    why: Why = "",
) -> None:
    """Copy an adapter to a new version, and serve it."""
    from practicum.core.errors import MissingExtra

    MissingExtra.unless("torch", "train", "practicum served publish")
    from practicum.engine.models.lora import identify_adapter
    from practicum.store.served_versions import Change, find_served

    model = find_served(name, identify_adapter, must_exist=False)
    _say(name, model.publish(source, change=Change("publish", why)))


@app.command()
def promote(
    name: Name,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="Such as 0002.")],
    why: Why = "",
) -> None:
    """Serve a version that is there."""
    from practicum.store.served_versions import find_served

    _say(name, find_served(name).promote(version, why))


@app.command()
def rollback(name: Name, why: Why = "") -> None:
    """Serve the version that was served before."""
    from practicum.store.served_versions import find_served

    _say(name, find_served(name).rollback(why))


def _say(name: str, found: "ServedVersion") -> None:
    from rich.console import Console

    told = f"{name} serves version {found.version} ({found.path}), sha256 {found.sha256}"
    Console(highlight=False, soft_wrap=True).print(told, markup=False)
