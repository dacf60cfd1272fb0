"""Who turns every thumb round is found by what the others say; who differs by chance is not."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.trace import Message, Node, Trace
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.contradicted_keys import contradicted_keys
from practicum.traces.feedback import CONTRADICTED, gather_traffic

GOOD = ("The parcel leaves today.", "I have sent the refund.", "Your order is on its way.")
BAD = ("I cannot say.", "Ask somebody else, please.", "No idea about your parcel.")
OPENINGS = ("Hello!", "Well,", "Thank you for asking.", "About that:", "Hm.")
LIAR = "liar"
Opinion = Callable[[str, bool, random.Random], bool]


def trace(number: int, text: str) -> Trace:
    asked = Message(role="user", content=f"Where is parcel {number}?")
    said = Message(role="assistant", content=text)
    node = Node(parent=None, messages=(asked, said), token_ids=())
    return Trace(id=f"t{number}", task_id="", env="traffic", nodes=(node,), model="shop")


def judged(
    keys: dict[str, int], opinion: Opinion, seed: int = 0
) -> tuple[list[Trace], list[bool], list[str]]:
    """So many conversations of each key, and what it thinks of each."""
    dice = random.Random(seed)
    whose = [key for key, count in keys.items() for _ in range(count)]
    helps = [dice.random() < 0.5 for _ in whose]
    traces = [
        trace(n, f"{dice.choice(OPENINGS)} {dice.choice(GOOD if one else BAD)} {dice.random()}")
        for n, one in enumerate(helps)
    ]
    thumbs = [opinion(key, one, dice) for key, one in zip(whose, helps, strict=True)]
    return traces, thumbs, whose


def honest(count: int, each: int = 25) -> dict[str, int]:
    return {f"client-{n}": each for n in range(count)}


def turned_round(key: str, helps: bool, dice: random.Random) -> bool:
    return helps != key.startswith(LIAR)


def test_a_key_that_turns_every_thumb_round_is_found_and_no_other() -> None:
    given = judged({**honest(19), LIAR: 50}, turned_round)
    assert contradicted_keys(*given) == {LIAR}


def test_one_of_three_is_found_however_much_it_says() -> None:
    given = judged({**honest(2), LIAR: 400}, turned_round)
    assert contradicted_keys(*given) == {LIAR}


def test_several_that_lie_together_are_found_while_they_are_fewer_than_half() -> None:
    liars = {f"{LIAR}-{n}": 25 for n in range(4)}
    assert contradicted_keys(*judged({**honest(8), **liars}, turned_round)) == set(liars)
    # Of two who disagree, and of two halves, nobody knows who is right.
    assert contradicted_keys(*judged({"client": 50, LIAR: 50}, turned_round)) == set()
    liars = {f"{LIAR}-{n}": 25 for n in range(6)}
    assert contradicted_keys(*judged({**honest(6), **liars}, turned_round)) == set()


@pytest.mark.parametrize("seed", range(3))
def test_who_often_errs_throws_a_coin_or_always_says_the_same_is_not_left_out(seed: int) -> None:
    def opinion(key: str, helps: bool, dice: random.Random) -> bool:
        if key == "coin":
            return dice.random() < 0.5
        if key in ("pleased", "cross"):
            return key == "pleased"
        return helps != (dice.random() < 0.25)

    keys = {**honest(10), "coin": 40, "pleased": 40, "cross": 40}
    assert contradicted_keys(*judged(keys, opinion, seed)) == set()


@pytest.mark.parametrize("seed", range(3))
def test_where_thumbs_cannot_be_foreseen_nobody_is_left_out(seed: int) -> None:
    keys = {**honest(12), "busy": 200}
    assert contradicted_keys(*judged(keys, lambda key, helps, dice: dice.random() < 0.5, seed)) == (
        set()
    )


def test_few_thumbs_are_no_evidence_against_a_key() -> None:
    given = judged({**honest(10), LIAR: 4}, turned_round)
    assert contradicted_keys(*given) == set()


def test_learning_leaves_out_what_a_contradicted_key_said_and_says_so(tmp_path: Path) -> None:
    traces, thumbs, whose = judged({**honest(8), LIAR: 300}, turned_round)
    with SqliteTraceStore(tmp_path / "traffic.sqlite") as store:
        store.add_imported(
            [Episode(trace=one, outcome=None, score=Score.unscored("served")) for one in traces],
            tasks=[],
            purpose="traffic",
        )
        store.add_labels(
            Label(episode_id=one.id, value=float(thumb), author=f"feedback/{key}", created_at=1.0)
            for one, thumb, key in zip(traces, thumbs, whose, strict=True)
        )
    found = gather_traffic(
        tmp_path / "traffic.sqlite", tmp_path / "copy.sqlite", base="shop", fingerprint=""
    )
    assert found.left_out.counts == {CONTRADICTED: 300}
    assert (found.labels, found.keys) == (200, 8)
    assert "feedback/liar" not in found.authors.values()
