"""Keeps the progress bars of `transformers` off the terminal while our own are drawn."""

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

__all__ = ["no_conversion_bars", "no_loading_bars"]


@contextmanager
def no_loading_bars() -> Iterator[None]:
    """Within the block `transformers` draws no bars; afterwards all is as it was."""
    from transformers.utils import logging

    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


@contextmanager
def no_conversion_bars() -> Iterator[None]:
    """The same for reading a .gguf file, which draws a bar that no setting turns off."""
    with no_loading_bars(), redirect_stderr(io.StringIO()):
        yield
