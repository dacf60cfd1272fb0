"""Random adapters for the tiny model, as checkpoints have them."""

from pathlib import Path

import torch

from practicum.core.config.config_sections import LoraConfig
from practicum.engine.models.lora import (
    attach_adapter,
    policy_fingerprint,
    save_adapter,
    trainable,
)
from practicum.engine.policy import load_for_policy


def write_adapter(
    folder: Path, seed: int, lora: LoraConfig | None = None, size: float = 0.2
) -> str:
    """An adapter that changes the tiny model a lot; returns the fingerprint of the weights."""
    loaded = load_for_policy("tiny", "float32", "cpu")
    model = attach_adapter(loaded.module, lora or LoraConfig(r=4, alpha=8), seed, "tiny")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, tensor in trainable(model):
            tensor.copy_(size * torch.randn(tensor.shape, generator=generator))
    folder.mkdir(parents=True)
    save_adapter(model, folder)
    return policy_fingerprint(model, loaded.fingerprint)
