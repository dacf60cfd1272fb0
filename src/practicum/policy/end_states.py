"""Hidden states where prompts ended, kept for whoever comes with the same prompt."""

from collections.abc import Iterable, Sequence

import torch

__all__ = ["EndStates"]

FIRST_ROWS = 256
"""There is room for so many at first, and for twice as many each time it is full."""


class EndStates:
    """States by the cache slot of the prompt's last token, all in one piece of memory.

    A state kept as a piece of the step it comes from would keep that whole step, and one kept in a
    piece of its own leaves small gaps all over the heap when it goes.
    """

    def __init__(self) -> None:
        self._rows: torch.Tensor | None = None
        self._row_of: dict[int, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._row_of)

    def get(self, slot: int) -> torch.Tensor | None:
        """A copy of a slot's state, which stays as it is whatever is kept or dropped later."""
        row = self._row_of.get(slot)
        if row is None or self._rows is None:
            return None
        return self._rows[row].clone()

    def keep(self, slots: Sequence[int], states: torch.Tensor) -> None:
        """The states (N, H) of so many slots, instead of those that they had."""
        if not slots:
            return
        self.drop(slots)
        if len(self._free) < len(slots):
            self._grow(len(self._row_of) + len(slots), states)
        assert self._rows is not None
        rows = [self._free.pop() for _ in slots]
        self._rows[torch.tensor(rows, device=states.device)] = states
        self._row_of.update(zip(slots, rows, strict=True))

    def drop(self, slots: Iterable[int]) -> None:
        """Forget the states of slots, where they have one."""
        for slot in slots:
            row = self._row_of.pop(slot, None)
            if row is not None:
                self._free.append(row)

    def clear(self) -> None:
        """Forget all of them."""
        self._rows = None
        self._row_of.clear()
        self._free.clear()

    def _grow(self, wanted: int, like: torch.Tensor) -> None:
        old = self._rows
        count = 0 if old is None else old.shape[0]
        size = max(FIRST_ROWS, count)
        while size < wanted:
            size *= 2
        self._rows = like.new_empty((size, like.shape[1]))
        if old is not None:
            self._rows[:count] = old
        self._free += range(size - 1, count - 1, -1)
