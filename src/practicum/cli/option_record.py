"""A command whose options are the fields of a record, so that it can have many of them."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

__all__ = ["takes_options"]

T = TypeVar("T")


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
