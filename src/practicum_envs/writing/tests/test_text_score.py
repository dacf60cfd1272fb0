import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum_envs.writing.brief import Brief
from practicum_envs.writing.brief_generator import FAMILIES, LEVELS, plan_task
from practicum_envs.writing.language_checks import errors_in, school_grade
from practicum_envs.writing.planted_pairs import FAULTS, planted_pairs, spoilt, weight_of_judge
from practicum_envs.writing.text_score import PARTS, score_text
from practicum_envs.writing.writing_environment import WritingEnvironment, WritingOptions

BY_HAND: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "hand_written_texts.json").read_text()
)
"""Texts of a person, who saw the briefs and not the sentences of their families."""


def brief_of(row: dict[str, Any]) -> Brief:
    data: Any = WritingEnvironment(WritingOptions()).find(row["id"]).data["brief"]
    return Brief.of(data)


@pytest.mark.parametrize("row", BY_HAND, ids=[row["id"] for row in BY_HAND])
def test_a_good_text_by_a_person_meets_its_brief(row: dict[str, Any]) -> None:
    score = score_text(brief_of(row), tuple(row["paragraphs"]), tuple(row.get("points", ())))
    assert score.passes, score.problems
    assert score.value == pytest.approx(1.0)


def test_of_a_hundred_planted_pairs_the_good_text_is_preferred() -> None:
    pairs = planted_pairs(100)
    right = [
        score_text(one.brief, one.good, one.outline).value
        > score_text(one.brief, one.bad, one.outline).value
        for one in pairs
    ]
    assert {one.fault for one in pairs} == set(FAULTS)
    assert sum(right) >= 95


@pytest.mark.parametrize("fault", FAULTS)
def test_texts_by_a_person_are_preferred_to_spoilt_ones(fault: str) -> None:
    for row in BY_HAND:
        brief, good = brief_of(row), tuple(row["paragraphs"])
        bad = spoilt(brief, good, fault, row["id"])
        points = tuple(row.get("points", ()))
        score = score_text(brief, bad, points)
        assert not score.passes
        assert score.value < 0.6 * score_text(brief, good, points).value


def test_the_weight_of_a_judge_is_nothing_at_chance_and_rises_to_a_limit() -> None:
    weights = [weight_of_judge(share / 20) for share in range(21)]
    assert weights[:11] == [0.0] * 11
    assert weights == sorted(weights)
    assert weights[-1] == 0.5


PLAN = plan_task(3, FAMILIES["course"], "train", 5)
POINTS = tuple(
    " and ".join({fact.key: fact.label for fact in PLAN.brief.facts}[key] for key in keys)
    for keys in ([key for one in group for key in one.says] for group in PLAN.paragraphs)
)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("coverage", lambda text, brief: text.replace(brief.facts[-1].value, "it")),
        ("honesty", lambda text, brief: f"{text} There are 77 of them."),
        ("honesty", lambda text, brief: f"{text} We know of {brief.private[0].value}."),
        ("terms", lambda text, brief: f"{text} It is {brief.avoid[0]}."),
        ("grammar", lambda text, brief: f"{text} They is hear with teh dog, and he have it."),
        ("variety", lambda text, brief: f"{text} {text}"),
        ("brevity", lambda text, brief: f"{text} {'We like it very much. ' * 20}"),
    ],
)
def test_each_fault_lowers_its_part(part: str, change: Any) -> None:
    good = score_text(PLAN.brief, PLAN.texts, POINTS)
    assert good.passes
    bad = tuple(change(text, PLAN.brief) for text in PLAN.texts)
    spoilt_score = score_text(PLAN.brief, bad, POINTS)
    assert spoilt_score.parts[part] < 1.0
    assert spoilt_score.value < good.value


def test_structure_greeting_tone_length_and_outline_are_measured() -> None:
    brief, texts = PLAN.brief, PLAN.texts
    joined = (" ".join(texts),)
    assert score_text(brief, joined, POINTS).parts["structure"] < 1.0
    bare = (texts[0].removeprefix(brief.greeting).strip(), texts[1])
    assert score_text(brief, bare, POINTS).parts["structure"] == 0.5
    assert score_text(brief, texts, ()).parts["outline"] == 0.0
    assert score_text(brief, texts, POINTS[::-1]).parts["outline"] == 0.0
    everything = " and ".join(POINTS)
    assert score_text(brief, texts, (everything, everything)).parts["outline"] == 0.0
    assert score_text(replace(brief, tone_words=("zebra",)), texts, POINTS).parts["tone"] == 0.0
    assert score_text(replace(brief, words=(90, 99)), texts, POINTS).parts["length"] < 1.0
    assert score_text(replace(brief, grade=1.0), texts, POINTS).parts["ease"] < 1.0


def test_the_grade_is_that_of_kincaids_formula() -> None:
    # 10 words, 2 sentences, 13 syllables: 0.39 * 5 + 11.8 * 1.3 - 15.59
    sentences = ["we meet in the garden".split(), "please bring a warm blanket".split()]
    assert school_grade(sentences) == pytest.approx(0.39 * 5 + 11.8 * 1.3 - 15.59)


def test_sound_sentences_have_no_errors() -> None:
    assert (
        errors_in("The place is Spruce Room. A ticket costs $54, and the doors open at 3 pm.") == ()
    )


@given(st.lists(st.text(max_size=200), max_size=4), st.lists(st.text(max_size=40), max_size=4))
@settings(max_examples=20)
def test_any_text_has_a_score_from_0_to_1(texts: list[str], points: list[str]) -> None:
    score = score_text(PLAN.brief, tuple(texts), tuple(points))
    assert set(score.parts) == set(PARTS)
    assert all(0.0 <= value <= 1.0 for value in score.parts.values())
    assert 0.0 <= score.value <= 1.0


WORDS = [
    word for level in LEVELS for word in plan_task(level, FAMILIES["notice"], "train", 1).texts
]


@given(st.lists(st.sampled_from(" ".join(WORDS).split()), max_size=40))
@settings(max_examples=20)
def test_saying_it_twice_never_scores_more(words: list[str]) -> None:
    brief = plan_task(1, FAMILIES["notice"], "train", 1).brief
    text = " ".join(words)
    once, twice = score_text(brief, (text,)), score_text(brief, (f"{text} {text}",))
    assert twice.value <= once.value or once.parts["length"] < 1.0
