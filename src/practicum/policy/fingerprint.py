"""Which weights: a digest of the tensors themselves."""

import hashlib
from typing import Any

import torch

from practicum.policy.lora import trainable

__all__ = ["policy_fingerprint"]


def policy_fingerprint(model: Any, base: str) -> str:
    """The base model's fingerprint and a digest of every trainable tensor, joined by a plus."""
    digest = hashlib.sha256()
    for name, tensor in trainable(model):
        digest.update(name.encode())
        flat = tensor.detach().contiguous().cpu().view(torch.uint8).flatten()
        digest.update(flat.numpy().tobytes())
    return f"{base[:16]}+{digest.hexdigest()[:16]}"
