"""Traffic and feedback as a run learns from it: copied, its own tokens, without secrets."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.errors import UserError
from practicum.core.sample import Episode, Example
from practicum.core.score import Label, Score
from practicum.core.task import Task
from practicum.core.trace import Message, Node, SampledSpan, Trace
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.datasets.build import BuildOptions, Built, build
from practicum.traces.datasets.sources import DatasetSource, recorded_examples
from practicum.traces.datasets.splits import LeftOut
from practicum.traces.feedback import (
    FOREIGN,
    OVER_SHARE,
    TESTED,
    Traffic,
    gather_traffic,
    most_of_a_key,
    traffic_environments,
)

BASE = "0123456789abcdef"
Fill = Callable[..., Path]


def episode(number: int, turns: int = 1, env: str = "traffic", base: str = BASE) -> Episode:
    """A conversation of one question a turn, sampled by a version of the served model."""
    nodes: list[Node] = []
    for turn in range(turns):
        asked = Message(role="user", content=f"question {number}, part {turn} of it")
        said = Message(role="assistant", content=f"answer {number}.{turn}")
        above = len(nodes) - 1 if nodes else None
        nodes.append(Node(parent=above, messages=(asked,), token_ids=(1, 2)))
        span = SampledSpan(
            logprobs=(-0.5, 0.0), loss_mask=(True, False), fingerprint=f"{base}+adapter{number}"
        )
        nodes.append(
            Node(parent=len(nodes) - 1, messages=(said,), token_ids=(3, turn), sampled=span)
        )
    trace = Trace(
        id=f"traffic/{number}", task_id=f"t{number}", env=env, nodes=tuple(nodes), model="shop"
    )
    return Episode(trace=trace, outcome=None, score=Score.unscored("served"))


def label(
    number: int, value: float, correction: str = "", at: float = 1.0, by: str = "feedback"
) -> Label:
    return Label(
        episode_id=f"traffic/{number}",
        value=value,
        author=by,
        created_at=at,
        correction=correction,
    )


@pytest.fixture
def fill(path: Path) -> Fill:
    def write(episodes: Sequence[Episode], labels: Sequence[Label]) -> Path:
        with SqliteTraceStore(path) as store:
            tasks = [Task(id=e.trace.task_id, env=e.trace.env, split="train") for e in episodes]
            store.add_imported(episodes, tasks=tasks, purpose="traffic")
            store.add_labels(labels)
        return path

    return write


def gather(path: Path, **options: object) -> Traffic:
    known = {"base": "tiny", "fingerprint": f"{BASE}+served", **options}
    return gather_traffic(path, path.with_name("copy.sqlite"), **known)  # type: ignore[arg-type]


def dataset(path: Path, kind: str) -> Built:
    left_out = LeftOut()
    examples = recorded_examples(DatasetSource(name=str(path)), left_out)
    return build(examples, BuildOptions(kind=kind), left_out)  # type: ignore[arg-type]


def said(example: Example) -> list[str]:
    return [message.content for message in example.messages]


def test_labelled_traffic_is_copied_under_the_base_models_name(fill: Fill) -> None:
    path = fill([episode(1), episode(2), episode(3)], [label(1, 1.0), label(2, 0.2)])
    found = gather(path)
    assert (found.good, found.bad, found.corrections, found.labels) == (1, 1, 0, 2)
    with SqliteTraceStore(found.store, read_only=True) as copy:
        assert [e.trace.id for e in copy.query()] == ["traffic/1", "traffic/2"]
        assert {e.trace.model for e in copy.query()} == {"tiny"}
        assert copy.count_where("purpose = traffic") == 2
        assert copy.task("traffic", "t1") is not None


def test_the_newest_label_counts(fill: Fill) -> None:
    path = fill([episode(1), episode(2)], [label(1, 1.0), label(2, 1.0), label(2, 0.0, at=2.0)])
    found = gather(path)
    assert (found.good, found.bad) == (1, 1)


def test_one_key_has_a_bounded_share_and_counts_once_a_conversation(fill: Fill) -> None:
    honest = [label(n, 1.0, by=f"feedback/{n % 19}") for n in range(57)]
    lies = [label(n, 0.0, by="feedback/liar") for n in range(100, 500)]
    again = [label(n, 0.0, by="feedback/liar", at=2.0) for n in range(100, 500)]
    path = fill([episode(n) for n in (*range(57), *range(100, 500))], [*honest, *lies, *again])
    found = gather(path)
    assert (found.good, found.bad, found.keys) == (57, 6, 20)
    assert found.left_out.counts == {OVER_SHARE: 394}
    with SqliteTraceStore(found.store, read_only=True) as copy:
        assert Counter(one.author for one in copy.labels())["feedback/liar"] == 12
        assert {one.trace.id for one in copy.query()} == set(found.authors)


def test_who_spoke_last_of_a_conversation_is_who_counts(fill: Fill) -> None:
    first = label(1, 0.0, "better", by="feedback/a")
    path = fill([episode(1)], [first, label(1, 1.0, at=2.0, by="ann")])
    found = gather(path)
    assert (found.good, found.corrections, found.authors) == (1, 0, {"traffic/1": "ann"})


@given(st.lists(st.integers(1, 3000), min_size=2, max_size=60))
def test_no_key_has_more_than_its_share(labelled: list[int]) -> None:
    most = most_of_a_key(labelled)
    counted = [min(one, most) for one in labelled]
    bound = min(1 / 2, max(1 / 10, 2 / len(labelled)))
    assert max(counted) <= bound * sum(counted) + 1e-9
    assert min(counted) >= 1
    # As many as may: one more of whoever is held back would be beyond the bound.
    more = [min(one, most + 1) for one in labelled]
    assert more == counted or max(more) > bound * sum(more)
    # A thousand more labels of one key take nothing from anybody else.
    louder = most_of_a_key([labelled[0] + 1000, *labelled[1:]])
    assert all(min(one, louder) >= min(one, most) for one in labelled)


def test_what_another_model_sampled_is_left_out_and_counted(fill: Fill) -> None:
    path = fill(
        [episode(1), episode(2), episode(3, base="f" * 16)],
        [label(1, 1.0), label(2, 0.0), label(3, 1.0)],
    )
    found = gather(path)
    assert found.labels == 2
    assert found.left_out.counts == {FOREIGN: 1}


def test_a_store_of_another_models_tokens_is_one_sentence(fill: Fill) -> None:
    path = fill([episode(1, base="f" * 16)], [label(1, 1.0)])
    with pytest.raises(UserError, match=rf"all 1 labelled .* another model .*\({BASE}\); name the"):
        gather(path)


def test_without_a_fingerprint_the_models_name_decides(fill: Fill) -> None:
    path = fill([episode(1), episode(2)], [label(1, 1.0), label(2, 0.0)])
    with pytest.raises(UserError, match="another model"):
        gather(path, fingerprint="")
    path.with_name("copy.sqlite").unlink()
    assert gather(path, fingerprint="", base="shop").labels == 2


def test_tasks_that_the_models_are_compared_on_are_not_learned_from(fill: Fill) -> None:
    path = fill([episode(1, env="math"), episode(2, env="math")], [label(1, 1.0), label(2, 0.0)])
    found = gather(path, tested={("math", "t2")})
    assert (found.good, found.bad) == (1, 0)
    assert found.left_out.counts == {TESTED: 1}


def test_secrets_are_taken_out_of_the_copy_of_answers_and_corrections(fill: Fill) -> None:
    secret = "ghp_" + "a1B2" * 9
    leaky = episode(1)
    node = leaky.trace.nodes[0]
    told = replace(node, messages=(Message(role="user", content=f"my token is {secret}"),))
    trace = replace(leaky.trace, nodes=(told, *leaky.trace.nodes[1:]))
    path = fill([replace(leaky, trace=trace)], [label(1, 0.0, correction=f"use {secret}")])
    found = gather(path)
    assert found.redacted["github-token"] == 2
    assert secret.encode() not in found.store.read_bytes()
    (chosen, _), *_ = dataset(found.store, "dpo").train
    assert chosen.messages[-1].content == "use [redacted:github-token]"


def test_no_labels_is_one_sentence(fill: Fill) -> None:
    with pytest.raises(UserError, match=r"has 2 traces and no labels; send feedback .*POST"):
        gather(fill([episode(1), episode(2)], []))


def test_a_condition_that_nothing_matches_is_one_sentence(fill: Fill) -> None:
    path = fill([episode(1)], [label(1, 1.0)])
    with pytest.raises(UserError, match="matches 'score > 3' and has a label; take another"):
        gather(path, where="score > 3")


@pytest.mark.parametrize(("value", "word"), [(1.0, "good"), (0.0, "bad")])
def test_labels_that_all_say_the_same_are_refused_for_kto(
    value: float, word: str, fill: Fill
) -> None:
    found = gather(fill([episode(1), episode(2)], [label(1, value), label(2, value)]))
    with pytest.raises(UserError, match=f"all 2 labels of the traffic say {word}, and kto needs"):
        found.choose_kind("auto")


def test_dpo_without_corrections_is_refused(fill: Fill) -> None:
    found = gather(fill([episode(1), episode(2)], [label(1, 1.0), label(2, 0.0)]))
    with pytest.raises(UserError, match=r"no corrections, and dpo learns from .* --kind kto"):
        found.choose_kind("dpo")
    assert found.choose_kind("auto") == "kto"


def test_mostly_corrections_are_learned_from_by_dpo_unless_asked_otherwise() -> None:
    found = Traffic(store=Path("s.sqlite"), good=2, bad=1, corrections=3)
    assert found.choose_kind("auto") == "dpo"
    assert found.choose_kind("kto") == "kto"
    found = Traffic(store=Path("s.sqlite"), good=2, bad=2, corrections=3)
    assert found.choose_kind("auto") == "kto"


def test_a_correction_is_chosen_against_the_last_answer(fill: Fill) -> None:
    path = fill([episode(1, turns=2)], [label(1, 0.0, correction="better")])
    ((chosen, rejected),) = dataset(path, "dpo").train
    assert said(chosen) == ["question 1, part 0 of it", "answer 1.0", "question 1, part 1 of it",
                            "better"]  # fmt: skip
    assert said(rejected)[-1] == "answer 1.1"
    assert chosen.prompt == rejected.prompt
    assert (chosen.chosen, rejected.chosen) == (True, False)
    # Earlier answers are not what was corrected: only the last one carries loss.
    assert rejected.token_ids == (1, 2, 3, 0, 1, 2, 3, 1)
    assert rejected.loss_mask == (False,) * 6 + (True, False)
    assert chosen.token_ids == ()


def test_kto_learns_from_both_sides_of_a_correction(fill: Fill) -> None:
    path = fill([episode(1), episode(2)], [label(1, 0.0, correction="better"), label(2, 1.0)])
    found = {said(unit[0])[-1]: unit[0].label for unit in dataset(path, "kto").train}
    assert found == {"better": True, "answer 1.0": False, "answer 2.0": True}


def test_a_correction_that_says_the_same_is_left_out(fill: Fill) -> None:
    path = fill([episode(1)], [label(1, 0.0, correction=" answer 1.0\n")])
    built = dataset(path, "dpo")
    assert built.train == ()
    assert built.left_out.counts == {"its correction says what the answer said": 1}


def test_environments_of_traffic_are_told_without_plain_conversations(fill: Fill) -> None:
    path = fill(
        [episode(1), episode(2, env="math"), episode(3, env="math"), episode(4, env="shell")],
        [label(n, 1.0) for n in (1, 2, 3)],
    )
    assert traffic_environments(path) == ["math"]
    assert traffic_environments(path, "") == ["math", "shell"]
