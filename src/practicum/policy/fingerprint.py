"""Which weights: a digest of the tensors themselves."""

import hashlib
from collections.abc import Sequence
from typing import Any

import torch

from practicum.policy.lora import trainable
from practicum.policy.threads import computed

__all__ = ["policy_fingerprint"]


CHUNK = {"cpu": 2**17, "cuda": 2**22}
"""Values that are summed up at once: few enough for a processor's caches, many for a GPU."""


@computed
def policy_fingerprint(model: Any, base: str) -> str:
    """The base model's fingerprint and a digest of every trainable tensor, joined by a plus.

    Tensors are summed up where they lie, so that only one number leaves a GPU.
    """
    learning = list(trainable(model))
    described = [f"{name} {tuple(tensor.shape)} {tensor.dtype}" for name, tensor in learning]
    digest = hashlib.sha256("\n".join(described).encode())
    if learning:
        digest.update(str(_checksum([tensor.detach() for _, tensor in learning])).encode())
    return f"{base[:16]}+{digest.hexdigest()[:16]}"


def _checksum(tensors: Sequence[torch.Tensor]) -> int:
    """64 bits of all the tensors' bits, each value times a number that belongs to its place.

    Whole numbers wrap around in the same way everywhere, so the sum is the same on every device.
    """
    bits = torch.cat([t.contiguous().flatten().view(_WHOLE[t.element_size()]) for t in tensors])
    total = torch.zeros((), dtype=torch.int64, device=bits.device)
    chunk = CHUNK.get(bits.device.type, CHUNK["cuda"])
    for begin in range(0, bits.numel(), chunk):
        part = bits[begin : begin + chunk].long()
        place = torch.arange(begin + 1, begin + 1 + part.numel(), device=bits.device)
        place = place * -7046029254386353131  # odd numbers without a pattern
        place = (place ^ (place >> 29)) * -4658895280553007687
        total += (part * (place | 1)).sum()
    return int(total)


_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
