import random

import pytest

from practicum.core.conversation import TurnDelta
from practicum.core.trace import Message, ToolCall
from practicum.gateway.capture import DeltaFilter, apply_filter, cut_at_stop


def heard(text: str, stops: tuple[str, ...], sizes: list[int]) -> str:
    found: list[str] = []
    delta_filter = DeltaFilter(lambda delta: found.append(delta.text), stops)
    at = 0
    for size in sizes:
        delta_filter.feed([TurnDelta(kind="content", text=text[at : at + size])])
        at += size
    delta_filter.feed([TurnDelta(kind="content", text=text[at:])])
    delta_filter.end()
    return "".join(found)


@pytest.mark.parametrize("stops", [("aab",), ("ab", "ba"), ("aaa", "b"), ("aabaab", "bb")])
def test_what_is_heard_is_the_text_before_its_stop_however_it_is_cut_up(
    stops: tuple[str, ...],
) -> None:
    dice = random.Random(0)
    for _ in range(300):
        text = "".join(dice.choice("aabc") for _ in range(12))
        sizes = [dice.randrange(1, 4) for _ in range(5)]
        ends = [text.find(stop) for stop in stops if stop in text]
        expected = text[: min(ends)] if ends else text
        assert heard(text, stops, sizes) == expected
        assert (cut_at_stop(text, stops) or (text if not ends else "")) == expected


def test_without_stops_nothing_is_held_back() -> None:
    found: list[TurnDelta] = []
    delta_filter = DeltaFilter(found.append)
    deltas = [TurnDelta(kind="reasoning", text="hm"), TurnDelta(kind="content", text="so")]
    delta_filter.feed(deltas)
    assert found == deltas


def test_calls_after_the_first_can_be_left_out() -> None:
    found: list[TurnDelta] = []
    delta_filter = DeltaFilter(found.append, one_call=True)
    calls = [TurnDelta(kind="call", text="f", index=i) for i in range(2)]
    delta_filter.feed([*calls, TurnDelta(kind="arguments", text="{}", index=1)])
    assert found == calls[:1]
    message = Message(
        role="assistant", content="a END b", tool_calls=(ToolCall(name="f"), ToolCall(name="g"))
    )
    kept = apply_filter(message, ("END",), one_call=True)
    assert (kept.content, [c.name for c in kept.tool_calls]) == ("a ", ["f"])
    assert apply_filter(message, (), one_call=False) == message
