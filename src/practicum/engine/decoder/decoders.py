"""What sampling and learning ask of a decoder: our fused one, or any `transformers` module."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from torch import Tensor

from practicum.core.errors import UserError
from practicum.core.sample import Ints
from practicum.engine.decoder.attention import AttentionPlan, KvPool
from practicum.engine.decoder.dense_decode import DecodeRow, DenseDecode, planned_states
from practicum.engine.decoder.layers import (
    AddRows,
    DecoderParts,
    FusedProducts,
    LayerProducts,
    can_pack,
    can_take_apart,
    elementwise_for,
    packed_products,
    take_apart,
)
from practicum.engine.decoder.row_adapters import RowAdapters
from practicum.engine.decoder.training_pass import learn_states
from practicum.engine.decoder.tree_attention import tree_plan
from practicum.engine.models.lora import AdapterFold


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

    def states(self, token_ids: Tensor, positions: Tensor, plan: AttentionPlan) -> Tensor:
        """Hidden states (T, H), without gradient."""
        return self._forward(token_ids, positions, plan)

    def learn(
        self, token_ids: Tensor, positions: Tensor, end: Tensor, *, checkpointed: bool = False
    ) -> Tensor:
        """Hidden states (T, H) of a prefix tree, with gradient to the adapter."""
        plan = tree_plan(end)
        if not checkpointed:
            return self._forward(token_ids, positions, plan)
        enable, disable = checkpointing_of(self._decoder)
        enable({"use_reentrant": False})
        was_training = self._decoder.training
        self._decoder.train()  # the layers checkpoint only then; dropout is off or wanted
        try:
            return self._forward(token_ids, positions, plan)
        finally:
            self._decoder.train(was_training)
            disable()

    def decode_run(self, pool: KvPool, rows: Sequence[DecodeRow]) -> None:
        """Not for modules of other families: they go step by step."""
        return None

    def captured_decode_run(self, pool: KvPool, rows: Sequence[tuple[Ints, Ints]]) -> None:
        """Nor this."""
        return None

    def captured_states(self, pool: KvPool, segments: Sequence[tuple[Ints, Ints]]) -> None:
        """Nor this."""
        return None

    def _forward(self, token_ids: Tensor, positions: Tensor, plan: AttentionPlan) -> Tensor:
        output = self._decoder(
            input_ids=token_ids[None], position_ids=positions[None], use_cache=False, plan=plan
        )
        return output.last_hidden_state[0]


def checkpointing_of(decoder: Any) -> tuple[Any, Any]:
    """What turns activation checkpointing on and off; transformers 5.23 has renamed it."""
    try:
        return decoder.activation_checkpointing_enable, decoder.activation_checkpointing_disable
    except AttributeError:
        return decoder.gradient_checkpointing_enable, decoder.gradient_checkpointing_disable


class FusedDecoder:
    """Shares its weights with the module it was made from, which goes on working."""

    def __init__(self, causal_lm: Any, rows: RowAdapters | None = None) -> None:
        self._causal_lm = causal_lm
        self._parts = take_apart(causal_lm)
        self._rows = rows
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
            self._products = [*packed_products(parts, small, self._adds())]
        else:
            parts.sync()
            pairs = zip(parts.layers, self._adds(), strict=True)
            self._products = [FusedProducts(x, small, parts.eps, add) for x, add in pairs]

    @property
    def parts(self) -> DecoderParts:
        """The weights it computes with."""
        return self._parts

    def _adds(self) -> list[AddRows | None]:
        """What rows' own adapters add in each layer."""
        layers = range(len(self._parts.layers))
        if self._rows is None:
            return [None for _ in layers]
        return [partial(self._rows.add, layer) for layer in layers]

    @property
    def _mixes(self) -> bool:
        """Whether rows of this step have adapters of their own, which no captured pass has."""
        return self._rows is not None and bool(self._rows.stretches)

    def release(self) -> None:
        """Drop what was prepared: the adapter may change, and learning wants the memory."""
        self._products = []

    def states(self, token_ids: Tensor, positions: Tensor, plan: AttentionPlan) -> Tensor:
        """Hidden states (T, H), without gradient."""
        if self._outgrows_window(plan.longest_path()):
            return self._by_module().states(token_ids, positions, plan)
        return planned_states(self._parts, self._products, self._small, plan, token_ids, positions)

    def learn(
        self, token_ids: Tensor, positions: Tensor, end: Tensor, *, checkpointed: bool = False
    ) -> Tensor:
        """Hidden states (T, H) of a prefix tree, with gradient to the adapter."""
        if self._causal_lm.training:  # only so while there is dropout, which the module draws
            return self._module.learn(token_ids, positions, end, checkpointed=checkpointed)
        if self._parts.window is not None and self._outgrows_window(int(positions.max()) + 1):
            return self._module.learn(token_ids, positions, end, checkpointed=checkpointed)
        return learn_states(
            self._parts,
            self._small,
            tree_plan(end),
            token_ids,
            positions,
            checkpointed=checkpointed,
        )

    def decode_run(self, pool: KvPool, rows: Sequence[DecodeRow]) -> DenseDecode | None:
        """Several tokens for the same rows, unless one could outgrow the model's window."""
        if self._may_outgrow_window([(row.path, row.fresh) for row in rows]):
            return None
        return DenseDecode(self._parts, self._products, self._small, pool, rows)

    def captured_decode_run(self, pool: KvPool, rows: Sequence[tuple[Ints, Ints]]) -> Any:
        """The same on a GPU, captured and with the draw in it."""
        head = self._causal_lm.get_output_embeddings()
        is_plain = head.weight.is_cuda and head.bias is None and not self._mixes
        if not is_plain or self._may_outgrow_window(rows):
            return None
        from practicum.engine.decoder.cuda_graphs import GraphDecode

        return GraphDecode(self._step_graphs(pool, head.weight), rows)

    def captured_states(self, pool: KvPool, segments: Sequence[tuple[Ints, Ints]]) -> Tensor | None:
        """States at the ends of segments, from a captured pass; None where there is none."""
        output = self._causal_lm.get_output_embeddings().weight
        if not output.is_cuda or self._mixes:
            return None
        if self._outgrows_window(max(path.size for _, path in segments)):
            return None
        from practicum.engine.decoder.cuda_graphs import segment_states

        return segment_states(self._step_graphs(pool, output), segments)

    def _step_graphs(self, pool: KvPool, output: Tensor) -> Any:
        from practicum.engine.decoder.cuda_graphs import StepGraphs

        if self._graphs is None or self._graphs.pool is not pool:
            longest = min(self._causal_lm.config.max_position_embeddings, pool.spare)
            self._graphs = StepGraphs(self._parts, output, pool, longest)
        return self._graphs

    def _may_outgrow_window(self, rows: Sequence[tuple[Ints, Ints]]) -> bool:
        return any(self._outgrows_window(p.size + f.size) for p, f in rows)

    def _outgrows_window(self, length: int) -> bool:
        """Whether a path is longer than what this family looks back on at a time."""
        return self._parts.window is not None and length > self._parts.window

    def _by_module(self) -> ModuleDecoder:
        """The module's own layers, which look back only so far; they know one adapter for all."""
        if self._mixes:
            raise UserError(
                f"this model attends to {self._parts.window} tokens at a time, and longer "
                "conversations are computed for one adapter at a time; serve one adapter"
            )
        return self._module


class Decoder(Protocol):
    """From tokens to hidden states, in two ways that agree."""

    def prepare(self) -> None:
        """Called before every step of sampling; cheap when nothing has changed."""
        ...

    def release(self) -> None:
        """Called when the adapter may have changed, and before learning."""
        ...

    def states(self, token_ids: Tensor, positions: Tensor, plan: AttentionPlan) -> Tensor:
        """Hidden states (T, H) for sampling."""
        ...

    def learn(
        self, token_ids: Tensor, positions: Tensor, end: Tensor, *, checkpointed: bool = False
    ) -> Tensor:
        """Hidden states (T, H) of a prefix tree, with gradient to the adapter."""
        ...

    def decode_run(self, pool: KvPool, rows: Sequence[DecodeRow]) -> DenseDecode | None:
        """Several tokens for the same rows, where the decoder can."""
        ...

    def captured_decode_run(self, pool: KvPool, rows: Sequence[tuple[Ints, Ints]]) -> Any:
        """A `GraphBurst`, which also draws, where there is a GPU for it; None elsewhere.

        Rows are the slots of their paths, and those for the tokens to come.
        """
        ...

    def captured_states(self, pool: KvPool, segments: Sequence[tuple[Ints, Ints]]) -> Tensor | None:
        """Hidden states (S, H) at the ends of segments, where they are few enough and on a GPU.

        Segments are the new tokens at the end of a path, and the slots of the whole path.
        """
        ...


def decoder_of(causal_lm: Any) -> Decoder:
    """Our own computation where the family is known, the module's where it is not."""
    return FusedDecoder(causal_lm) if can_take_apart(causal_lm) else ModuleDecoder(causal_lm)
