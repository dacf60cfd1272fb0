"""Where the tokens of rows are cached: the slots of each, and what a step has still to compute."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from practicum.core.event_loop import give_way
from practicum.core.sample import Ints
from practicum.policy.end_states import EndStates
from practicum.policy.kv_pool import KvPool
from practicum.policy.prefix_cache import PrefixCache
from practicum.policy.rows import Row, Segment

__all__ = ["Places", "StepPlaces"]


@dataclass(slots=True)
class StepPlaces:
    """What one step computes, and where each of its rows finds its end state."""

    segments: list[Segment] = field(default_factory=list)
    ends: list[int | torch.Tensor] = field(default_factory=list)
    """For each row the number of a segment, or a state kept from an earlier step."""
    in_step: dict[int, int] = field(default_factory=dict)
    """The segment that ends in a slot, for the slots that the prefix cache knows."""

    @property
    def tokens(self) -> int:
        """How many tokens are computed."""
        return sum(segment.tokens.size for segment in self.segments)

    def end_states(self, states: torch.Tensor) -> torch.Tensor:
        """(rows, H) from the states at the ends of the segments, (S, H)."""
        return torch.stack([states[end] if isinstance(end, int) else end for end in self.ends])


class Places:
    """The prefix cache and the pool behind it, which grow together up to a limit."""

    def __init__(self, cache: PrefixCache, pool: KvPool, max_slots: int) -> None:
        self.cache, self.pool = cache, pool
        self._max_slots = max_slots
        self._end_states = EndStates()

    def clear(self) -> None:
        """Forget every path."""
        self.cache.clear()
        self._end_states.clear()

    def take(self, count: int) -> Any:
        """So many free slots, or None where there is no room for them."""
        while self.cache.free_slots < count and self.cache.capacity < self._max_slots:
            capacity = min(2 * self.cache.capacity, self._max_slots)
            self.cache.grow(capacity)
            self.pool.grow(capacity)
        slots = self.cache.take(count)
        if slots is not None:
            self._end_states.drop(slots.tolist())  # of the paths that had the slots before
        return slots

    def place(self, row: Row, step: StepPlaces) -> bool:
        """Give a row slots for the tokens that have none; False where there is no room."""
        give_way()
        if row.match is None:
            tokens = np.asarray(row.tokens, np.int64)
            row.match = self.cache.match(tokens)
            if row.placed == tokens.size:
                last = int(row.match.slots[-1])
                known = step.in_step.get(last)
                known = self._end_states.get(last) if known is None else known
                if known is not None:
                    row.count_cached()
                    step.ends.append(known)
                    return True
                # The path is cached but not the state at its end: compute its last token again,
                # in a slot of its own, so that what others read stays as it is.
                self.cache.release(row.match)
                row.match = self.cache.match(tokens[:-1])
            row.count_cached()
            enters_tree = row.placed < tokens.size - 1 or not _is_known(row, tokens)
        else:
            enters_tree = False
        first = row.placed
        new = np.asarray(row.tokens[first:], np.int64)
        slots = self.take(new.size)
        if slots is None:
            self.let_go(row)
            return False
        if enters_tree:
            row.match = self.cache.extend(row.match, new, slots)
            step.in_step[int(slots[-1])] = len(step.segments)
        else:
            row.tail += slots.tolist()
        step.ends.append(len(step.segments))
        trunk = first if enters_tree else row.match.slots.size
        step.segments.append(
            Segment(tokens=new, first=first, path_slots=row.path_slots, trunk=trunk)
        )
        return True

    def remember(self, step: StepPlaces, states: torch.Tensor) -> None:
        """Keep the states at the ends of paths that others may ask for."""
        self._end_states.keep(list(step.in_step), states[list(step.in_step.values())])

    def keep(self, row: Row) -> None:
        """Leave all that was computed for a row to whoever comes next, and let it go."""
        if row.match is not None and row.tail:
            begin = row.match.slots.size
            tokens = np.asarray(row.tokens[begin : begin + len(row.tail)], np.int64)
            row.match = self.cache.extend(row.match, tokens, np.asarray(row.tail, np.int64))
            row.tail = []
        self.let_go(row)

    def let_go(self, row: Row) -> None:
        """Take back a row's slots; what the cache knows of its path stays there."""
        if row.match is not None:
            self.cache.release(row.match)
        self.cache.give_back(np.asarray(row.tail, np.int64))
        row.match, row.tail = None, []


def _is_known(row: Row, tokens: Ints) -> bool:
    assert row.match is not None
    return int(tokens[-1]) in row.match.run.children
