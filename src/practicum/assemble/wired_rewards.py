"""Rewards, wired with the sandboxes, the local judge and the embedder they may need."""

from typing import TYPE_CHECKING

from practicum.engine.planning.machine import choose_device, choose_dtype, detect_machine
from practicum.engine.sampling.local_judge import local_judge
from practicum.rewards.build_rewards import RewardBuilder
from practicum.sandboxes.opening import open_sandboxes

if TYPE_CHECKING:
    from practicum.engine.learning.embedding import ModelEmbedder


def load_embedder(model: str) -> "ModelEmbedder":
    """The local model as an embedder, on the device and in the precision that suit the machine."""
    from practicum.engine.learning.embedding import ModelEmbedder
    from practicum.engine.models.loading import load_model

    device = choose_device(detect_machine(), "auto")
    return ModelEmbedder(load_model(model, dtype=choose_dtype(device, "auto"), device=device))


REWARDS = RewardBuilder(
    open_sandboxes=open_sandboxes, local_judge=local_judge, load_embedder=load_embedder
)
"""One for the process: sandboxes and labelers are opened once, whoever asks."""
