"""Recorded episodes as examples."""

from dataclasses import replace

import pytest
from tests.unit.traces.datasets.made import make_episode

from practicum.core.sample import Episode, Example
from practicum.core.score import Score
from practicum.core.trace import Message, Node, SampledSpan, StopReason, Trace
from practicum.traces.datasets.examples import episode_examples, verdict
from practicum.traces.datasets.splits import LeftOut


def examples_of(episode: Episode) -> tuple[list[Example], dict[str, int]]:
    left_out = LeftOut()
    return list(episode_examples(episode, True, left_out)), left_out.counts


def sampled(text: str, ids: tuple[int, ...], mask: tuple[bool, ...], parent: int) -> Node:
    return Node(
        parent=parent,
        messages=(Message(role="assistant", content=text),),
        token_ids=ids,
        sampled=SampledSpan(logprobs=(0.0,) * len(ids), loss_mask=mask),
    )


def given(text: str, ids: tuple[int, ...], parent: int | None) -> Node:
    message = Message(role="user", content=text)
    return Node(parent=parent, messages=(message,), token_ids=ids)


OWN = Episode(
    trace=Trace(
        id="own",
        task_id="t",
        env="math",
        model="tiny + step_5",
        nodes=(
            given("q", (1, 2), None),
            sampled("a", (3, 4), (False, True), 0),
            given("r", (5,), 1),
            sampled("b", (6,), (True,), 2),
            given("s", (7,), 1),
            sampled("c", (8,), (True,), 4),
        ),
    ),
    outcome=None,
    score=Score(components={"r": 0.5}),
)


@pytest.mark.parametrize(
    ("label", "success", "score", "good"),
    [
        (0.9, False, 0.0, True),
        (0.1, True, 1.0, False),
        (None, True, 0.0, True),
        (None, False, 1.0, False),
        (None, None, 0.7, True),
        (None, None, 0.6, False),
        (None, None, None, None),
    ],
)
def test_a_person_counts_before_the_outcome_and_that_before_the_score(
    label: float | None, success: bool | None, score: float | None, good: bool | None
) -> None:
    episode = make_episode("e", "a", success=success, score=score)
    assert verdict(episode, label, 0.65) is good


def test_a_conversation_is_whole_and_its_prompt_is_given() -> None:
    (example,), left_out = examples_of(make_episode("e", "first", "second", score=0.25))
    assert [m.content for m in example.messages] == [
        "question 0 of t",
        "first",
        "question 1 of t",
        "second",
    ]
    assert (example.given, example.opening, example.reward) == (1, 1, 0.25)
    assert (example.id, example.task_id, example.env, example.label) == ("e", "t", "quiz", True)
    assert example.token_ids == ()
    assert left_out == {}


def test_each_walk_is_an_example_and_each_turn_is_learned_once() -> None:
    (first, second), _ = examples_of(OWN)
    assert (first.id, second.id) == ("own", "own#1")
    assert (first.given, second.given) == (1, 3)
    assert first.token_ids == (1, 2, 3, 4, 5, 6)
    assert first.loss_mask == (False, False, False, True, False, True)
    assert second.token_ids == (1, 2, 3, 4, 7, 8)
    assert second.loss_mask == (False, False, False, False, False, True)
    assert first.tokens_of == "tiny"


def test_tokens_that_were_not_sampled_by_a_model_of_ours_are_not_kept() -> None:
    elsewhere = replace(OWN, trace=replace(OWN.trace, source="openai"))
    unnamed = replace(OWN, trace=replace(OWN.trace, model=""))
    nodes = (OWN.trace.nodes[0], sampled("a", (97,), (False,), 0))
    scripted = replace(OWN, trace=replace(OWN.trace, nodes=nodes))
    for episode in (elsewhere, unnamed, scripted):
        found, _ = examples_of(episode)
        assert found
        assert all(example.token_ids == () and example.tokens_of == "" for example in found)


def test_a_turn_shown_to_the_model_is_not_learned_from() -> None:
    shown = Node(
        parent=None,
        messages=(
            Message(role="user", content="q"),
            Message(role="assistant", content="an example"),
            Message(role="user", content="now you"),
        ),
        token_ids=(1,),
    )
    trace = replace(OWN.trace, nodes=(shown, sampled("a", (2,), (True,), 0)))
    (example,), _ = examples_of(replace(OWN, trace=trace))
    assert example.given == 3
    assert [m.content for m in example.completion] == ["a"]


@pytest.mark.parametrize(
    ("episode", "reason"),
    [
        (make_episode("e", "a", stop=StopReason.ENVIRONMENT_FAILED), "through no fault"),
        (make_episode("e"), "said nothing"),
        (make_episode("e", "", " "), "said nothing"),
        (make_episode("e", "a", source="synthetic-worse"), "made up"),
        (make_episode("e", "a", evidence={"synthetic": True}), "made up"),
    ],
)
def test_what_cannot_be_learned_from_is_left_out_with_the_reason(
    episode: Episode, reason: str
) -> None:
    found, left_out = examples_of(episode)
    assert found == []
    assert [reason in text for text in left_out] == [True]


def test_a_turn_given_between_the_models_own_is_only_shown() -> None:
    shown = Node(
        parent=1, messages=(Message(role="assistant", content="not mine"),), token_ids=(5,)
    )
    trace = replace(OWN.trace, nodes=(*OWN.trace.nodes[:2], shown, sampled("b", (6,), (True,), 2)))
    (example,), _ = examples_of(replace(OWN, trace=trace))
    assert (example.given, example.shown) == (1, (2,))
    assert example.loss_mask == (False, False, False, True, False, True)
