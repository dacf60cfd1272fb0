"""A burst under way in the engine: the same rows, token after token, until something changes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from practicum.core.sample import Floats, Ints
from practicum.policy.decoder import BurstRow, Decoder, DenseBurst
from practicum.policy.draw import Draw, require_numbers
from practicum.policy.head import Head
from practicum.policy.kv_pool import KvPool
from practicum.policy.prefix_cache import PrefixCache
from practicum.policy.rows import Row
from practicum.policy.trunks import share_trunks

__all__ = ["Burst", "BurstRun", "DrawTokens", "Drawn", "begin_burst"]

LIVE_TOKENS = 8
"""Tokens a row gets at a time while somebody listens, so that they come as they are drawn."""

DrawTokens = Callable[[Sequence[Row], torch.Tensor], list[Draw]]
"""The next token of each row from its logits, (B, V)."""


class Drawn(NamedTuple):
    """The next tokens of every row: (rows, tokens)."""

    tokens: Ints
    logprobs: Floats
    log_kept: Floats


class Burst(Protocol):
    """Tokens for rows that go on together."""

    def advance(self, rows: Sequence[Row], most: int) -> Drawn:
        """The next tokens of every row, at least one each, at most so many."""
        ...

    def close(self) -> None:
        """Put what was computed into the pool."""
        ...


class HostDraws:
    """One token a row and step, drawn here from the decoder's hidden states."""

    def __init__(
        self, burst: DenseBurst, head: Head, device: torch.device, draw: DrawTokens
    ) -> None:
        self._burst, self._head, self._device, self._draw = burst, head, device, draw

    def advance(self, rows: Sequence[Row], most: int) -> Drawn:
        """One token each."""
        ids = torch.tensor([row.tokens[-1] for row in rows], device=self._device)
        logits = self._head.logits(self._burst.step(ids))
        columns, logprobs, log_kept = zip(*self._draw(rows, logits), strict=True)
        return Drawn(
            np.asarray(columns, np.int64)[:, None],
            np.asarray(logprobs)[:, None],
            np.asarray(log_kept)[:, None],
        )

    def close(self) -> None:
        """Put what was computed into the pool."""
        self._burst.close()


class DeviceDraws:
    """Many tokens a row at once, drawn where they are computed."""

    def __init__(self, burst: Any, rows: Sequence[Row]) -> None:
        self._burst = burst
        listened = any(row.request.on_tokens is not None for row in rows)
        self._at_once = min(burst.at_once, LIVE_TOKENS) if listened else burst.at_once
        burst.begin(
            np.asarray([row.tokens[-1] for row in rows], np.int64),
            np.asarray([row.request.params.temperature for row in rows]),
        )

    def advance(self, rows: Sequence[Row], most: int) -> Drawn:
        """As many as one look of the host is worth."""
        count = min(most, self._at_once)
        uniforms = np.stack([row.stream.take(count) for row in rows], axis=1)
        tokens, logprobs = self._burst.advance(uniforms)
        for row, found in zip(rows, logprobs, strict=True):
            if row.request.params.temperature > 0.0:
                require_numbers(found)
        return Drawn(tokens, logprobs, np.zeros_like(logprobs))

    def close(self) -> None:
        """Everything is in the pool already."""


def begin_burst(
    decoder: Decoder,
    pool: KvPool,
    head: Head,
    rows: Sequence[Row],
    fresh: Sequence[Ints],
    draw: DrawTokens,
) -> Burst | None:
    """The fastest burst that the decoder has for these rows."""
    if all(row.is_plain for row in rows):
        paths = [row.path_slots for row in rows]
        captured = decoder.captured_burst(pool, list(zip(paths, fresh, strict=True)))
        if captured is not None:
            return DeviceDraws(captured, rows)
    burst = decoder.burst(pool, _burst_rows(rows, fresh))
    return None if burst is None else HostDraws(burst, head, pool.layers[0][0].device, draw)


class BurstRun:
    """Which rows a burst serves, and the slots it was given for their tokens."""

    def __init__(self, rows: Sequence[Row], fresh: Sequence[Ints], burst: Burst) -> None:
        self._rows, self._fresh, self._burst = list(rows), fresh, burst
        self._before = [len(row.tokens) for row in rows]
        self._left = min(slots.size for slots in fresh)
        self._steps = 0

    def goes_on_with(self, active: Sequence[Row]) -> bool:
        """Whether the next step is this burst's."""
        same = len(active) == len(self._rows) and all(
            a is b for a, b in zip(active, self._rows, strict=True)
        )
        # What a grammar added without a draw is computed before anything else is drawn.
        in_step = all(n == self._steps for n in self._added)
        return same and in_step and self._left > 0 and not any(row.is_over for row in active)

    @property
    def _added(self) -> list[int]:
        """Tokens that each row has got since the burst began."""
        pairs = zip(self._rows, self._before, strict=True)
        return [len(row.tokens) - before for row, before in pairs]

    def advance(self) -> Drawn:
        """The next tokens of every row."""
        found = self._burst.advance(self._rows, self._left)
        self._left -= found.tokens.shape[1]
        self._steps += found.tokens.shape[1]
        return found

    def close(self, cache: PrefixCache) -> None:
        """Leave what was computed with the rows, and give back the slots that were not needed."""
        self._burst.close()
        for row, slots, added in zip(self._rows, self._fresh, self._added, strict=True):
            used = min(added, self._steps)
            row.tail += slots[:used].tolist()
            cache.give_back(slots[used:])

    def give_back(self, cache: PrefixCache) -> None:
        """Give back every slot, as after a failure."""
        for slots in self._fresh:
            cache.give_back(slots)


def _burst_rows(rows: Sequence[Row], fresh: Sequence[Ints]) -> list[BurstRow]:
    """Rows as a decoder's burst takes them, with the trunks they share."""
    paths = [row.path_slots for row in rows]
    found: list[Any] = [None] * len(rows)
    for group, (members, trunk) in enumerate(share_trunks(paths)):
        for i in members:
            found[i] = BurstRow(path=paths[i], fresh=np.asarray(fresh[i]), group=group, trunk=trunk)
    return found
