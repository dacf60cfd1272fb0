"""Recorded episodes to training sets: what is kept, how it is weighed, where it is written."""

from practicum.datasets.tokenise import tokenise

__all__ = ["tokenise"]
