"""What a turn can be held to: thinking, and then calls as the model itself writes them, or JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["CallForm", "CallsForm", "Spelling", "ThoughtForm"]

Spelling = tuple[str | int, ...]
"""A text in which added tokens are given by their ids, and all else as it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtForm:
    """Thinking before what is asked for."""

    opening: Spelling
    """Empty where the prompt itself begins it: then the turn starts in the middle of it."""
    closing: str | int
    """What ends it: a text, or a token's id."""
    behind: str
    """Blanks between it and what follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallForm:
    """How one tool is called."""

    first: Spelling
    """All that stands before its arguments in a turn that begins with this call."""
    later: Spelling
    """All that stands between the arguments of the call before it and its own."""
    arguments: Mapping[str, Any]
    """Their JSON schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsForm:
    """A turn that calls one of some tools, or several."""

    calls: tuple[CallForm, ...]
    closing: Spelling
    """What stands behind the arguments of the last call."""
    many: bool
    """Whether more than one may be called."""
