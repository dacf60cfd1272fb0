"""The C library's heap: freed pieces between kept ones stay with the process unless it is told."""

import ctypes
import os

__all__ = ["THRESHOLD_BYTES", "is_heap_compact", "make_heap_compact"]

THRESHOLD_BYTES = 4 << 20
"""Pieces of this size and more are given back as soon as they are freed. Smaller ones are worth
keeping: asking for them anew made updates up to 1.7 times as long at 64 KiB, and about 1.15 times
at this size (checkpointed updates of SmolLM2-135M's shape, 1,024 tokens, one thread)."""

MMAP_THRESHOLD = -3
"""What glibc calls this setting in `malloc.h`."""


def is_heap_compact() -> bool:
    """Whether the environment tells the C library to give freed pieces back."""
    value = os.environ.get("MALLOC_MMAP_THRESHOLD_", "")
    return value.isdigit() and int(value) <= THRESHOLD_BYTES


def make_heap_compact() -> bool:
    """Tell the C library so now; False where it knows no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    return mallopt is not None and mallopt(MMAP_THRESHOLD, THRESHOLD_BYTES) == 1
