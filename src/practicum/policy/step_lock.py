"""Who has the weights: the sampler for a step, or an update between two steps."""

import asyncio

__all__ = ["StepLock"]


class StepLock:
    """One lock for whoever computes with the weights; who asked first is first.

    Event loops come and go while an engine stays, and a lock belongs to one of them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_resting = False
        """Whether an update has the weights now."""

    def turn(self) -> asyncio.Lock:
        """To be held for a step, or for an update; free, it is taken without waiting at all."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._lock, self._loop = asyncio.Lock(), loop
        return self._lock
