"""A recorded conversation as far as a method over examples looks at it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    label: bool | None = None
    pair: str = ""
    chosen: bool | None = None
    weight: float = 1.0
    reward: float | None = None
