"""`practicum trust`: agree that code which a config, a run or an adapter names may run."""

from pathlib import Path
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
    """Agree that code of a config, a run or an adapter may run; without words, list what may.

    practicum trust downloaded/env.py     this file, as it is, and what it imports

    practicum trust downloaded.yaml       all code that a config or a run names

    practicum trust .                     your own project, with later changes

    practicum trust --remove .            no longer

    docs/trust.md says what is trusted and what is not.
    """
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
        consents = _consents(word)
        remember(consents, must=True)
        typer.echo("\n".join(f"trusted: {key} {label}" for key, label in consents))


def _consents(word: str) -> list[tuple[str, str]]:
    from practicum.config_files import config_file
    from practicum.core.errors import UserError
    from practicum.core.trusted_code import FOLDER, trust_file
    from practicum.core.user_code import consents_to
    from practicum.store.run_dir import RunDir
    from practicum.store.study_dir import StudyDir

    path = Path(word).expanduser()
    kind = RunDir if RunDir.is_run(path) else StudyDir if StudyDir.is_study(path) else None
    if path.is_dir() and kind is None:
        return [(FOLDER, str(path.resolve()))]
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        return trust_file(path)
    config = kind(path).config().model_dump() if kind else None
    values = config or (config_file(word) if path.is_file() else word)
    if found := list(consents_to(values)):
        return found
    raise UserError(
        f"{word} names no code of its own, so there is nothing to trust"
        if path.exists()
        else f"there is no file or folder {word!r} to trust; give a Python file, a config, a run, "
        "a folder of your own or module:NAME"
    )
