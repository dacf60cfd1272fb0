"""Commands whose options are the fields of a record."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from practicum.cli.arguments import takes_options


@dataclass(frozen=True, kw_only=True)
class Words:
    name: Annotated[str, typer.Option("--from", help="Whence.")]
    count: Annotated[int, typer.Option(min=1)] = 3
    loud: Annotated[bool, typer.Option("--loud")] = False


app = typer.Typer()


@app.command()
@takes_options(Words)
def greet(words: Words) -> None:
    """Say where from."""
    print(words)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["--from", "a"], Words(name="a")),
        (["--from", "b", "--count", "5", "--loud"], Words(name="b", count=5, loud=True)),
    ],
)
def test_options_fill_the_record(typed: list[str], words: Words) -> None:
    result = CliRunner().invoke(app, typed)
    assert result.exit_code == 0
    assert result.stdout.strip() == str(words)


@pytest.mark.parametrize("typed", [[], ["--from", "a", "--count", "0"], ["--nonsense", "a"]])
def test_what_a_field_does_not_allow_is_refused(typed: list[str]) -> None:
    assert CliRunner().invoke(app, typed).exit_code == 2


def test_help_is_that_of_the_command_and_its_fields() -> None:
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert "Say where from." in text
    assert "Whence." in text
