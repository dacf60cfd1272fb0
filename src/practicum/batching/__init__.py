"""Episodes to samples to one prefix tree."""

from practicum.batching.samples import episode_samples, group_samples, loss_tokens, walks
from practicum.batching.tree import build_batch, build_batches

__all__ = [
    "build_batch",
    "build_batches",
    "episode_samples",
    "group_samples",
    "loss_tokens",
    "walks",
]
