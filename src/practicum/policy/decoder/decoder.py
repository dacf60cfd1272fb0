"""What sampling and learning ask of a decoder, and which one a model gets."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from practicum.core.sample import Ints
from practicum.policy.attention import AttentionPlan
from practicum.policy.decoder.burst import BurstRow, DenseBurst
from practicum.policy.decoder.joined import JoinedDecoder
from practicum.policy.decoder.module import ModuleDecoder
from practicum.policy.decoder.parts import can_take_apart
from practicum.policy.kv_pool import KvPool

__all__ = ["Decoder", "decoder_of"]


class Decoder(Protocol):
    """From tokens to hidden states, in two ways that agree."""

    def prepare(self) -> None:
        """Called before every step of sampling; cheap when nothing has changed."""
        ...

    def release(self) -> None:
        """Called when the adapter may have changed, and before learning."""
        ...

    def states(
        self, token_ids: torch.Tensor, positions: torch.Tensor, plan: AttentionPlan
    ) -> torch.Tensor:
        """Hidden states (T, H) for sampling."""
        ...

    def learn(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        end: torch.Tensor,
        *,
        checkpointed: bool = False,
    ) -> torch.Tensor:
        """Hidden states (T, H) of a prefix tree, with gradient to the adapter."""
        ...

    def burst(self, pool: KvPool, rows: Sequence[BurstRow]) -> DenseBurst | None:
        """Several tokens for the same rows, where the decoder can."""
        ...

    def captured_burst(self, pool: KvPool, rows: Sequence[tuple[Ints, Ints]]) -> Any:
        """A `GraphBurst`, which also draws, where there is a GPU for it; None elsewhere.

        Rows are the slots of their paths, and those for the tokens to come.
        """
        ...


def decoder_of(causal_lm: Any) -> Decoder:
    """Our own computation where the family is known, the module's where it is not."""
    return JoinedDecoder(causal_lm) if can_take_apart(causal_lm) else ModuleDecoder(causal_lm)
