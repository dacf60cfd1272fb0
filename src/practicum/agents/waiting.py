"""Deadlines of what an episode waits for: its environment's answers and its rewards.

An answer that is awaited is cancelled when its time is up. One that blocks the event loop (a
`time.sleep`, a request without a timeout) cannot be cancelled; a timer signal interrupts it with a
`TimeoutError`, as Ctrl-C does with a `KeyboardInterrupt`.
"""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from practicum.core.errors import PracticumError, RolloutFailure, is_failure, said_of

ANSWER_TIMEOUT_S = 900.0
"""Default of `rollouts.answer_timeout_s`."""

_timeout_s: ContextVar[float] = ContextVar("answer_timeout_s", default=ANSWER_TIMEOUT_S)
_waits_for: ContextVar[str] = ContextVar("waits_for", default="")

BEATS = 4
"""How often within a timeout the event loop shows that nothing blocks it."""


@contextmanager
def answer_timeout(seconds: float) -> Iterator[None]:
    """Sets the deadline of every `timed_boundary` inside the block."""
    before = _timeout_s.set(seconds)
    try:
        yield
    finally:
        _timeout_s.reset(before)


@asynccontextmanager
async def timed_boundary(kind: type[RolloutFailure], what: str) -> AsyncIterator[None]:
    """A `boundary` with a deadline, around a wait for `what`."""
    seconds = _timeout_s.get()
    before = _waits_for.set(what)
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except PracticumError:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        is_late = isinstance(error, TimeoutError) and limit.expired()
        told = TimeoutError(_sentence(seconds)) if is_late else error
        raise kind(said_of(what, told)) from told
    finally:
        _waits_for.reset(before)


def _sentence(seconds: float) -> str:
    return f"no answer within {seconds:g} s, which is rollouts.answer_timeout_s"


class _Timer:
    """The process's alarm timer while groups of episodes run; it starts anew at each beat."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._beating = asyncio.create_task(self._beat())
        self.users = 0
        signal.signal(signal.SIGALRM, self._interrupt)
        signal.setitimer(signal.ITIMER_REAL, seconds)  # what blocks at once leaves no beat

    def _interrupt(self, number: int, frame: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        # The loop's own work and the learner's may take as long as they like.
        if _waits_for.get() and asyncio.current_task() is not None:
            raise TimeoutError(_sentence(self._seconds))

    async def _beat(self) -> None:
        while True:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            await asyncio.sleep(self._seconds / BEATS)

    def stop(self) -> None:
        self._beating.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


_timers: list[_Timer] = []
"""The running timer, if there is one: a process has one alarm."""


@contextmanager
def interrupting_blocked_answers(seconds: float) -> Iterator[None]:
    """Interrupts what holds the event loop for so long inside a `timed_boundary`.

    Signals reach the main thread only: elsewhere an answer that blocks is waited for.
    """
    if not _timers:
        if not _timer_is_free():
            yield
            return
        _timers.append(_Timer(seconds))
    timer = _timers[0]
    timer.users += 1
    try:
        yield
    finally:
        timer.users -= 1
        if not timer.users:
            _timers.remove(timer)
            timer.stop()


def _timer_is_free() -> bool:
    """Whether this is the main thread of a system with timers, and nobody else uses them."""
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
    )
