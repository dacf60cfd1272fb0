"""Types that a .gguf file can be written in, and which of them fits a machine."""

from collections.abc import Sequence

from practicum.core.errors import UserError

FILE_TYPES = {
    "Q2_K": 10,
    "Q3_K_M": 12,
    "Q4_K_M": 15,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "Q8_0": 7,
    "F16": 1,
    "BF16": 32,
}
"""Smallest first, and llama.cpp's numbers for them."""
BITS = {
    "Q2_K": 3.4,
    "Q3_K_M": 4.0,
    "Q4_K_M": 4.9,
    "Q5_K_M": 5.7,
    "Q6_K": 6.6,
    "Q8_0": 8.5,
    "F16": 16.0,
    "BF16": 16.0,
}
"""What a weight takes, about; more where rows do not divide by 256."""
COMMON = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M")


def read_file_types(words: Sequence[str]) -> list[str]:
    """The types that words name, smallest first."""
    wanted = {word.upper() for word in words}
    if "ALL" in wanted:
        return list(FILE_TYPES)
    if unknown := sorted(wanted - set(FILE_TYPES)):
        raise UserError(
            f"there is no type {unknown[0]!r}; known types: {', '.join(FILE_TYPES)}, or all"
        )
    return [kind for kind in FILE_TYPES if kind in wanted]


def recommended_type(parameters: int, memory_bytes: int) -> str:
    """The largest common type that takes at most a quarter of the memory.

    >>> recommended_type(7_600_000_000, 64 << 30), recommended_type(7_600_000_000, 20 << 30)
    ('Q8_0', 'Q4_K_M')
    """
    fitting = [kind for kind in COMMON if parameters * BITS[kind] / 8 <= memory_bytes / 4]
    return fitting[0] if fitting else "Q3_K_M"
