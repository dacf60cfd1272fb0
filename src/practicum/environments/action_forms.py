"""Reading and writing the actions that a discrete session lists."""

import random
from collections.abc import Callable, Sequence

from practicum.core.errors import UserError
from practicum.core.sampling import ActionForm, NextCharacters

__all__ = ["is_writable", "random_action_text"]

LONGEST_ARGUMENT = 200
"""A form that lets an argument grow past this is taken to have no end."""


def is_writable(forms: Sequence[ActionForm], text: str) -> bool:
    """Whether constrained decoding over these forms could produce the text.

    >>> is_writable((ActionForm(name="simplify"),), "simplify")
    True
    """
    name, space, argument = text.partition(" ")
    for form in forms:
        if form.name == name and form.argument is None and not space:
            return True
        if form.name == name and form.argument is not None and space:
            return accepts(form.argument, argument)
    return False


def accepts(syntax: Callable[[str], NextCharacters], argument: str) -> bool:
    """Whether an argument's syntax allows each character in turn, and the end after the last."""
    for at, character in enumerate(argument):
        if character not in syntax(argument[:at]).allowed:
            return False
    return syntax(argument).may_end


def random_action_text(forms: Sequence[ActionForm], chance: random.Random) -> str:
    """An action drawn evenly among the forms, its argument by an even walk through its syntax."""
    if not forms:
        raise UserError(
            "acting at random needs a list of actions, and this environment lists none; "
            "use it with constrained actions, as in env.actions=constrained"
        )
    form = chance.choice(forms)
    if form.argument is None:
        return form.name
    written = ""
    while len(written) < LONGEST_ARGUMENT:
        following = form.argument(written)
        options = [*following.allowed, *([""] if following.may_end else [])]
        if not options:
            raise ValueError(f"the syntax of {form.name!r} has no way on after {written!r}")
        character = chance.choice(options)
        if not character:
            return f"{form.name} {written}"
        written += character
    raise ValueError(f"the argument of {form.name!r} has no end: {written[:20]!r}...")
