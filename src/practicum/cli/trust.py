"""`practicum trust`: agree that code which a config, a run or an adapter names may run."""

from typing import Annotated

import typer


def trust(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.py|CONFIG|RUN|FOLDER|module:NAME ...",
            help="What may run; nothing lists what is trusted.",
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Withdraw the consent.")] = False,
) -> None:
    """Agree that code of a config or a run may run, or list what may.

    practicum trust downloaded/env.py     this file, as it is, and what it imports

    practicum trust downloaded.yaml       all code that a config or a run names

    practicum trust .                     your own project, with later changes

    practicum trust --remove .            no longer

    docs/trust.md says what is trusted and what is not.
    """
    from practicum.config_files import consents_of
    from practicum.core.errors import UserError
    from practicum.core.trusted_code import forget, remember, trusted_lines

    if remove:
        for word in what or []:
            gone = forget(word)
            if not gone:
                raise UserError(f"{word} is not trusted; practicum trust lists what is")
            typer.echo("\n".join(f"no longer trusted: {line}" for line in gone))
        return
    if not what:
        typer.echo("\n".join(trusted_lines()) or "nothing is trusted yet")
        return
    for word in what:
        consents = consents_of(word)
        remember(consents, must=True)
        typer.echo("\n".join(f"trusted: {key} {label}" for key, label in consents))
