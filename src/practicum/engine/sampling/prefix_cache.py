"""Which token paths are in the KV cache, in which slots, and the hidden states where prompts ended.

A radix tree of token runs. Paths that begin alike share nodes and so share slots: the prompt of a
group is computed once, and the history of an episode stays from turn to turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from practicum.core.sample import Ints, common_prefix

DROPPED_SHARE = 32
"""A cache that is full drops paths until one in so many of its slots is free."""


@dataclass(eq=False, slots=True)
class _Run:
    """Consecutive tokens without a branch between them."""

    tokens: Ints
    slots: Ints
    parent: "_Run | None"
    children: dict[int, "_Run"] = field(default_factory=dict)
    holders: int = 0
    last_used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The longest cached prefix of a path."""

    slots: Ints
    run: _Run


class PrefixCache:
    """A radix tree over `capacity` slots; capacity can grow."""

    def __init__(self, capacity: int) -> None:
        self._root = _Run(np.zeros(0, np.int64), np.zeros(0, np.int64), None)
        self._free = list(range(capacity - 1, -1, -1))
        self._capacity = capacity
        self._clock = 0

    @property
    def capacity(self) -> int:
        """Slots in all."""
        return self._capacity

    @property
    def free_slots(self) -> int:
        """Slots nobody uses."""
        return len(self._free)

    def grow(self, capacity: int) -> None:
        """Add slots."""
        self._free[:0] = range(capacity - 1, self._capacity - 1, -1)
        self._capacity = capacity

    def clear(self) -> None:
        """Forget every path, as when the weights have changed. Nothing may be held."""
        self._root = _Run(np.zeros(0, np.int64), np.zeros(0, np.int64), None)
        self._free = list(range(self._capacity - 1, -1, -1))

    def take(self, count: int) -> Ints | None:
        """Free slots, dropping the least recently used paths nobody holds; None if too few."""
        while len(self._free) < count and self._drop_oldest(count):
            pass
        if len(self._free) < count:
            return None
        taken = self._free[-count:][::-1] if count else []
        del self._free[len(self._free) - count :]
        return np.asarray(taken, np.int64)

    def give_back(self, slots: Ints) -> None:
        """Return slots that are in no path."""
        self._free.extend(slots.tolist()[::-1])

    def match(self, tokens: Ints) -> Match:
        """The longest cached prefix of `tokens`, held until `release`."""
        found = self._walk(self._root, tokens)
        self._hold(found.run, +1)
        return found

    def extend(self, match: Match, tokens: Ints, slots: Ints) -> Match:
        """Add `tokens` in `slots` after a held match; the hold moves to the longer path.

        What another path has added there meanwhile is shared, and the slots that doubles come back
        to the free list.
        """
        beyond = self._walk(match.run, tokens)
        shared = beyond.slots.size
        self.give_back(slots[:shared])
        run = beyond.run
        if shared < tokens.size:
            child = _Run(tokens[shared:].copy(), slots[shared:].copy(), run)
            child.last_used = self._clock
            run.children[int(tokens[shared])] = child
            run = child
        self._hold(match.run, -1)
        self._hold(run, +1)
        return Match(slots=np.concatenate([match.slots, beyond.slots, slots[shared:]]), run=run)

    def _walk(self, run: _Run, tokens: Ints) -> Match:
        """The longest cached continuation of `run`."""
        self._clock += 1
        at, parts = 0, []
        while at < tokens.size:
            child = run.children.get(int(tokens[at]))
            if child is None:
                break
            common = common_prefix(child.tokens, tokens[at:])
            if common < child.tokens.size:
                child = self._split(child, common)
            parts.append(child.slots)
            at += common
            run = child
            run.last_used = self._clock
        return Match(slots=np.concatenate(parts) if parts else np.zeros(0, np.int64), run=run)

    def release(self, match: Match) -> None:
        """Let go of a path; it stays cached until its slots are wanted."""
        self._hold(match.run, -1)

    def _hold(self, run: _Run, change: int) -> None:
        at: _Run | None = run
        while at is not None:
            at.holders += change
            at = at.parent

    def _split(self, run: _Run, at: int) -> _Run:
        """Cut a run in two; returns the upper half."""
        assert run.parent is not None
        upper = _Run(run.tokens[:at], run.slots[:at], run.parent)
        upper.holders, upper.last_used = run.holders, run.last_used
        upper.children[int(run.tokens[at])] = run
        run.parent.children[int(run.tokens[0])] = upper
        run.tokens, run.slots, run.parent = run.tokens[at:], run.slots[at:], upper
        return upper

    def _drop_oldest(self, count: int) -> bool:
        """Drop last runs nobody holds, the oldest first, until there are so many free slots.

        And some more in a large cache: finding the oldest means looking at all of them.
        """
        leaves = [r for r in self._runs() if not r.children and r.holders == 0]
        wanted = max(count, self._capacity // DROPPED_SHARE)
        for oldest in sorted(leaves, key=lambda r: r.last_used):
            if len(self._free) >= wanted:
                break
            assert oldest.parent is not None
            del oldest.parent.children[int(oldest.tokens[0])]
            self.give_back(oldest.slots)
        return bool(leaves)

    def _runs(self) -> list[_Run]:
        found, stack = [], list(self._root.children.values())
        while stack:
            run = stack.pop()
            found.append(run)
            stack.extend(run.children.values())
        return found


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
