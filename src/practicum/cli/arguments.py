"""Commands whose options are the fields of a record, and text made safe for a terminal."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, TypeVar, get_type_hints

from typer.core import TyperCommand

T = TypeVar("T")


class ConfigWords(TyperCommand):
    """A command that takes `key=value` words, and says so to whoever types `--key value`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As every command, but for options that are keys of a config."""
        from typer._click.exceptions import NoSuchOption, UsageError

        words = list(args)  # parsing takes them away
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            from practicum.core.config.run_config import RunConfig

            key = error.option_name.lstrip("-").replace("-", "_")
            if key.partition(".")[0] not in RunConfig.model_fields:
                raise
            given = next((b for a, b in pairwise(words) if a == error.option_name), "VALUE")
            raise UsageError(
                f"{error.option_name} is a key of the config: type {key}={given}", ctx
            ) from None


def takes_options(record: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Let a command that takes a record be called with an option for each of its fields.

    A field is written as a parameter of a command is: its type, annotated with `typer.Option`, and
    its default.
    """

    def decorate(command: Callable[[T], None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            command(record(**given))

        hints = get_type_hints(record, include_extras=True)
        fields = dataclasses.fields(record)  # type: ignore[arg-type]  # the caller's dataclass
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect
            [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=_default(field),
                    annotation=hints[field.name],
                )
                for field in fields
            ]
        )
        run.__annotations__ = {field.name: hints[field.name] for field in fields}
        run.__doc__, run.__name__ = command.__doc__, command.__name__
        return run

    return decorate


def _default(field: "dataclasses.Field[Any]") -> Any:
    missing = field.default is dataclasses.MISSING
    return inspect.Parameter.empty if missing else field.default


EXAMPLE = re.compile(r"practicum \S.*")
HELP_WIDTH = 76
"""Columns of a paragraph of help in a terminal of 80."""


def arrange_examples(text: str) -> str:
    r"""Help whose examples, a paragraph each, are lines below each other that are never wrapped.

    What an example says of itself, after two spaces, stands in a column beside it, or below it
    where one of them would not fit.

    >>> arranged = arrange_examples("Does it.\n\npracticum a   once\n\npracticum bc  twice")
    >>> print(arranged.replace("\b", "(as it is)"))
    Does it.
    <BLANKLINE>
    (as it is)
    practicum a   once
    practicum bc  twice
    """
    found: list[list[str]] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if not EXAMPLE.fullmatch(paragraph):
            found.append([paragraph])
        elif found and found[-1][0] == "\b":
            found[-1].append(paragraph)
        else:
            found.append(["\b", paragraph])
    return "\n\n".join(
        "\n".join(["\b", *_columns(part[1:])] if part[0] == "\b" else part) for part in found
    )


def _columns(examples: list[str]) -> list[str]:
    pairs = [[*re.split(r"  +", example, maxsplit=1), ""][:2] for example in examples]
    left = max(len(command) for command, _ in pairs) + 2
    if all(left + len(told) <= HELP_WIDTH for _, told in pairs):
        return [f"{command:{left}}{told}".rstrip() for command, told in pairs]
    return [line for command, told in pairs for line in (command, *([f"    {told}"] * bool(told)))]


ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)", re.DOTALL)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and line feed, and those that turn the direction of writing."""


def plain(text: str) -> str:
    r"""The text without what would steer a terminal.

    >>> plain("a\x1b[31mred\x07")
    'ared'
    """
    return CONTROLS.sub("", ESCAPES.sub("", text.replace("\r\n", "\n")))


def indented(text: str, spaces: int = 4) -> str:
    """The text as it is safe, every line after the first moved right."""
    return plain(text).replace("\n", "\n" + " " * spaces)
