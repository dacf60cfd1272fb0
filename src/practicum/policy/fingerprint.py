"""Which weights: a digest of the tensors themselves."""

import hashlib
from typing import Any

import torch

from practicum.policy.lora import trainable

__all__ = ["policy_fingerprint"]


def policy_fingerprint(model: Any, base: str) -> str:
    """The base model's fingerprint and a digest of every trainable tensor, joined by a plus.

    Each tensor is summed up where it lies, so that nothing but one number for each leaves a GPU.
    """
    names, sums = [], []
    for name, tensor in trainable(model):
        names.append(f"{name} {tuple(tensor.shape)} {tensor.dtype}")
        sums.append(_checksum(tensor.detach()))
    digest = hashlib.sha256("\n".join(names).encode())
    if sums:
        digest.update(torch.stack(sums).cpu().numpy().tobytes())
    return f"{base[:16]}+{digest.hexdigest()[:16]}"


def _checksum(tensor: torch.Tensor) -> torch.Tensor:
    """64 bits of a tensor's bits, each value times a number that belongs to its place.

    Whole numbers wrap around in the same way everywhere, so the sum is the same on every device.
    """
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = tensor.contiguous().flatten().view(whole[tensor.element_size()]).long()
    place = torch.arange(1, bits.numel() + 1, device=tensor.device)
    place = place * -7046029254386353131  # odd numbers without a pattern
    place = (place ^ (place >> 29)) * -4658895280553007687
    return (bits * (place | 1)).sum()
