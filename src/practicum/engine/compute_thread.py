"""The one thread that computes, and an event loop that it does not keep waiting.

OpenMP keeps a team of workers for every thread that computes with torch, and GNU's lets workers
wait actively only while there are no more of them than cores: with a second team, every operation
waits until its workers have woken up, and small ones take several times as long. So whatever runs
more than a moment in torch runs in this one thread: loading, sampling, learning, fingerprints.

Python lets one thread run at a time. A thread that computes lets go of the interpreter for every
operation, thousands of times a second, and wants it back at once; an event loop that has something
to do then loses it at each of its own system calls and waits for it each time. So the loop says
when it has something to do, and the thread that computes gives way until that is done.
"""

import asyncio
import functools
import os
import selectors
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from practicum.core.errors import PracticumError, as_failure

P = ParamSpec("P")
T = TypeVar("T")

NAME = "compute"

MOST_S = 0.005
"""How long the thread that computes gives way to one stretch of the loop's work. Who holds the loop
for longer may be waiting for something else than the interpreter."""


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


async def beside_loop(work: Callable[[], T]) -> T:
    """Do work in the thread that computes while the event loop goes on.

    Not even a cancellation leaves before it is done.
    """
    job = asyncio.get_running_loop().run_in_executor(compute_thread(), work)
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        await asyncio.wait([job])
        raise


@computed
def pin_threads(count: int) -> None:
    """Use exactly `count` threads inside operations: one thread and two give different bits."""
    import torch

    torch.set_num_threads(count)


class _LoopWork:
    """Whether the event loop has something to do."""

    def __init__(self) -> None:
        self.is_done = threading.Event()
        self.is_done.set()
        self.stretches = 0
        """How often it has begun to have something to do."""
        self._gave_way_to = -1

    def give_way(self) -> None:
        if self._gave_way_to != self.stretches:
            self._gave_way_to = self.stretches
            self.is_done.wait(MOST_S)


_work = _LoopWork()


def give_way() -> None:
    """Wait, but not for long, while the event loop has something to do.

    Called by the thread that computes, as often as it likes: where nothing is to be done, or where
    the loop is not one of `run_attended`, it costs next to nothing.
    """
    if not _work.is_done.is_set():
        _work.give_way()


class _AttendedSelector(selectors.DefaultSelector):
    """Tells when the loop begins and ends to have something to do."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            _work.is_done.set()
            _work.stretches += 1
        try:
            return super().select(timeout)
        finally:
            _work.is_done.clear()

    def close(self) -> None:
        _work.is_done.set()
        super().close()


def run_attended(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, in a loop for which `give_way` gives way."""
    with asyncio.Runner(loop_factory=_attended_loop) as runner:
        return runner.run(main)


def _attended_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(_AttendedSelector())


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own, which the thread that computes gives way to.

    Where a loop runs already, as in a notebook, that loop cannot wait here; the work then has a
    thread of its own, and this one waits for it. User code in it that leaves the program is an
    error, for it would end a run in silence.
    """
    try:
        return _run_to_end(work)
    except SystemExit as error:
        raise PracticumError(f"the environment's code: {as_failure(error)}") from error


def _run_to_end(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_attended(work)
    done: list[T] = []
    failed: list[BaseException] = []
    cancel: list[Callable[[], object]] = []
    ended = threading.Event()

    async def cancellable() -> T:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        return await task

    def run() -> None:
        try:
            done.append(run_attended(cancellable()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            failed.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="practicum").start()
    try:
        ended.wait()  # an interrupted `join` takes a thread for ended that is not
    except KeyboardInterrupt:  # a notebook's cell was interrupted
        for stop in cancel:
            stop()
        ended.wait()
        raise
    if failed:
        raise failed[0]
    return done[0]
