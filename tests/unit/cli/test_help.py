"""Help in a terminal of 80 columns: no line is wider, and no example is broken in two."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from practicum.cli.arguments import arrange_examples
from practicum.cli.main import app


def verbs(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from verbs(inner, (*words, name))


ALL = list(verbs(typer.main.get_command(app)))


def about(words: tuple[str, ...]) -> str:
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    return inspect.cleandoc(command.help or "")


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_fits_80_columns_and_breaks_no_example(words: tuple[str, ...]) -> None:
    told = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80", "TERM": "dumb"})
    assert told.exit_code == 0
    lines = told.output.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert [line for line in lines if re.match(r"  \w+ .*\.\.\.$", line)] == []  # no verb is cut
    examples = [line for line in about(words).splitlines() if line.startswith("practicum ")]
    assert [example for example in examples if f"  {example}" not in lines] == []


def test_every_verb_with_examples_is_among_them() -> None:
    with_examples = [words for words in ALL if re.search("^practicum ", about(words), re.M)]
    assert len(ALL) > 40
    assert len(with_examples) > 15


def test_what_does_not_fit_beside_an_example_stands_below_it() -> None:
    long = "practicum train " + "x" * 50
    text = (
        f"Trains.\n\npracticum train math   the defaults\n\n{long}  one that is told of at length"
    )
    assert arrange_examples(text).splitlines()[2:] == [
        "\b",
        "practicum train math",
        "    the defaults",
        long,
        "    one that is told of at length",
    ]
