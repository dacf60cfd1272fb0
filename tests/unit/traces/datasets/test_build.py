"""What gets into a training set, what does not, and what it weighs."""

from dataclasses import replace

import pytest
from tests.unit.traces.datasets.made import make_example

from practicum.core.errors import UserError
from practicum.core.sample import Example
from practicum.traces.datasets.build import BuildOptions, Built, Kind, build
from practicum.traces.datasets.dataset_writing import describe
from practicum.traces.datasets.splits import LeftOut


def built(examples: list[Example], kind: Kind, **options: object) -> Built:
    return build(examples, BuildOptions(kind=kind, **options), LeftOut())  # type: ignore[arg-type]


def ids(found: Built) -> list[list[str]]:
    return [[example.id for example in unit] for unit in found.train]


GOOD = make_example("good", said="4", label=True, reward=1.0)
BAD = make_example("bad", said="5", label=False, reward=0.0)
UNKNOWN = make_example("unknown", said="6")


def test_sft_takes_good_ones() -> None:
    found = built([GOOD, BAD, UNKNOWN], "sft")
    assert ids(found) == [["good"]]
    assert found.left_out.total == 2
    assert found.left_out.counts == {
        "it is not a good one": 1,
        "neither a label nor an outcome nor a score says whether it is good": 1,
    }


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"only": "bad"}, ["bad"]),
        ({"only": "all"}, ["good", "bad", "unknown"]),
        ({"only": "all", "min_score": 0.5}, ["good"]),
    ],
)
def test_sft_takes_what_is_asked_for(options: dict[str, object], kept: list[str]) -> None:
    assert ids(built([GOOD, BAD, UNKNOWN], "sft", **options)) == [[name] for name in kept]


def test_weights_by_score_are_in_proportion_and_one_on_average() -> None:
    examples = [
        make_example(f"{reward}", task=f"{reward}", said=f"{reward}", reward=reward)
        for reward in (0.5, 1.5, 4.0, 0.0, -1.0)
    ]
    found = built(examples, "sft", weight_by="score")
    assert [unit[0].weight for unit in found.train] == [0.25, 0.75, 2.0]
    assert found.left_out.counts == {"its score gives it no weight": 2}


def test_kto_keeps_every_example_and_weighs_classes_alike() -> None:
    examples = [
        *(make_example(f"g{i}", said=f"yes {i}", label=True) for i in range(6)),
        *(make_example(f"b{i}", said=f"no {i}", label=False) for i in range(2)),
    ]
    found = built(examples, "kto")
    weights = {
        label: [unit[0].weight for unit in found.train if unit[0].label is label]
        for label in (True, False)
    }
    assert len(found.train) == 8
    assert weights[True] == pytest.approx([8 / (2 * 6)] * 6)
    assert weights[False] == pytest.approx([8 / (2 * 2)] * 2)
    assert sum(weights[True]) == pytest.approx(sum(weights[False]))


def test_kto_by_sampling_has_as_many_of_each() -> None:
    examples = [
        make_example(f"{i}", said=f"answer {i}", label=i % 4 == 0, reward=0.0) for i in range(20)
    ]
    found = built(examples, "kto", balance="sample", seed=3)
    labels = [unit[0].label for unit in found.train]
    assert (labels.count(True), labels.count(False)) == (5, 5)
    assert {unit[0].weight for unit in found.train} == {1.0}
    assert found.left_out.counts == {"left out to balance the classes": 10}
    assert ids(found) == ids(built(examples, "kto", balance="sample", seed=3))
    assert ids(found) != ids(built(examples, "kto", balance="sample", seed=4))


def test_an_answer_called_good_and_bad_is_left_out_of_kto() -> None:
    found = built([GOOD, replace(GOOD, id="same", label=False), BAD], "kto")
    assert ids(found) == [["bad"]]
    assert found.left_out.counts == {"the same answer is called both good and bad": 2}


def test_of_doubles_the_best_stays() -> None:
    better = replace(GOOD, id="better", reward=2.0)
    found = built([GOOD, better, replace(better, id="later")], "sft")
    assert ids(found) == [["better"]]
    assert ids(built([GOOD, better], "sft", duplicates="keep")) == [["good"], ["better"]]


def test_near_doubles_go_only_where_they_were_judged_the_same() -> None:
    long = " ".join(f"w{i}" for i in range(60))
    examples = [
        make_example("a", said=long, label=True),
        make_example("b", said=f"{long} more", label=True),
        make_example("c", said=f"{long} wrong", label=False),
        make_example("d", task="other", asked="And 2 + 3?", said=f"{long} more", label=True),
    ]
    assert ids(built(examples, "kto", duplicates="near")) == [["a"], ["c"], ["d"]]
    assert len(built(examples, "kto").train) == 4


def test_pairs_are_of_the_best_and_the_worst_each_used_once() -> None:
    rewards = (0.1, 0.9, 0.5, 0.2, 1.0)
    examples = [make_example(f"{r}", said=f"answer {r}", reward=r) for r in rewards]
    found = built(examples, "dpo", margin=0.5)
    assert ids(found) == [["1.0", "0.1"], ["0.9", "0.2"]]
    for chosen, rejected in found.train:
        assert (chosen.chosen, rejected.chosen) == (True, False)
        assert chosen.pair == rejected.pair
        assert chosen.prompt == rejected.prompt
    assert len({unit[0].pair for unit in found.train}) == 2
    assert found.left_out.counts == {
        "no answer to its question is better or worse by the margin": 1
    }


def test_pairs_answer_one_question() -> None:
    other_task = make_example("x", task="x", said="no", reward=0.0)
    other_prompt = make_example("y", asked="What is 3 + 3?", said="no", reward=0.0)
    found = built([GOOD, other_task, other_prompt], "dpo")
    assert found.train == ()
    assert found.left_out.counts == {
        "it is the only answer to its question, and no other is invented": 3
    }


def test_a_pair_is_never_of_one_text_or_of_equal_scores() -> None:
    same_text = replace(GOOD, id="again", reward=0.0, label=None)
    unlabelled = replace(GOOD, label=None)
    for duplicates in ("exact", "keep"):
        assert built([unlabelled, same_text], "dpo", duplicates=duplicates).train == ()
    assert built([GOOD, replace(BAD, reward=1.0)], "dpo").train == ()


def paired(name: str, chosen: Example, rejected: Example) -> list[Example]:
    return [
        replace(side, id=f"{name}/{n}", pair=name, chosen=not n, label=None, reward=None)
        for n, side in enumerate((chosen, rejected))
    ]


def test_pairs_that_came_as_pairs_stay_pairs() -> None:
    again = paired("again", GOOD, BAD)
    examples = [*paired("p", GOOD, BAD), *paired("q", GOOD, UNKNOWN), *again]
    found = built([*examples, *paired("half", BAD, GOOD)[:1]], "dpo")
    assert ids(found) == [["p/0", "p/1"], ["q/0", "q/1"]]
    assert found.left_out.counts == {
        "it says the same as another answer to its question": 2,
        "the other side of its pair is missing": 1,
    }
    scored = [replace(e, reward=1.0 + bool(e.chosen)) for e in paired("p", GOOD, BAD)]
    assert len(built(scored, "dpo", margin=1.0).train) == 1
    assert built(scored, "dpo", margin=1.5).train == ()


def test_sides_of_pairs_can_be_used_by_themselves() -> None:
    found = built(paired("p", GOOD, BAD), "kto")
    assert [(unit[0].id, unit[0].label, unit[0].pair) for unit in found.train] == [
        ("p/0", True, ""),
        ("p/1", False, ""),
    ]
    assert ids(built(paired("p", GOOD, BAD), "sft")) == [["p/0"]]


def test_groups_have_all_answers_and_differ_in_score() -> None:
    twice = replace(GOOD, id="twice")
    found = built([GOOD, BAD, twice, UNKNOWN], "grpo")
    assert ids(found) == [["good", "bad", "twice"]]
    equal = built([GOOD, twice], "grpo")
    assert equal.train == ()
    assert equal.left_out.counts == {"all answers to its question scored the same": 2}


@pytest.mark.parametrize("kind", ["sft", "kto", "dpo", "grpo"])
def test_rows_that_belong_together_stay_on_one_side(kind: Kind) -> None:
    examples = [
        make_example(
            f"{task}-{good}",
            task=f"{task}",
            asked=f"q{task} r{task} s{task}",
            said=f"{good}",
            label=good,
            reward=float(good),
        )
        for task in range(20)
        for good in (True, False)
    ]
    found = built(examples, kind, heldout=0.25)
    sides = [{e.task_id for unit in side for e in unit} for side in (found.train, found.heldout)]
    assert [len(side) for side in sides] == [15, 5]
    assert not sides[0] & sides[1]


def test_no_more_rows_than_asked_for() -> None:
    examples = [
        make_example(f"{i}", task=f"{i}", said=f"{i}", label=True, reward=1.0) for i in range(10)
    ]
    found = built(examples, "sft", n=4)
    assert len(found.train) == 4
    assert found.left_out.counts == {"more than the number asked for": 6}


def test_tasks_can_weigh_alike_in_sft_and_dpo() -> None:
    def answer(task: str, number: int, reward: float) -> Example:
        said = f"{task} {number}"
        return make_example(said, task=task, said=said, label=True, reward=reward)

    examples = [answer("a", i, float(i < 3)) for i in range(6)]
    examples += [answer("b", i, float(i < 1)) for i in range(2)]
    for kind in ("sft", "dpo"):
        totals: dict[str, float] = {}
        for unit in built(examples, kind, balance="weight").train:  # type: ignore[arg-type]
            assert len({example.weight for example in unit}) == 1
            totals[unit[0].task_id] = totals.get(unit[0].task_id, 0.0) + unit[0].weight
        assert totals["a"] == pytest.approx(totals["b"])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kind": "grpo", "balance": "weight"}, "--balance weight cannot be had with --kind grpo"),
        ({"kind": "dpo", "balance": "sample"}, "choose none or weight"),
        ({"kind": "kto", "weight_by": "score"}, "--weight-by goes with --kind sft"),
        ({"kind": "sft", "heldout": 1.0}, "--heldout 1 is not a share"),
        ({"kind": "sft", "near": 0.0}, "--near 0 is not a Jaccard index"),
        ({"kind": "dpo", "margin": -1.0}, "--margin -1 is below 0"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        BuildOptions(**options)  # type: ignore[arg-type]


def test_figures_count_rows_tasks_classes_turns_and_what_was_left_out() -> None:
    figures = describe(built([GOOD, BAD, UNKNOWN], "kto"))
    train = figures["train"]
    assert (train["rows"], train["tasks"], train["turns"]["max"]) == (2, 1, 1)
    assert train["classes"] == {
        "bad": {"examples": 1, "weight": 1.0},
        "good": {"examples": 1, "weight": 1.0},
    }
    assert train["prompt_characters"]["median"] == len("What is 2 + 2?")
    assert figures["left_out"]["total"] == 1
    assert figures["left_out"]["for_example"].popitem()[1] == ["unknown"]
    assert figures["notes"] == []
    assert "all answers are good" in describe(built([GOOD], "kto"))["notes"][0]
