"""What one step of the engine computes, as tensors."""

from typing import NamedTuple

import numpy as np
import torch

from practicum.core.event_loop import give_way
from practicum.policy.attention import Bucket, CachePlan
from practicum.policy.kv_pool import KvPool
from practicum.policy.rows import Segment

__all__ = ["StepPlan", "plan_step"]

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
    for members, trunk in _alike(segments):
        give_way()
        arrays = _bucket([segments[i] for i in members], starts[members], trunk)
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

    Those with a trunk worth sharing are kept together by it, all others only by their length.
    """
    sharing: dict[tuple[int, int], int] = {}
    for segment in segments:
        sharing[segment.trunk_key] = sharing.get(segment.trunk_key, 0) + 1
    buckets: dict[tuple[int, int, bool, int], list[int]] = {}
    for number, segment in enumerate(segments):
        key = segment.trunk_key
        if sharing[key] < 2 or key[0] < SHARED_TRUNK:
            key = (0, -1)
        alike = (*key, segment.first == 0, int(segment.tokens.size - 1).bit_length())
        buckets.setdefault(alike, []).append(number)
    return [(members, key[0]) for key, members in sorted(buckets.items())]


def _bucket(segments: list[Segment], starts: np.ndarray, trunk: int) -> tuple[np.ndarray, ...]:
    """The arrays of a `Bucket`, in the order of its fields."""
    paths = [s.path_slots[trunk:] for s in segments]
    sizes = np.asarray([s.tokens.size for s in segments])
    lengths = np.asarray([path.size for path in paths])
    # What is too short is filled up with its last one.
    at = np.minimum(np.arange(sizes.max()), sizes[:, None] - 1)
    rows = starts[:, None] + at
    depth = np.asarray([s.first for s in segments])[:, None] + at
    within = np.minimum(np.arange(lengths.max()), lengths[:, None] - 1)
    slots = np.concatenate(paths)[within + (np.cumsum(lengths) - lengths)[:, None]]
    kept = np.flatnonzero(np.arange(sizes.max()) < sizes[:, None])
    return rows, segments[0].path_slots[:trunk], slots, depth, kept, rows.ravel()[kept]
