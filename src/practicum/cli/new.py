"""`practicum new`: a package for a domain of one's own."""

from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the domain: a folder that is made here.")
    ],
) -> None:
    """Make a package for a domain of your own, which trains as it stands.

    practicum new courier      makes courier/, to be made yours in five steps

    docs/domain-guide.md goes through them, from a table of actions to a held-out gain.
    """
    from practicum.workflows.scaffold import class_name
    from practicum.workflows.scaffold import new as make

    path = Path(name)
    made = make(path.name, path.parent)
    typer.echo(
        f"{made} is made, and its code is trusted. Next:\n\n"
        f"  practicum tasks {made.name}:{class_name(made.name)}Environment --check 5\n"
        f"  practicum train {made}/tiny.yaml\n\n"
        f"{made}/README.md says where the five steps are."
    )
