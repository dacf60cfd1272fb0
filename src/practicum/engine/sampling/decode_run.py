"""A decode run: the same rows, token after token, until something changes."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from practicum.core.sample import Floats, Ints, common_prefix
from practicum.engine.decoder.attention import KvPool
from practicum.engine.decoder.decoders import Decoder
from practicum.engine.decoder.dense_decode import DecodeRow, DenseDecode
from practicum.engine.decoder.head import Head
from practicum.engine.sampling.completions import PendingCompletion
from practicum.engine.sampling.draw import Draw
from practicum.engine.sampling.scheduler import PrefixCache

GROUP_COST = 64
"""Tokens whose reading costs as much as one more group of rows."""

Sharing = tuple[list[int], int]
"""Rows, and how many tokens at the start of their paths are the same for all of them."""


def shared_prefixes(paths: Sequence[Ints]) -> list[Sharing]:
    """Groups of rows by their common beginning, the cheapest to read.

    Sorted paths that share most are neighbours. A set of rows is read as one group or, where that
    is cheaper, divided where neighbours have least in common.
    """
    order = sorted(range(len(paths)), key=lambda i: paths[i].tolist())
    shared = [int(common_prefix(paths[a], paths[b])) for a, b in pairwise(order)]
    groups = _divide(order, shared)[1]
    alone = sorted(i for members, prefix in groups if not prefix for i in members)
    sharing = [(sorted(members), prefix) for members, prefix in groups if prefix]
    return sorted([*sharing, (alone, 0)] if alone else sharing)


def _divide(order: list[int], shared: list[int]) -> tuple[int, list[Sharing]]:
    """Tokens saved by reading prefixes once, less what groups cost, and the groups that do it."""
    if len(order) == 1:
        return -GROUP_COST, [(order, 0)]
    least = min(shared)
    whole = least * (len(order) - 1) - GROUP_COST
    cuts = [0, *(int(i) + 1 for i in np.flatnonzero(np.asarray(shared) == least)), len(order)]
    alone: list[int] = []
    saved, groups = 0, list[Sharing]()
    for a, b in pairwise(cuts):
        if b - a == 1:
            alone.append(order[a])
            continue
        more, inside = _divide(order[a:b], shared[a : b - 1])
        saved, groups = saved + more, groups + inside
    if alone:
        saved, groups = saved - GROUP_COST, [*groups, (alone, 0)]
    return (whole, [(order, least)]) if whole >= saved else (saved, groups)


LIVE_TOKENS = 8
"""Tokens a row gets at a time while somebody listens, so that they come as they are drawn."""

FEWEST_TOKENS = 4
"""Tokens a row gets at a time where completions are short: what comes after an end is wasted."""

DrawTokens = Callable[[Sequence[PendingCompletion], torch.Tensor], list[Draw]]
"""The next token of each row from its logits, (B, V)."""


class Drawn(NamedTuple):
    """The next tokens of every row: (rows, tokens)."""

    tokens: Ints
    logprobs: Floats
    log_kept: Floats


class DecodeSteps(Protocol):
    """Tokens for rows that go on together."""

    def advance(self, rows: Sequence[PendingCompletion], most: int) -> Drawn:
        """The next tokens of every row, at least one each, at most so many."""
        ...

    def close(self) -> None:
        """Put what was computed into the pool."""
        ...


class HostDraws:
    """One token a row and step, drawn here from the decoder's hidden states."""

    def __init__(
        self, decode_run: DenseDecode, head: Head, device: torch.device, draw: DrawTokens
    ) -> None:
        self._decode_run, self._head, self._device, self._draw = decode_run, head, device, draw

    def advance(self, rows: Sequence[PendingCompletion], most: int) -> Drawn:
        """One token each."""
        ids = torch.tensor([row.tokens[-1] for row in rows], device=self._device)
        logits = self._head.logits(self._decode_run.step(ids))
        columns, logprobs, log_kept = zip(*self._draw(rows, logits), strict=True)
        return Drawn(
            np.asarray(columns, np.int64)[:, None],
            np.asarray(logprobs)[:, None],
            np.asarray(log_kept)[:, None],
        )

    def close(self) -> None:
        """Put what was computed into the pool."""
        self._decode_run.close()


class DeviceDraws:
    """Many tokens a row at once, drawn where they are computed."""

    def __init__(self, decode_run: Any, rows: Sequence[PendingCompletion], usual: float) -> None:
        self._decode_run = decode_run
        listened = any(row.request.on_tokens is not None for row in rows)
        wanted = LIVE_TOKENS if listened else max(FEWEST_TOKENS, round(usual))
        self._at_once = min(decode_run.at_once, wanted)
        decode_run.begin(
            np.asarray([row.tokens[-1] for row in rows], np.int64),
            np.asarray([row.request.params.temperature for row in rows]),
        )

    def advance(self, rows: Sequence[PendingCompletion], most: int) -> Drawn:
        """As many as one look of the host is worth."""
        count = min(most, self._at_once)
        uniforms = np.stack([row.stream.take(count) for row in rows], axis=1)
        tokens, logprobs = self._decode_run.advance(uniforms)
        return Drawn(tokens, logprobs, np.zeros_like(logprobs))

    def close(self) -> None:
        """Everything is in the pool already."""


def begin_decode_run(
    decoder: Decoder,
    pool: KvPool,
    head: Head,
    rows: Sequence[PendingCompletion],
    fresh: Sequence[Ints],
    draw: DrawTokens,
    usual: float,
) -> DecodeSteps | None:
    """The fastest decode run that the decoder has for these rows.

    `usual` is how many tokens completions have had of late.
    """
    if all(row.is_plain for row in rows):
        paths = [row.path_slots for row in rows]
        captured = decoder.captured_decode_run(pool, list(zip(paths, fresh, strict=True)))
        if captured is not None:
            return DeviceDraws(captured, rows, usual)
    decode_run = decoder.decode_run(pool, _decode_run_rows(rows, fresh))
    return (
        None if decode_run is None else HostDraws(decode_run, head, pool.layers[0][0].device, draw)
    )


class DecodeRun:
    """Which rows a decode run serves, and the slots it was given for their tokens."""

    def __init__(
        self, rows: Sequence[PendingCompletion], fresh: Sequence[Ints], decode_run: DecodeSteps
    ) -> None:
        self._rows, self._fresh, self._decode_run = list(rows), fresh, decode_run
        self._before = [len(row.tokens) for row in rows]
        self._left = min(slots.size for slots in fresh)
        self._steps = 0

    def goes_on_with(self, active: Sequence[PendingCompletion]) -> bool:
        """Whether the next step is this run's."""
        same = len(active) == len(self._rows) and all(
            a is b for a, b in zip(active, self._rows, strict=True)
        )
        # What a grammar added without a draw is computed before anything else is drawn.
        in_step = all(n == self._steps for n in self._added)
        return same and in_step and self._left > 0 and not any(row.is_over for row in active)

    @property
    def _added(self) -> list[int]:
        """Tokens that each row has got since the decode run began."""
        pairs = zip(self._rows, self._before, strict=True)
        return [len(row.tokens) - before for row, before in pairs]

    def advance(self) -> Drawn:
        """The next tokens of every row."""
        found = self._decode_run.advance(self._rows, self._left)
        self._left -= found.tokens.shape[1]
        self._steps += found.tokens.shape[1]
        return found

    def close(self, cache: PrefixCache) -> None:
        """Leave what was computed with the rows, and give back the slots that were not needed."""
        self._decode_run.close()
        for row, slots, added in zip(self._rows, self._fresh, self._added, strict=True):
            used = min(added, self._steps)
            row.tail += slots[:used].tolist()
            cache.give_back(slots[used:])

    def give_back(self, cache: PrefixCache) -> None:
        """Give back every slot, as after a failure."""
        for slots in self._fresh:
            cache.give_back(slots)


def _decode_run_rows(rows: Sequence[PendingCompletion], fresh: Sequence[Ints]) -> list[DecodeRow]:
    """Rows as a decode run takes them, with the prefixes they share."""
    paths = [row.path_slots for row in rows]
    found: list[Any] = [None] * len(rows)
    for group, (members, prefix) in enumerate(shared_prefixes(paths)):
        for i in members:
            found[i] = DecodeRow(
                path=paths[i], fresh=np.asarray(fresh[i]), group=group, prefix=prefix
            )
    return found
