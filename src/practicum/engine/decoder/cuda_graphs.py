"""Sampling on NVIDIA GPUs: whole forward passes, captured once and replayed.

A decode step takes one token of every row from the embedding to the next token without the host:
where keys and values go, how long a row is, and which random number is next are all read on the
device. A pass over segments takes several new tokens of each path to the states at their ends, for
turns that begin and for choices that the host makes. Graphs are captured for a ladder of sizes,
when one is first needed; what is missing to the next rung is computed and thrown away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from practicum.core.sample import Floats, Ints
from practicum.engine.decoder.attention import KvPool
from practicum.engine.decoder.layers import DecoderParts, LayerParts, Projection
from practicum.engine.kernels.decode_attention import decode_attention
from practicum.engine.kernels.logits_kernels import draw
from practicum.engine.kernels.norm_kernels import add_rms_norm, head_rms_norm
from practicum.engine.kernels.rotary_kernels import rotate_store
from practicum.engine.kernels.triton_elementwise import silu_mul

RUNGS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
CHUNK = 32
"""Tokens a row gets between two looks of the host."""

FIRST_WIDTH = 1024
"""Tokens of a row that the first graph has room for; then twice as many, and so on."""

MOST_TOKENS = 2048
"""New tokens that a captured pass over segments takes; beyond, launching kernels costs little."""

MOST_SEGMENTS = 256
"""Paths that they may belong to."""


NewTokens = tuple[Ints, Ints]
"""New tokens at the end of a path, and the slots of the whole path."""

Adding = tuple[torch.Tensor, torch.Tensor] | None
"""Two thin factors, (B, ranks) and (out, ranks), whose product is still to be added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInputs:
    """What a captured step reads and writes; the same tensors for every replay."""

    tokens: torch.Tensor  # (B,) the token to compute, then the one drawn
    positions: torch.Tensor  # (B,) its place on its path, counted up by each step
    table: torch.Tensor  # (B, W) int32 slots of each path
    temperature: torch.Tensor  # (B,)
    greedy: torch.Tensor  # (B,)
    uniforms: torch.Tensor  # (CHUNK, B)
    step: torch.Tensor  # (1,) counted up by each step
    drawn: torch.Tensor  # (CHUNK, B)
    logprobs: torch.Tensor  # (CHUNK, B)

    @classmethod
    def empty(cls, rows: int, width: int, spare: int, device: torch.device) -> "StepInputs":
        """Rows that all look at the pool's spare slot."""

        def zeros(*shape: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        return cls(
            tokens=zeros(rows, dtype=torch.int64),
            positions=zeros(rows, dtype=torch.int64),
            table=torch.full((rows, width), spare, dtype=torch.int32, device=device),
            temperature=torch.ones(rows, device=device),
            greedy=zeros(rows, dtype=torch.bool),
            uniforms=zeros(CHUNK, rows, dtype=torch.float64),
            step=zeros(1, dtype=torch.int64),
            drawn=zeros(CHUNK, rows, dtype=torch.int64),
            logprobs=zeros(CHUNK, rows, dtype=torch.float32),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInputs:
    """What a captured pass over segments reads and writes; the same tensors for every replay."""

    tokens: torch.Tensor  # (T,)
    positions: torch.Tensor  # (T,) place of each token on its path
    owners: torch.Tensor  # (T,) row of the table that has the token's path
    table: torch.Tensor  # (S + 1, W) int32 slots of each path; the last row is nobody's
    lasts: torch.Tensor  # (S,) each segment's last token
    states: torch.Tensor  # (S, H) the hidden states there

    @classmethod
    def empty(cls, tokens: int, width: int, spare: int, like: torch.Tensor) -> "SegmentInputs":
        """Tokens that all belong to nobody; states are as the embedding `like` is."""
        segments, device = min(tokens, MOST_SEGMENTS), like.device
        numbers = torch.zeros((2, tokens), dtype=torch.int64, device=device)
        return cls(
            tokens=numbers[0],
            positions=numbers[1],
            owners=torch.full_like(numbers[0], segments),
            table=torch.full((segments + 1, width), spare, dtype=torch.int32, device=device),
            lasts=torch.zeros(segments, dtype=torch.int64, device=device),
            states=torch.zeros(segments, like.shape[1], dtype=like.dtype, device=device),
        )


class StepGraphs:
    """Captured passes over one decoder, one pool and one output layer."""

    def __init__(
        self, parts: DecoderParts, output: torch.Tensor, pool: KvPool, longest: int
    ) -> None:
        self._parts, self._output, self._pool = parts, output, pool
        device = output.device
        self._cos, self._sin = parts.angles(torch.arange(longest, device=device))
        self._biases: dict[Projection, torch.Tensor] = {}
        self._graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, StepInputs]] = {}
        self._passes: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, SegmentInputs]] = {}

    @property
    def pool(self) -> KvPool:
        """The pool whose addresses the graphs hold."""
        return self._pool

    def graph(self, rows: int, width: int) -> tuple[torch.cuda.CUDAGraph, StepInputs]:
        """The smallest decode step with room for so many rows and tokens."""
        rung = next((r for r in RUNGS if r >= rows), -(-rows // 64) * 64)
        room = _room(width)
        if (rung, room) not in self._graphs:
            inputs = StepInputs.empty(rung, room, self._pool.spare, self._output.device)
            self._graphs[rung, room] = _capture(lambda: self._step(inputs)), inputs
        return self._graphs[rung, room]

    def segments_graph(self, tokens: int, width: int) -> tuple[torch.cuda.CUDAGraph, SegmentInputs]:
        """The smallest pass over segments with room for so many new tokens, and for the paths."""
        key = (max(16, 1 << (tokens - 1).bit_length()), _room(width))
        if key not in self._passes:
            inputs = SegmentInputs.empty(*key, self._pool.spare, self._parts.embedding)
            self._passes[key] = _capture(lambda: self._segments(inputs)), inputs
        return self._passes[key]

    def _step(self, inputs: StepInputs) -> None:
        self._draw(self._states(inputs.tokens, inputs.positions, inputs.table), inputs)

    def _segments(self, inputs: SegmentInputs) -> None:
        table = inputs.table.index_select(0, inputs.owners)
        states = self._states(inputs.tokens, inputs.positions, table)
        inputs.states.copy_(states.index_select(0, inputs.lasts))

    def _states(
        self, tokens: torch.Tensor, positions: torch.Tensor, table: torch.Tensor
    ) -> torch.Tensor:
        """Hidden states (T, H) of tokens at their places on the paths (T, W).

        A layer stores all keys before it attends: tokens of one path see those before them.
        """
        parts, eps = self._parts, self._parts.eps
        slots = table.gather(1, positions[:, None])[:, 0].long()
        lengths = (positions + 1).int()
        added: Adding = None
        x, residual = parts.embedding[tokens], None
        for number, layer in enumerate(parts.layers):
            norm = layer.attention_norm
            normed, residual = add_rms_norm(x, norm, eps, residual, adapter=added)
            qkv = self._head_norms(_whole(*self._product(layer.qkv, normed)), layer)
            keys, values = self._pool.layers[number]
            angles = (self._cos, self._sin, positions)
            query = rotate_store(qkv, *angles, slots, keys, values)
            attended = decode_attention(query, keys, values, table, lengths, parts.scale)
            x, added = self._product(layer.output, attended.flatten(1))
            normed, residual = add_rms_norm(x, layer.mlp_norm, eps, residual, adapter=added)
            gate_up, added = self._product(layer.gate_up, normed)
            x, added = self._product(layer.down, silu_mul(gate_up, adapter=added))
        states, _ = add_rms_norm(x, parts.final_norm, eps, residual, adapter=added)
        return states

    def _product(self, projection: Projection, x: torch.Tensor) -> tuple[torch.Tensor, Adding]:
        """The product without its adapters, and what they still add to it: two thin factors."""
        if not projection.adapters:
            return linear(x, projection.base, projection.bias), None
        both = linear(x, projection.stacked, self._bias(projection))
        out, inner = both.split([projection.outputs, projection.ranks], dim=1)
        return out, (inner, projection.second)

    def _bias(self, projection: Projection) -> torch.Tensor | None:
        if projection.bias is None:
            return None
        if projection not in self._biases:
            padded = torch.nn.functional.pad(projection.bias, (0, projection.ranks))
            self._biases[projection] = padded
        return self._biases[projection]

    def _head_norms(self, qkv: torch.Tensor, layer: LayerParts) -> torch.Tensor:
        if layer.query_norm is None or layer.key_norm is None:
            return qkv
        parts = self._parts
        heads = qkv.view(qkv.shape[0], -1, parts.head_dim)
        query, key, value = heads.split([parts.heads, parts.kv_heads, parts.kv_heads], dim=1)
        query = head_rms_norm(query, layer.query_norm, parts.eps)
        key = head_rms_norm(key, layer.key_norm, parts.eps)
        return torch.cat([query, key, value], dim=1).flatten(1)

    def _draw(self, states: torch.Tensor, inputs: StepInputs) -> None:
        if self._output.dtype == torch.float32:
            logits = states @ self._output.t()
        else:
            logits = torch.mm(states, self._output.t(), out_dtype=torch.float32)
        uniforms = inputs.uniforms.index_select(0, inputs.step)[0]
        tokens, logprobs = draw(logits, inputs.temperature, uniforms, inputs.greedy)
        inputs.drawn.index_copy_(0, inputs.step, tokens[None])
        inputs.logprobs.index_copy_(0, inputs.step, logprobs[None])
        inputs.tokens.copy_(tokens)
        inputs.positions.add_(1)
        inputs.step.add_(1)


def _room(width: int) -> int:
    return max(FIRST_WIDTH, 1 << (width - 1).bit_length())


def _capture(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):  # compiles the kernels and lets cuBLAS choose
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def _put(into: torch.Tensor, values: Any) -> None:
    into.copy_(torch.from_numpy(np.ascontiguousarray(values)), non_blocking=True)


def segment_states(graphs: StepGraphs, segments: Sequence[NewTokens]) -> torch.Tensor | None:
    """The state at the end of each segment (S, H); None where they are too many for one pass."""
    sizes = np.asarray([tokens.size for tokens, _ in segments])
    total, count = int(sizes.sum()), len(segments)
    if total > MOST_TOKENS or count > MOST_SEGMENTS:
        return None
    width = max(path.size for _, path in segments)
    graph, inputs = graphs.segments_graph(total, width)
    fill_segments(inputs, segments, graphs.pool.spare)
    graph.replay()
    return inputs.states[:count].clone()


def fill_segments(inputs: SegmentInputs, segments: Sequence[NewTokens], spare: int) -> None:
    """Put the segments where the pass looks for them."""
    sizes = np.asarray([tokens.size for tokens, _ in segments])
    ends, count = np.cumsum(sizes), len(segments)
    room, nobody = inputs.tokens.numel(), inputs.table.shape[0] - 1
    numbers = np.zeros((3, room), np.int64)
    numbers[2] = nobody
    numbers[0, : ends[-1]] = np.concatenate([tokens for tokens, _ in segments])
    first = np.asarray([path.size for _, path in segments]) - ends
    numbers[1, : ends[-1]] = np.arange(ends[-1]) + np.repeat(first, sizes)
    numbers[2, : ends[-1]] = np.repeat(np.arange(count), sizes)
    table = np.full((count, max(path.size for _, path in segments)), spare, np.int32)
    for into, (_, path) in zip(table, segments, strict=True):
        into[: path.size] = path
    for into, values in zip((inputs.tokens, inputs.positions, inputs.owners), numbers, strict=True):
        _put(into, values)
    _put(inputs.table[:count, : table.shape[1]], table)
    _put(inputs.lasts[:count], ends - 1)


def _whole(out: torch.Tensor, added: Adding) -> torch.Tensor:
    """A product with what its adapters add."""
    return out if added is None else torch.addmm(out, added[0], added[1].t())


class GraphDecode:
    """Tokens for the same rows, many replays at a time."""

    at_once = CHUNK
    """Tokens a row that one `advance` can give."""

    def __init__(self, graphs: StepGraphs, rows: Sequence[tuple[Ints, Ints]]) -> None:
        self._count = len(rows)
        width = max(path.size + fresh.size for path, fresh in rows)
        self._graph, self._inputs = graphs.graph(self._count, width)
        rungs = self._inputs.tokens.numel()
        table = np.full((rungs, width), graphs.pool.spare, np.int32)
        positions = np.zeros(rungs, np.int64)
        for into, (path, fresh) in zip(table, rows, strict=False):
            into[: path.size] = path
            into[path.size : path.size + fresh.size] = fresh
        positions[: self._count] = [path.size for path, _ in rows]
        _put(self._inputs.table[:, :width], table)
        _put(self._inputs.positions, positions)

    def begin(self, tokens: Ints, temperature: Floats) -> None:
        """The tokens to compute first, and how hot each row is; 0 takes the likeliest token."""
        rungs = self._inputs.tokens.numel()
        pad = (0, rungs - self._count)
        _put(self._inputs.tokens, np.pad(tokens, pad))
        greedy = np.pad(temperature == 0.0, pad)
        heat = np.pad(temperature.astype(np.float32), pad, constant_values=1.0)
        _put(self._inputs.greedy, greedy)
        _put(self._inputs.temperature, np.where(greedy, np.float32(1.0), heat))

    def advance(self, uniforms: Floats) -> tuple[Ints, Floats]:
        """As many tokens a row as there are rows of uniform numbers (n, B); both (B, n)."""
        steps = uniforms.shape[0]
        rungs = self._inputs.tokens.numel()
        padded = np.pad(uniforms, ((0, 0), (0, rungs - self._count)), constant_values=0.5)
        _put(self._inputs.uniforms[:steps], padded)
        self._inputs.step.zero_()
        for _ in range(steps):
            self._graph.replay()
        drawn = self._inputs.drawn[:steps, : self._count].cpu().numpy()
        logprobs = self._inputs.logprobs[:steps, : self._count].cpu().numpy()
        return drawn.T.astype(np.int64), logprobs.T.astype(np.float64)
