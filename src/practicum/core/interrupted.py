"""What Ctrl-C does to a command: one sentence and exit code 130; a second one leaves at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

INTERRUPTED = 128 + signal.SIGINT
"""Exit code by which shells know a process that Ctrl-C ended."""


def interruptible(command: Callable[[], T]) -> T:
    """Run a command that Ctrl-C may end at any moment.

    The first one is raised where the program is, also in an event loop, whose own handler would
    wait for the next `await`: a model may be loading. Whoever has something to save handles it.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return command()  # somebody outside has seen to it
    signal.signal(signal.SIGINT, _first)
    try:
        return command()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, _second)
        print("practicum: stopped by Ctrl-C", file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
    finally:
        if signal.getsignal(signal.SIGINT) is _first:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _first(number: int, frame: object) -> None:
    signal.signal(signal.SIGINT, _second)
    if (logging := sys.modules.get("logging")) is not None:
        # asyncio would show a traceback for each task that nobody waits for any more.
        logging.getLogger("asyncio").disabled = True
    raise KeyboardInterrupt


def _second(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)
