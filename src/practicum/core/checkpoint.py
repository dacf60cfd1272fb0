"""A saved point of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from practicum.core.task import JSON

__all__ = ["Checkpoint", "LoopState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopState:
    """Everything besides weights, optimizer and random generators that a resumed run needs."""

    step: int
    """Steps completed."""
    curriculum: Mapping[str, JSON] = field(default_factory=dict)
    totals: Mapping[str, JSON] = field(default_factory=dict)
    """Running counts: episodes, tokens, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A verified checkpoint folder."""

    path: Path
    step: int
    fingerprint: str
