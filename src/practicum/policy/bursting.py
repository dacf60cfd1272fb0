"""A burst under way in the engine: the same rows, token after token, until something changes."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch

from practicum.core.sample import Ints
from practicum.policy.decoder import BurstRow, DenseBurst
from practicum.policy.draw import Draw, draw_rows
from practicum.policy.head import Head
from practicum.policy.prefix_cache import PrefixCache
from practicum.policy.rows import Row
from practicum.policy.trunks import share_trunks

__all__ = ["Burst", "BurstRun", "HostDraws", "burst_rows"]


class Burst(Protocol):
    """Tokens for rows that go on together."""

    def advance(self, rows: Sequence[Row]) -> list[list[Draw]]:
        """The next tokens of every row, at least one each and the same number for all."""
        ...

    def close(self) -> None:
        """Put what was computed into the pool."""
        ...


class HostDraws:
    """One token a row and step, drawn here from the decoder's hidden states."""

    def __init__(self, burst: DenseBurst, head: Head, device: torch.device) -> None:
        self._burst, self._head, self._device = burst, head, device

    def advance(self, rows: Sequence[Row]) -> list[list[Draw]]:
        """One token each."""
        ids = torch.tensor([row.tokens[-1] for row in rows], device=self._device)
        logits = self._head.logits(self._burst.step(ids))
        uniforms = [row.stream.next() for row in rows]
        return [[d] for d in draw_rows(logits, [row.request.params for row in rows], uniforms)]

    def close(self) -> None:
        """Put what was computed into the pool."""
        self._burst.close()


class BurstRun:
    """Which rows a burst serves, and the slots it was given for their tokens."""

    def __init__(self, rows: Sequence[Row], fresh: Sequence[Ints], burst: Burst) -> None:
        self._rows, self._fresh, self._burst = list(rows), fresh, burst
        self._before = [len(row.tokens) for row in rows]
        self._left = min(slots.size for slots in fresh)

    def goes_on_with(self, active: Sequence[Row]) -> bool:
        """Whether the next step is this burst's."""
        same = len(active) == len(self._rows) and all(
            a is b for a, b in zip(active, self._rows, strict=True)
        )
        return same and self._left > 0 and not any(row.is_over for row in active)

    def advance(self) -> list[list[Draw]]:
        """The next tokens of every row."""
        found = self._burst.advance(self._rows)
        self._left -= len(found[0])
        return found

    def close(self, cache: PrefixCache) -> None:
        """Leave what was computed with the rows, and give back the slots that were not needed."""
        self._burst.close()
        for row, slots, begin in zip(self._rows, self._fresh, self._before, strict=True):
            used = len(row.tokens) - begin
            row.tail += slots[:used].tolist()
            cache.give_back(slots[used:])

    def give_back(self, cache: PrefixCache) -> None:
        """Give back every slot, as after a failure."""
        for slots in self._fresh:
            cache.give_back(slots)


def burst_rows(rows: Sequence[Row], fresh: Sequence[Ints]) -> list[BurstRow]:
    """Rows as a decoder's burst takes them, with the trunks they share."""
    paths = [row.path_slots for row in rows]
    found: list[Any] = [None] * len(rows)
    for group, (members, trunk) in enumerate(share_trunks(paths)):
        for i in members:
            found[i] = BurstRow(path=paths[i], fresh=np.asarray(fresh[i]), group=group, trunk=trunk)
    return found
