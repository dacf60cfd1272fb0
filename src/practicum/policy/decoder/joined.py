"""Families that we compute ourselves: joined products, little kept, bursts of tokens."""

from collections.abc import Sequence
from typing import Any

import torch

from practicum.core.sample import Ints
from practicum.policy.attention import AttentionPlan, refuse_beyond_window
from practicum.policy.decoder.burst import BurstRow, DenseBurst
from practicum.policy.decoder.elementwise import elementwise_for
from practicum.policy.decoder.learning import learn_states
from practicum.policy.decoder.module import ModuleDecoder
from practicum.policy.decoder.parts import take_apart
from practicum.policy.decoder.products import (
    JoinedProducts,
    LayerProducts,
    can_pack,
    packed_products,
)
from practicum.policy.decoder.states import planned_states
from practicum.policy.kv_pool import KvPool
from practicum.policy.tree_attention import tree_plan

__all__ = ["JoinedDecoder"]


class JoinedDecoder:
    """Shares its weights with the module it was made from, which goes on working."""

    def __init__(self, causal_lm: Any) -> None:
        self._causal_lm = causal_lm
        self._parts = take_apart(causal_lm)
        self._module = ModuleDecoder(causal_lm)
        self._small = elementwise_for(self._parts.embedding.device)
        self._products: list[LayerProducts] = []
        self._graphs: Any = None

    def prepare(self) -> None:
        """Bring the adapter, as it is now, into what sampling computes with."""
        if self._products:
            return
        parts, small = self._parts, self._small
        if can_pack(parts.layers[0].qkv.joined):
            self._products = [*packed_products(parts, small)]
        else:
            parts.sync()
            self._products = [JoinedProducts(layer, small, parts.eps) for layer in parts.layers]

    def release(self) -> None:
        """Drop what was prepared: the adapter may change, and learning wants the memory."""
        self._products = []

    def states(
        self, token_ids: torch.Tensor, positions: torch.Tensor, plan: AttentionPlan
    ) -> torch.Tensor:
        """Hidden states (T, H), without gradient."""
        refuse_beyond_window(self._parts.window, plan.longest_path)
        return planned_states(self._parts, self._products, self._small, plan, token_ids, positions)

    def learn(
        self,
        token_ids: torch.Tensor,
        positions: torch.Tensor,
        end: torch.Tensor,
        *,
        checkpointed: bool = False,
    ) -> torch.Tensor:
        """Hidden states (T, H) of a prefix tree, with gradient to the adapter."""
        if self._causal_lm.training:  # only so while there is dropout, which the module draws
            return self._module.learn(token_ids, positions, end, checkpointed=checkpointed)
        refuse_beyond_window(self._parts.window, lambda: int(positions.max()) + 1)
        return learn_states(
            self._parts,
            self._small,
            tree_plan(end),
            token_ids,
            positions,
            checkpointed=checkpointed,
        )

    def burst(self, pool: KvPool, rows: Sequence[BurstRow]) -> DenseBurst | None:
        """Several tokens for the same rows, unless one could outgrow the model's window."""
        if self._may_outgrow_window([(row.path, row.fresh) for row in rows]):
            return None
        return DenseBurst(self._parts, self._products, self._small, pool, rows)

    def captured_burst(self, pool: KvPool, rows: Sequence[tuple[Ints, Ints]]) -> Any:
        """The same on a GPU, captured and with the draw in it."""
        head = self._causal_lm.get_output_embeddings()
        if not head.weight.is_cuda or head.bias is not None or self._may_outgrow_window(rows):
            return None
        from practicum.policy.decoder.graphs import GraphBurst, StepGraphs

        if self._graphs is None or self._graphs.pool is not pool:
            longest = min(self._causal_lm.config.max_position_embeddings, pool.spare)
            self._graphs = StepGraphs(self._parts, head.weight, pool, longest)
        return GraphBurst(self._graphs, rows)

    def _may_outgrow_window(self, rows: Sequence[tuple[Ints, Ints]]) -> bool:
        window = self._parts.window
        return window is not None and any(p.size + f.size > window for p, f in rows)
