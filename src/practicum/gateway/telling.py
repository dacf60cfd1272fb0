"""What a client hears of a turn: cut at its stop text, and with as many calls as it allows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from practicum.core.conversing import TurnDelta, TurnReader
from practicum.core.trace import Message

__all__ = ["Hearing", "Telling", "as_asked", "cut_at_stop"]

PACE_S = 0.1
"""The least time between two readings of what was sampled, after the first: a model that samples
faster would wait for its words to be read and sent."""


class Telling:
    """Passes deltas on. What could still become a stop text is held back.

    >>> heard = []
    >>> telling = Telling(lambda delta: heard.append(delta.text), stops=("END",))
    >>> telling.pass_on([TurnDelta(kind="content", text="so E")])
    >>> telling.pass_on([TurnDelta(kind="content", text="ND and on")])
    >>> telling.end()
    >>> heard
    ['so ']
    """

    def __init__(
        self,
        tell: Callable[[TurnDelta], None],
        stops: Sequence[str] = (),
        *,
        one_call: bool = False,
    ) -> None:
        self._tell = tell
        self._stops = tuple(stops)
        self._one_call = one_call
        self._held = ""
        self._is_over = False

    def pass_on(self, deltas: Sequence[TurnDelta]) -> None:
        """Tell what is certain."""
        for delta in deltas:
            if delta.kind in ("call", "arguments") and self._one_call and delta.index:
                continue
            if not self._stops or delta.kind != "content":
                self._say(delta)
            elif not self._is_over:
                self._hold(delta.text)

    def end(self) -> None:
        """The turn is over: what was held back was no stop text."""
        if self._held and not self._is_over:
            self._say(TurnDelta(kind="content", text=self._held))
        self._held = ""

    def _hold(self, text: str) -> None:
        self._held += text
        cut = cut_at_stop(self._held, self._stops)
        if cut is not None:
            self._is_over = True
            certain, self._held = cut, ""
        else:
            kept = max(
                size
                for stop in self._stops
                for size in range(len(stop))
                if self._held.endswith(stop[:size])
            )
            split = len(self._held) - kept
            certain, self._held = self._held[:split], self._held[split:]
        if certain:
            self._say(TurnDelta(kind="content", text=certain))

    def _say(self, delta: TurnDelta) -> None:
        if delta.text or delta.kind == "call":
            self._tell(delta)


class Hearing:
    """Reads tokens as they are sampled, several at once where they come fast, and tells of them."""

    def __init__(self, reader: TurnReader, telling: Telling) -> None:
        self._reader = reader
        self._telling = telling
        self._waiting: list[int] = []
        self._read = 0
        self._next = 0.0

    def hear(self, token_ids: Sequence[int]) -> None:
        """Take tokens in."""
        self._waiting += token_ids
        now = time.monotonic()
        if now >= self._next:
            if self._pass_on(self._waiting):
                self._next = now + PACE_S
            self._waiting = []

    def end(self, token_ids: Sequence[int]) -> None:
        """The turn is over; these are all its tokens."""
        self._pass_on(token_ids[self._read :])
        self._telling.pass_on(self._reader.end())
        self._telling.end()

    def _pass_on(self, token_ids: Sequence[int]) -> bool:
        """Whether there was anything to tell."""
        self._read += len(token_ids)
        deltas = self._reader.feed(token_ids)
        self._telling.pass_on(deltas)
        return bool(deltas)


def cut_at_stop(text: str, stops: Sequence[str]) -> str | None:
    """The text before the first stop text in it; None where there is none."""
    places = [at for stop in stops if (at := text.find(stop)) >= 0]
    return text[: min(places)] if places else None


def as_asked(message: Message, stops: Sequence[str], *, one_call: bool) -> Message:
    """A whole turn as `Telling` tells it."""
    cut = cut_at_stop(message.content, stops) if stops else None
    calls = message.tool_calls[:1] if one_call else message.tool_calls
    return replace(message, content=message.content if cut is None else cut, tool_calls=calls)
