"""What each kernel should give, in plain torch and float64, and how near is near enough."""

import random

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

KINDS = (torch.float32, torch.bfloat16)

FURTHEST = {torch.float32: 1e-5, torch.bfloat16: 2.0**-6}
"""How far one number may be off, as a part of the largest one: a few roundings of its type."""

APART = {torch.float32: 1e-6, torch.bfloat16: 2.0**-8}
"""How far all numbers together may be off, as a part of their norm: one rounding."""


def numbers(*shape: int, kind: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Normally distributed, the same ones on every device."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator).to(kind).to(DEVICE)


def apart_rows(*shape: int, kind: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Rows that are views of longer ones."""
    own = numbers(*shape, kind=kind, seed=seed).flatten(1)
    wide = torch.nn.functional.pad(own, (16, 48), value=float("nan"))
    return wide[:, 16:-48].unflatten(1, shape[1:])


def assert_near(ours: torch.Tensor, exact: torch.Tensor, roundings: float = 1.0) -> None:
    """No number far off, and all of them together hardly off at all."""
    assert ours.shape == exact.shape
    error = ours.double() - exact
    # What is exactly zero may come out as a rounding of the numbers, near 1, that it is made of.
    largest, norm = max(float(exact.abs().max()), 0.1), max(float(exact.norm()), 1.0)
    assert float(error.abs().max()) <= FURTHEST[ours.dtype] * largest
    assert float(error.norm()) <= roundings * APART[ours.dtype] * norm


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Over the last dimension."""
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight


def tables(positions: int, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines, and sines whose first halves have the other sign."""
    rates = 10_000.0 ** (-torch.arange(0, depth, 2, dtype=torch.float64) / depth)
    angles = torch.arange(positions)[:, None] * torch.cat([-rates, rates])[None]
    return angles.cos().float().to(DEVICE), angles.sin().float().to(DEVICE)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """(T, n, D) by (T, D) of the tables."""
    first, second = x.chunk(2, -1)
    return x * cos.double()[:, None] + torch.cat([second, first], -1) * sin.double()[:, None]


def attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, visible: torch.Tensor, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """(T, heads, D) over (S, kv_heads, D) under a (T, S) mask; also the log of the sums."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = torch.einsum("ihd,jhd->hij", q, k) * scale
    scores = scores.masked_fill(~visible, -torch.inf)
    return torch.einsum("hij,jhd->ihd", scores.softmax(-1), v), scores.logsumexp(-1)


def tree_mask(end: torch.Tensor) -> torch.Tensor:
    """(T, T): j <= i < end[j]."""
    index = torch.arange(end.numel(), device=end.device)
    return (index[None] <= index[:, None]) & (index[:, None] < end[None])


def random_ends(count: int, seed: int, chance: float = 0.1) -> torch.Tensor:
    """Where subtrees end in a random forest in depth-first order; `chance` is of going back."""
    draw = random.Random(seed)
    end, path = [count] * count, list[int]()
    for token in range(count):
        if path and draw.random() < chance:
            kept = draw.randrange(len(path))
            for left in path[kept:]:
                end[left] = token
            del path[kept:]
        path.append(token)
    return torch.tensor(end, device=DEVICE)
