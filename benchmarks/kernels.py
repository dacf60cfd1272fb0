"""Microseconds and rates of every kernel on a CUDA device, at the shapes of two models.

    python benchmarks/kernels.py --model 7b

Decoding has 64 rows of 640 cached tokens, learning 8192 tokens. Each time is the median of many
launches with a cold cache; bytes are those that must be moved, and operations those of the pairs
of tokens that see each other, four times the depth forward and ten times backward.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

ROWS = 64
LENGTH = 640
TOKENS = 8192
LOGIT_ROWS = 256
NUMBER = 2  # bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a model the kernels see."""

    hidden: int
    inner: int
    heads: int
    kv_heads: int
    depth: int
    vocabulary: int


SHAPES = {
    "0.5b": Shape(896, 4864, 14, 2, 64, 151936),
    "7b": Shape(3584, 18944, 28, 4, 128, 152064),
}


class Case(NamedTuple):
    """A kernel's name, a call of it, and the bytes or the operations it takes."""

    name: str
    call: Callable[[], Any]
    moved: float = 0.0
    operations: float = 0.0


def numbers(*shape: int, kind: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=kind)


def elementwise(s: Shape, rows: int) -> Iterator[Case]:
    """Norms and gates of a step of decoding or of learning."""
    from practicum.engine.kernels.norm_kernels import (
        add_rms_norm,
        head_rms_norm,
        head_rms_norm_backward,
        rms_norm_backward,
    )
    from practicum.engine.kernels.triton_elementwise import silu_mul, silu_mul_backward

    x, y, weight = numbers(rows, s.hidden), numbers(rows, s.hidden), numbers(s.hidden)
    gate_up, act = numbers(rows, 2 * s.inner), numbers(rows, s.inner)
    one, wide = x.numel() * NUMBER, act.numel() * NUMBER
    yield Case(f"add_rms_norm T={rows}", lambda: add_rms_norm(x, weight, 1e-6, y), 4 * one)
    yield Case(f"silu_mul T={rows}", lambda: silu_mul(gate_up), 3 * wide)
    if rows < TOKENS:
        return
    heads, scale = numbers(rows, s.heads, s.depth), numbers(s.depth)
    all_heads = heads.numel() * NUMBER
    yield Case("rms_norm_backward", lambda: rms_norm_backward(x, y, weight, 1e-6, x), 4 * one)
    yield Case("silu_mul_backward", lambda: silu_mul_backward(act, gate_up), 6 * wide)
    yield Case("head_rms_norm", lambda: head_rms_norm(heads, scale, 1e-6), 2 * all_heads)
    backward = lambda: head_rms_norm_backward(heads, heads, scale, 1e-6)  # noqa: E731
    yield Case("head_rms_norm_backward", backward, 2 * all_heads)


def rotation(s: Shape, rows: int) -> Iterator[Case]:
    """Turning heads, and storing them."""
    from practicum.engine.kernels.rotary_kernels import rotate, rotate_store

    joined = numbers(rows, (s.heads + 2 * s.kv_heads) * s.depth)
    cos, sin = (numbers(TOKENS, s.depth, kind=torch.float32) for _ in range(2))
    at = torch.randperm(TOKENS, device="cuda")[:rows]
    pool = numbers(2, TOKENS, s.kv_heads, s.depth)
    call = lambda: rotate_store(joined, cos, sin, at, at, *pool)  # noqa: E731
    yield Case(f"rotate_store T={rows}", call, 2 * joined.numel() * NUMBER)
    if rows == TOKENS:
        heads = joined.view(rows, -1, s.depth)[:, : s.heads + s.kv_heads]
        yield Case("rotate", lambda: rotate(heads, cos, sin, at), 2 * heads.numel() * NUMBER)


def decoding(s: Shape) -> Iterator[Case]:
    """Attention over the cache, and the draw."""
    from practicum.engine.kernels.decode_attention import decode_attention
    from practicum.engine.kernels.logits_kernels import draw

    q, pool = numbers(ROWS, s.heads, s.depth), numbers(2, ROWS * LENGTH, s.kv_heads, s.depth)
    table = torch.randperm(ROWS * LENGTH, device="cuda").int().view(ROWS, LENGTH)
    lengths = torch.full((ROWS,), LENGTH, dtype=torch.int32, device="cuda")
    attend = lambda: decode_attention(q, *pool, table, lengths, 0.1)  # noqa: E731
    yield Case("decode_attention", attend, pool.numel() * NUMBER)
    logits, heat = numbers(ROWS, s.vocabulary, kind=torch.float32), torch.ones(ROWS, device="cuda")
    chances = torch.rand(ROWS, device="cuda", dtype=torch.float64)
    yield Case("draw", lambda: draw(logits, heat, chances), logits.numel() * 4)


def head(s: Shape) -> Iterator[Case]:
    """Log-probabilities, read twice and written once."""
    from practicum.engine.kernels.logits_kernels import pick

    target = torch.randint(0, s.vocabulary, (LOGIT_ROWS,), device="cuda")
    heat = torch.ones(LOGIT_ROWS, device="cuda")
    for kind in (torch.bfloat16, torch.float32):
        logits = numbers(LOGIT_ROWS, s.vocabulary, kind=kind)
        call = lambda logits=logits: pick(logits, target, heat)  # noqa: E731
        name = f"pick {str(kind).removeprefix('torch.')}"
        yield Case(name, call, 3 * logits.numel() * logits.element_size())


def path() -> torch.Tensor:
    """One long conversation."""
    return torch.full((TOKENS,), TOKENS, device="cuda")


def groups(prompt: int = 256, completions: int = 8, length: int = 96) -> torch.Tensor:
    """Prompts, each with a group of completions."""
    size = prompt + completions * length
    at = torch.arange(TOKENS, device="cuda")
    within = at % size
    leaf = at - (within - prompt) % length + length
    return torch.where(within < prompt, at - within + size, leaf)


def trees(s: Shape) -> Iterator[Case]:
    """Attention over trees, forward and backward."""
    from practicum.engine.kernels.tree_tiles import TreeBlocks
    from practicum.engine.kernels.triton_tree_attention import tree_backward, tree_forward

    joined = numbers(TOKENS, s.heads + 2 * s.kv_heads, s.depth)
    q, k, v = joined.split([s.heads, s.kv_heads, s.kv_heads], 1)
    grad = numbers(TOKENS, s.heads, s.depth)
    scale = s.depth**-0.5
    for name, end in (("path", path()), ("groups", groups())):
        pairs = float((end - torch.arange(TOKENS, device="cuda")).sum())
        work = pairs * s.heads * s.depth
        blocks = TreeBlocks.of(end)
        out, lse = tree_forward(q, k, v, blocks, scale)
        yield Case(f"TreeBlocks.of {name}", lambda end=end: TreeBlocks.of(end))
        forward = lambda b=blocks: tree_forward(q, k, v, b, scale)  # noqa: E731
        yield Case(f"tree_forward {name}", forward, operations=4 * work)
        saved = (grad, q, k, v, out, lse, blocks, scale)
        backward = lambda saved=saved: tree_backward(*saved)  # noqa: E731
        yield Case(f"tree_backward {name}", backward, operations=10 * work)


def cases(s: Shape) -> Iterator[Case]:
    for rows in (ROWS, TOKENS):
        yield from elementwise(s, rows)
        yield from rotation(s, rows)
    yield from decoding(s)
    yield from head(s)
    yield from trees(s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=[*SHAPES, "all"], default="all")
    parser.add_argument("--only", default="", help="kernels whose name holds this text")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("needs a CUDA device")
        return 2
    import triton

    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    for name in SHAPES if args.model == "all" else [args.model]:
        print(f"{name:<28} {'us':>10} {'GB/s':>8} {'TFLOP/s':>8}")
        for case in cases(SHAPES[name]):
            if args.only not in case.name:
                continue
            ms = triton.testing.do_bench(case.call, warmup=10, rep=30, return_mode="median")
            moved = f"{case.moved / ms / 1e6:8.0f}" if case.moved else " " * 8
            rate = f"{case.operations / ms / 1e9:8.1f}" if case.operations else ""
            print(f"  {case.name:<26} {1e3 * ms:>10.1f} {moved} {rate}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
