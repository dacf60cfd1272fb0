import itertools
from collections import Counter

import pytest
from tests.unit.rewards.traces import fenced, make_task, make_trace

from practicum.core.task import Outcome
from practicum.core.trace import Trace, repeated_share
from practicum.rewards.behaviour import (
    FormatCompliance,
    LengthPenalty,
    RepetitionPenalty,
    overlong_penalty,
)

OUTCOME = Outcome(success=True)


async def format_of(text: str, **rules: object) -> float | None:
    reward = FormatCompliance(**rules)  # type: ignore[arg-type]
    return (await reward.score(make_task(), make_trace(text), OUTCOME)).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", 1.0),
        ("if a < b and c > d then", 1.0),
        ("x<y>z", 0.0),
        ("<answer>4</answer>", 0.0),
        ('<step n="1"/>', 0.0),
        ("an unclosed <br", 1.0),
        ('<tool_call>\n{"name": "bash"}\n</tool_call>', 1.0),
        ("<think>hm</think> 4", 1.0),
        (fenced("<div>markup that was asked for</div>", "html"), 1.0),
        ("", 1.0),
    ],
)
async def test_tags_outside_of_code_are_against_the_rules(text: str, expected: float) -> None:
    assert await format_of(text) == expected


async def test_rules_of_ones_own() -> None:
    assert await format_of("Answer: 4", must=(r"^Answer: \d+$",)) == 1.0
    assert await format_of("It is 4", must=(r"^Answer: \d+$",)) == 0.0
    assert await format_of("Sorry, no.", must_not=("(?i)sorry",)) == 0.0
    assert await format_of("<b>4</b>", no_xml=False) == 1.0


async def test_only_the_last_turn_can_be_asked_for() -> None:
    trace = make_trace("<a>", "fine")
    score = await FormatCompliance(turns="final").score(make_task(), trace, OUTCOME)
    assert score.value == 1.0
    assert (await FormatCompliance().score(make_task(), trace, OUTCOME)).value == 0.5


async def test_nothing_written_is_no_score() -> None:
    empty = Trace(id="e", task_id="t", env="e")
    assert (await FormatCompliance().score(make_task(), empty, OUTCOME)).value is None


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(0, 0.0), (12288, 0.0), (12289, -1 / 4096), (14336, -0.5), (16384, -1.0), (20480, -1.0)],
)
def test_the_penalty_is_dapos(tokens: int, expected: float) -> None:
    """With L_max 16384 and L_cache 4096, as in the paper."""
    assert overlong_penalty(tokens, 16384, 4096) == pytest.approx(expected)


def test_without_a_margin_it_is_a_step() -> None:
    assert [overlong_penalty(n, 10, 0) for n in (9, 10, 11)] == [0.0, 0.0, -1.0]


async def test_length_of_the_episode_or_of_its_longest_turn() -> None:
    trace = make_trace("a", "b", tokens=(60, 30))
    whole = await LengthPenalty(limit=100, margin=20).score(make_task(), trace, OUTCOME)
    longest = await LengthPenalty(limit=70, margin=20, of="turn").score(make_task(), trace, OUTCOME)
    assert (whole.value, longest.value) == (-0.5, -0.5)
    unknown = make_trace("a", "b", tokens=(60, 0))
    score = await LengthPenalty(limit=100).score(make_task(), unknown, OUTCOME)
    assert score.value is None


@pytest.mark.parametrize("n", [1, 2, 3])
def test_repetition_is_what_counting_gives(n: int) -> None:
    """Over all texts of up to seven words from two: sequences less the different ones."""
    for length in range(8):
        for words in itertools.product("ab", repeat=length):
            counts = Counter(zip(*(words[i:] for i in range(n)), strict=False))
            again = sum(count - 1 for count in counts.values())
            total = max(0, length - n + 1)
            assert repeated_share(words, n) == pytest.approx(again / total if total else 0.0)


async def test_repetition_is_a_penalty_beyond_what_is_free() -> None:
    """Six words, pairs: go on, on go, go on, on go, go on; three of five have come before."""
    trace = make_trace("go on go", "on go on")
    plain = await RepetitionPenalty(n=2).score(make_task(), trace, OUTCOME)
    free = await RepetitionPenalty(n=2, free=0.2).score(make_task(), trace, OUTCOME)
    all_free = await RepetitionPenalty(n=2, free=0.7).score(make_task(), trace, OUTCOME)
    assert plain.value == pytest.approx(-0.6)
    assert free.value == pytest.approx(-0.5)
    assert all_free.value == 0.0
