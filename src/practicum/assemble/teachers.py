"""Who a policy is taught by."""

from typing import TYPE_CHECKING

from practicum.assemble.models import placement
from practicum.core.config import RunConfig
from practicum.core.interfaces import Teacher

if TYPE_CHECKING:
    from practicum.policy.torch_policy import TorchPolicy

__all__ = ["build_teacher"]


def build_teacher(view: RunConfig, policy: "TorchPolicy") -> Teacher | None:
    """The teacher a config names: a model here, or an endpoint; None where it names none."""
    name = view.algorithm.teacher
    if name is None:
        return None
    if name.startswith(("http://", "https://")):
        from practicum.policy.remote_teacher import RemoteTeacher

        return RemoteTeacher(name)
    from practicum.batching import build_batches
    from practicum.policy.teacher import TorchTeacher
    from practicum.policy.torch_policy import load_for_policy

    dtype, device = placement(view.model)
    loaded = load_for_policy(name, dtype, device)
    budget = view.algorithm.micro_batch_tokens
    return TorchTeacher(
        loaded, policy.codec, lay_out=lambda samples: build_batches(samples, budget)
    )
