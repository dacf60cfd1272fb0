"""How far an exported file's predictions are from those of the model it was made from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from practicum.core.sample import Floats, Ints
from practicum.core.task import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Two models' predictions of the same tokens."""

    positions: int
    gap: float
    """Root mean square of the differences between the log-probabilities of the tokens."""
    divergence: float
    """Mean over the positions of KL(original || export), in nats."""
    same_likeliest: float
    """Share of positions whose likeliest token is the same."""
    widest: float = 0.0
    """The largest of the differences that `gap` is the mean of."""

    def to_json(self) -> dict[str, JSON]:
        """As it is kept."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most that an export of one type may differ."""

    gap: float
    divergence: float
    same_likeliest: float


LIMITS = {
    "merged": Limit(gap=1e-3, divergence=1e-4, same_likeliest=0.99),
    "lora-gguf": Limit(gap=0.05, divergence=0.005, same_likeliest=0.95),
    "F16": Limit(gap=0.01, divergence=1e-3, same_likeliest=0.99),
    "BF16": Limit(gap=0.2, divergence=0.02, same_likeliest=0.93),
    "Q8_0": Limit(gap=0.3, divergence=0.03, same_likeliest=0.90),
    "Q6_K": Limit(gap=0.5, divergence=0.06, same_likeliest=0.88),
    "Q5_K_M": Limit(gap=1.2, divergence=0.25, same_likeliest=0.75),
    "Q4_K_M": Limit(gap=1.2, divergence=0.25, same_likeliest=0.75),
    "Q3_K_M": Limit(gap=1.6, divergence=0.5, same_likeliest=0.65),
    "Q2_K": Limit(gap=3.0, divergence=1.5, same_likeliest=0.40),
}
"""By type: two to three times what a sound export of a 135M model showed, which is more than a
larger one loses. That a zeroed or an exchanged tensor is outside was tried for F16 alone."""


def measure_agreement(
    original: Sequence[Floats], exported: Sequence[Floats], targets: Sequence[Ints]
) -> Agreement:
    """Compare log-probabilities of the whole vocabulary, sequence by sequence.

    Args:
        original: Of each sequence (T, V) log-probabilities.
        exported: The same, by the export.
        targets: Of each sequence the T tokens that came next.
    """
    gaps: list[Floats] = []
    divergences: list[Floats] = []
    same: list[Floats] = []
    for left, right, tokens in zip(original, exported, targets, strict=True):
        rows = np.arange(tokens.size)
        gaps.append(left[rows, tokens] - right[rows, tokens])
        wide = left.astype(np.float64)
        divergences.append((np.exp(wide) * (wide - right)).sum(-1))
        same.append(left.argmax(-1) == right.argmax(-1))
    gap = np.concatenate(gaps).astype(np.float64)
    return Agreement(
        positions=gap.size,
        gap=float(np.sqrt((gap**2).mean())),
        divergence=float(np.maximum(0.0, np.concatenate(divergences).mean())),
        same_likeliest=float(np.concatenate(same).mean()),
        widest=float(np.abs(gap).max()),
    )


def measure_likeliest(original: Sequence[Floats], told: Sequence[Mapping[int, float]]) -> Agreement:
    """The same where of an export only its likeliest next tokens are known, one place each.

    Args:
        original: Of each place (V,) log-probabilities.
        told: Of each place the tokens and log-probabilities that the export told.
    """
    exported = []
    for row, tokens in zip(original, told, strict=True):
        known = np.full_like(row, -np.inf)
        known[list(tokens)] = list(tokens.values())
        # What was not told is taken to be as the original says: it adds nothing to the divergence.
        exported.append(np.where(np.isneginf(known), np.minimum(row, min(tokens.values())), known))
    targets = [np.asarray([max(tokens, key=tokens.__getitem__)]) for tokens in told]
    return measure_agreement(
        [row[None] for row in original], [row[None] for row in exported], targets
    )


def faults(kind: str, found: Agreement) -> list[str]:
    """What is outside the type's limits, in words; empty where all is well."""
    limit = LIMITS[kind]
    told = []
    if not found.gap <= limit.gap:
        told.append(f"log-probabilities are {found.gap:.3g} apart (at most {limit.gap:g})")
    if not found.divergence <= limit.divergence:
        told.append(f"KL is {found.divergence:.3g} (at most {limit.divergence:g})")
    if not found.same_likeliest >= limit.same_likeliest:
        told.append(
            f"the likeliest token is the same in {found.same_likeliest:.0%} of places "
            f"(at least {limit.same_likeliest:.0%})"
        )
    return told


def log_softmax(logits: Floats) -> Floats:
    """(T, V) logits to log-probabilities."""
    shifted = logits - logits.max(-1, keepdims=True)
    found: Floats = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found
