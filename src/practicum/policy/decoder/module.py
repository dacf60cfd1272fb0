"""Any `transformers` family, computed by its own module with our attention in it."""

from collections.abc import Sequence
from typing import Any

import torch

from practicum.core.sample import Ints
from practicum.policy.attention import AttentionPlan
from practicum.policy.decoder.burst import BurstRow
from practicum.policy.folding import AdapterFold
from practicum.policy.kv_pool import KvPool
from practicum.policy.tree_attention import tree_plan

__all__ = ["ModuleDecoder"]


class ModuleDecoder:
    """Knows nothing of the model but its interface."""

    def __init__(self, causal_lm: Any) -> None:
        self._decoder = causal_lm.base_model
        self._fold = AdapterFold(causal_lm)

    def prepare(self) -> None:
        """Fold the adapter in."""
        self._fold.fold()

    def release(self) -> None:
        """Take the adapter out again."""
        self._fold.unfold()

    def states(
        self, token_ids: torch.Tensor, positions: torch.Tensor, plan: AttentionPlan
    ) -> torch.Tensor:
        """Hidden states (T, H), without gradient."""
        return self._forward(token_ids, positions, plan)

    def learn(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        end: torch.Tensor,
        *,
        checkpointed: bool = False,
    ) -> torch.Tensor:
        """Hidden states (T, H) of a prefix tree, with gradient to the adapter."""
        plan = tree_plan(end)
        if not checkpointed:
            return self._forward(token_ids, positions, plan)
        self._decoder.gradient_checkpointing_enable({"use_reentrant": False})
        was_training = self._decoder.training
        self._decoder.train()  # the layers checkpoint only then; dropout is off or wanted
        try:
            return self._forward(token_ids, positions, plan)
        finally:
            self._decoder.train(was_training)
            self._decoder.gradient_checkpointing_disable()

    def burst(self, pool: KvPool, rows: Sequence[BurstRow]) -> None:
        """Not for modules of other families: they go step by step."""
        return None

    def captured_burst(self, pool: KvPool, rows: Sequence[tuple[Ints, Ints]]) -> None:
        """Nor this."""
        return None

    def _forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, plan: AttentionPlan
    ) -> torch.Tensor:
        output = self._decoder(
            input_ids=token_ids[None], position_ids=positions[None], use_cache=False, plan=plan
        )
        return output.last_hidden_state[0]
