"""The KV cache as sampling sees it: which token paths are in which slots, and what a step computes.

A radix tree of token runs. Paths that begin alike share nodes and so share slots: the prompt of a
group is computed once, and the history of an episode stays from turn to turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from practicum.core.sample import Ints, common_prefix
from practicum.engine.compute_thread import give_way
from practicum.engine.decoder.attention import Bucket, CachePlan, KvPool
from practicum.engine.sampling.completions import Match, PendingCompletion, Segment, TokenRun

DROPPED_SHARE = 32
"""A cache that is full drops paths until one in so many of its slots is free."""


class PrefixCache:
    """A radix tree over `capacity` slots; capacity can grow."""

    def __init__(self, capacity: int) -> None:
        self._root = TokenRun(np.zeros(0, np.int64), np.zeros(0, np.int64), None)
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
        self._root = TokenRun(np.zeros(0, np.int64), np.zeros(0, np.int64), None)
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
            child = TokenRun(tokens[shared:].copy(), slots[shared:].copy(), run)
            child.last_used = self._clock
            run.children[int(tokens[shared])] = child
            run = child
        self._hold(match.run, -1)
        self._hold(run, +1)
        return Match(slots=np.concatenate([match.slots, beyond.slots, slots[shared:]]), run=run)

    def _walk(self, run: TokenRun, tokens: Ints) -> Match:
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

    def _hold(self, run: TokenRun, change: int) -> None:
        at: TokenRun | None = run
        while at is not None:
            at.holders += change
            at = at.parent

    def _split(self, run: TokenRun, at: int) -> TokenRun:
        """Cut a run in two; returns the upper half."""
        assert run.parent is not None
        upper = TokenRun(run.tokens[:at], run.slots[:at], run.parent)
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

    def _runs(self) -> list[TokenRun]:
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


@dataclass(slots=True)
class StepSlots:
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


class SlotAllocator:
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

    def place(self, row: PendingCompletion, step: StepSlots) -> bool:
        """Give a row slots for the tokens that have none; False where there is no room."""
        give_way()
        if row.match is None:
            tokens = np.asarray(row.tokens, np.int64) + row.cache_key
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
            row.match = self.cache.extend(row.match, new + row.cache_key, slots)
            step.in_step[int(slots[-1])] = len(step.segments)
        else:
            row.tail += slots.tolist()
        step.ends.append(len(step.segments))
        prefix = first if enters_tree else row.match.slots.size
        step.segments.append(
            Segment(
                tokens=new,
                first=first,
                path_slots=row.path_slots,
                prefix=prefix,
                adapter=row.adapter,
            )
        )
        return True

    def remember(self, step: StepSlots, states: torch.Tensor) -> None:
        """Keep the states at the ends of paths that others may ask for."""
        self._end_states.keep(list(step.in_step), states[list(step.in_step.values())])

    def keep(self, row: PendingCompletion) -> None:
        """Leave all that was computed for a row to whoever comes next, and let it go."""
        if row.match is not None and row.tail:
            begin = row.match.slots.size
            tokens = np.asarray(row.tokens[begin : begin + len(row.tail)], np.int64)
            slots = np.asarray(row.tail, np.int64)
            row.match = self.cache.extend(row.match, tokens + row.cache_key, slots)
            row.tail = []
        self.let_go(row)

    def let_go(self, row: PendingCompletion) -> None:
        """Take back a row's slots; what the cache knows of its path stays there."""
        if row.match is not None:
            self.cache.release(row.match)
        self.cache.give_back(np.asarray(row.tail, np.int64))
        row.match, row.tail = None, []


def _is_known(row: PendingCompletion, tokens: Ints) -> bool:
    assert row.match is not None
    return int(tokens[-1]) in row.match.run.children


SHARED_TRUNK = 64
"""Tokens that rows must have in common before it pays to attend to them apart."""


class StepPlan(NamedTuple):
    """The new tokens of all segments as one row, and how they attend."""

    plan: CachePlan
    token_ids: torch.Tensor  # (T,)
    positions: torch.Tensor  # (T,)
    lasts: torch.Tensor  # (S,) index of each segment's last token


def plan_step(
    segments: list[Segment], pool: KvPool, heads_per_key: int, device: torch.device
) -> StepPlan:
    """Lay the segments out one after the other."""

    def on_device(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(device)

    sizes = np.asarray([s.tokens.size for s in segments])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    buckets = []
    for members, prefix in _alike(segments):
        give_way()
        arrays = _bucket([segments[i] for i in members], starts[members], prefix)
        starting = all(segments[i].first == 0 for i in members)
        rows, shared, slots, depth, kept, tokens = map(on_device, arrays)
        buckets.append(Bucket(rows, shared, slots, depth, kept, tokens, starting))
    written = np.concatenate([s.path_slots[s.first :] for s in segments])
    positions = [np.arange(s.first, s.first + s.tokens.size) for s in segments]
    spare = rung(written.size) - written.size if device.type == "cpu" else 0
    filled = np.concatenate([written, np.full(spare, pool.spare)])
    return StepPlan(
        plan=CachePlan.of(pool, on_device(filled), tuple(buckets), heads_per_key),
        token_ids=on_device(np.concatenate([*(s.tokens for s in segments), np.zeros(spare, int)])),
        positions=on_device(np.concatenate([*positions, np.zeros(spare, int)])),
        lasts=on_device(starts + sizes - 1),
    )


def rung(tokens: int) -> int:
    """How many tokens are computed for so many, at most a sixteenth more.

    oneDNN compiles a product anew for every number of rows and keeps what it compiled: without a
    ladder of sizes, a server's memory grows with every length of prompt that it has not seen.

    >>> [rung(tokens) for tokens in (1, 20, 100, 488, 1000)]
    [1, 20, 100, 496, 1024]
    """
    step = 1 << max(0, tokens.bit_length() - 5)
    return -(-tokens // step) * step


def _alike(segments: list[Segment]) -> list[tuple[list[int], int]]:
    """Segments to attend to together, and how much of their beginning they have in common.

    Those with a prefix worth sharing are kept together by it, all others only by their length.
    """
    sharing: dict[tuple[int, int], int] = {}
    for segment in segments:
        sharing[segment.prefix_key] = sharing.get(segment.prefix_key, 0) + 1
    buckets: dict[tuple[int, int, bool, int], list[int]] = {}
    for number, segment in enumerate(segments):
        key = segment.prefix_key
        if sharing[key] < 2 or key[0] < SHARED_TRUNK:
            key = (0, -1)
        alike = (*key, segment.first == 0, int(segment.tokens.size - 1).bit_length())
        buckets.setdefault(alike, []).append(number)
    return [(members, key[0]) for key, members in sorted(buckets.items())]


def _bucket(segments: list[Segment], starts: np.ndarray, prefix: int) -> tuple[np.ndarray, ...]:
    """The arrays of a `Bucket`, in the order of its fields."""
    paths = [s.path_slots[prefix:] for s in segments]
    sizes = np.asarray([s.tokens.size for s in segments])
    lengths = np.asarray([path.size for path in paths])
    # What is too short is filled up with its last one.
    at = np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    rows = starts[:, None] + at
    depth = np.asarray([s.first for s in segments])[:, None] + at
    within = np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)
    slots = np.concatenate(paths)[within + (np.cumsum(lengths) - lengths)[:, None]]
    kept = np.flatnonzero(np.arange(sizes.max()) < sizes[:, None])
    return rows, segments[0].path_slots[:prefix], slots, depth, kept, rows.ravel()[kept]
