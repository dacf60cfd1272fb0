"""The C library's heap: freed pieces between kept ones stay with the process unless it is told."""

import ctypes
import os

__all__ = [
    "THRESHOLD_BYTES",
    "give_back_heap",
    "is_heap_compact",
    "keep_heap",
    "make_heap_compact",
    "use_one_heap",
]

THRESHOLD_BYTES = 4 << 20
"""Pieces of this size and more are given back as soon as they are freed. Smaller ones are worth
keeping: asking for them anew made updates up to 1.7 times as long at 64 KiB, and about 1.15 times
at this size (checkpointed updates of SmolLM2-135M's shape, 1,024 tokens, one thread)."""

MMAP_THRESHOLD, TRIM_THRESHOLD, ARENA_MAX = -3, -1, -8
"""Settings as glibc numbers them in `malloc.h`."""

KEPT_BYTES = 32 << 20
"""Pieces up to this size, the largest that glibc allows, come from the heap and stay there."""


def is_heap_compact() -> bool:
    """Whether the environment tells the C library to give freed pieces back."""
    value = os.environ.get("MALLOC_MMAP_THRESHOLD_", "")
    return value.isdigit() and int(value) <= THRESHOLD_BYTES


def make_heap_compact() -> bool:
    """Tell the C library so now; False where it knows no such setting."""
    return _tell((MMAP_THRESHOLD, THRESHOLD_BYTES))


def keep_heap() -> bool:
    """Tell it to hold on to freed memory, for all threads alike; False where it cannot be told.

    A page that is touched for the first time costs far more than one that is used again, and an
    update asks for the same gigabyte as the one before.
    """
    return _tell((ARENA_MAX, 1), (MMAP_THRESHOLD, KEPT_BYTES), (TRIM_THRESHOLD, 2**31 - 1))


def use_one_heap() -> bool:
    """Tell it to serve all threads from one heap; False where it cannot be told.

    What one thread takes and another gives back leaves gaps in a heap of its own, and such heaps
    grow for minutes before the gaps suffice. Threads that are there already keep theirs.
    """
    return _tell((ARENA_MAX, 1))


def give_back_heap() -> bool:
    """Give back, once, all pages that hold nothing; False where there are none or it cannot be."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    return trim is not None and trim(0) == 1


def _tell(*settings: tuple[int, int]) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    return mallopt is not None and all(mallopt(*setting) == 1 for setting in settings)
