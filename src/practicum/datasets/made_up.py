"""Answers that nobody gave.

A pair of a recorded answer and a "worse" one that was made from it, by cutting it short or
spoiling it, teaches a model to tell spoiled text from whole text and nothing about the task. Such
rows are refused.
"""

import re
from collections.abc import Mapping

__all__ = ["MADE_UP", "says_made_up"]

MADE_UP = "its source says that it was made up, and an answer must have been given by someone"

FLAGS = ("synthetic", "is_synthetic", "made_up", "invented")
ORIGINS = ("source", "origin", "provenance")
INVENTED = re.compile(
    r"synthe(tic|sised|sized)|invented|made[ _-]?up|fabricated|corrupted|degraded|perturbed"
)


def says_made_up(facts: Mapping[str, object]) -> bool:
    """Whether a row, or what is known of a trace, says that its answer was made up.

    >>> says_made_up({"source": "synthetic-worse"}), says_made_up({"source": "openhands"})
    (True, False)
    """
    if any(_is_set(facts.get(flag)) for flag in FLAGS):
        return True
    origins = (facts.get(key) for key in ORIGINS)
    if any(isinstance(origin, str) and INVENTED.search(origin.lower()) for origin in origins):
        return True
    inner = facts.get("metadata")
    return isinstance(inner, Mapping) and says_made_up(inner)


def _is_set(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in ("", "0", "false", "no", "none")
    return bool(value)
