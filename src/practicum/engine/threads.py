"""CPU threads, pinned: one thread and two give different bits. And one thread for all computing.

OpenMP keeps a team of workers for every thread that computes with torch, and GNU's lets workers
wait actively only while there are no more of them than cores: with a second team, every operation
waits until its workers have woken up, and small ones take several times as long. So whatever runs
more than a moment in torch runs in this one thread: loading, sampling, learning, fingerprints.
"""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")

NAME = "compute"


@functools.cache
def compute_thread() -> ThreadPoolExecutor:
    """The thread that computes; it lives as long as the process."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=NAME)


if hasattr(os, "register_at_fork"):
    # A forked process has no threads but the one that forked, so it makes this one anew.
    os.register_at_fork(after_in_child=compute_thread.cache_clear)


def computed(function: Callable[P, T]) -> Callable[P, T]:
    """A function that does its work in the thread that computes, while its caller waits."""

    @functools.wraps(function)
    def in_thread(*args: P.args, **kwargs: P.kwargs) -> T:
        if threading.current_thread().name.startswith(NAME):
            return function(*args, **kwargs)
        return compute_thread().submit(function, *args, **kwargs).result()

    return in_thread


@computed
def pin_threads(count: int) -> None:
    """Use exactly `count` threads inside operations; told where they are computed."""
    torch.set_num_threads(count)
