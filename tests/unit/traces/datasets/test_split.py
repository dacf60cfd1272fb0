"""Nothing on one side of the split gives the other away."""

import random
from itertools import product

import pytest
from tests.unit.traces.datasets.made import make_example

from practicum.core.errors import UserError
from practicum.core.sample import Example
from practicum.traces.datasets.splits import asked_text, jaccard, shingles, split_examples, task_key


def many(seed: int) -> list[Example]:
    """Tasks in families of nearly the same question, several answers to each."""
    dice = random.Random(seed)
    found = []
    for family in range(30):
        words = [f"f{family}w{i}" for i in range(30)]
        for task in range(dice.randint(1, 4)):
            asked = list(words)
            asked[dice.randrange(30)] = f"x{dice.randrange(1000)}"
            found += [
                make_example(f"{family}-{task}-{n}", task=f"{family}-{task}", asked=" ".join(asked))
                for n in range(dice.randint(1, 3))
            ]
    dice.shuffle(found)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_task_and_no_near_duplicate_is_on_both_sides(seed: int) -> None:
    examples = many(seed)
    split = split_examples(examples, share=0.3, near=0.7, seed=seed)
    assert split.train
    assert split.heldout
    assert not {task_key(e) for e in split.train} & {task_key(e) for e in split.heldout}
    crossing = [
        (one.id, other.id)
        for one, other in product(split.train, split.heldout)
        if jaccard(shingles(asked_text(one)), shingles(asked_text(other))) >= 0.7
    ]
    assert crossing == []
    assert split.largest > 1  # or there was nothing to keep together


def test_a_split_that_looks_at_tasks_alone_would_leak() -> None:
    """So that the test above can fail: with a threshold nothing reaches, families are torn."""
    split = split_examples(many(0), share=0.3, near=1.0, seed=0)
    assert any(
        jaccard(shingles(asked_text(one)), shingles(asked_text(other))) >= 0.7
        for one, other in product(split.train, split.heldout)
    )


def test_every_example_is_on_one_side_in_the_order_it_came() -> None:
    examples = many(1)
    split = split_examples(examples, share=0.3, near=0.7, seed=0)
    train = {e.id for e in split.train}
    assert [e for e in examples if e.id in train] == list(split.train)
    assert [e for e in examples if e.id not in train] == list(split.heldout)


def test_the_share_is_of_tasks_and_the_seed_chooses_them() -> None:
    examples = [make_example(f"{i}", task=f"{i}", asked=f"q{i} r{i} s{i} t{i}") for i in range(100)]
    sides = [split_examples(examples, share=0.2, near=0.8, seed=seed) for seed in (0, 0, 1)]
    assert [len(side.heldout) for side in sides] == [20, 20, 20]
    assert sides[0] == sides[1] != sides[2]


def test_one_question_under_two_task_ids_is_one_task() -> None:
    examples = [
        make_example("a", task="a", asked="the same question here"),
        make_example("b", task="b", asked="the same question here"),
        make_example("c", task="c", asked="something else entirely now"),
    ]
    for seed in range(5):
        split = split_examples(examples, share=0.4, near=0.8, seed=seed)
        assert [e.id for e in split.heldout] == ["c"]


def test_tasks_without_an_id_are_told_apart_by_what_was_asked() -> None:
    examples = [make_example(f"{i}", task="", asked=f"q{i} r{i} s{i}") for i in (0, 0, 1, 1, 2)]
    split = split_examples(examples, share=0.3, near=0.8, seed=0)
    assert not {asked_text(e) for e in split.train} & {asked_text(e) for e in split.heldout}


def test_rules_that_every_prompt_has_do_not_make_them_alike() -> None:
    examples = [make_example(f"{i}", task=f"{i}", asked=f"{i}x = {i}") for i in range(10)]
    rules = examples[0].messages[0]
    assert rules.role == "system"
    assert len(split_examples(examples, share=0.5, near=0.8, seed=0).heldout) == 5


def test_questions_that_are_all_alike_cannot_be_split() -> None:
    examples = [
        make_example(f"{i}", task=f"{i}", asked=" ".join(f"w{j}" for j in range(50)) + f" {i}")
        for i in range(10)
    ]
    with pytest.raises(UserError, match=r"2 of 10 tasks cannot be held out: 10 of them.*--heldout"):
        split_examples(examples, share=0.2, near=0.8, seed=0)


def test_without_a_share_nothing_is_held_out() -> None:
    examples = many(0)
    split = split_examples(examples, share=0.0, near=0.8, seed=0)
    assert (split.train, split.heldout) == (tuple(examples), ())


def test_nothing_is_split_into_nothing() -> None:
    split = split_examples([], share=0.2, near=0.8, seed=0)
    assert (split.train, split.heldout) == ((), ())
