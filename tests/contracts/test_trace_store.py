"""What every trace store does, run over each one that ships."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from practicum.core.interfaces import TraceStore
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, Node, SampledSpan, StopReason, Trace
from practicum.store.memory_store import InMemoryTraceStore
from practicum.store.trace_store import SqliteTraceStore

Store = SqliteTraceStore | InMemoryTraceStore


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield InMemoryTraceStore()
        return
    with SqliteTraceStore(tmp_path / "traces.sqlite") as opened:
        yield opened


def make_episode(episode_id: str, value: float = 1.0) -> Episode:
    span = SampledSpan(logprobs=(-0.1, -1 / 3), loss_mask=(True, True), fingerprint="f")
    nodes = (
        Node(parent=None, messages=(Message(role="user", content="3x = 9"),), token_ids=(1, 2)),
        Node(
            parent=0,
            messages=(Message(role="assistant", content="state_answer 3"),),
            token_ids=(3, 4),
            sampled=span,
        ),
    )
    return Episode(
        trace=Trace(
            id=episode_id, task_id="t1", env="math", nodes=nodes, stop=StopReason.MAX_TURNS
        ),
        outcome=Outcome(success=True, turn_rewards=(value,), evidence={"left": ["x", 3]}),
        score=Score(components={"turns": value}, weights={"turns": 0.5}),
    )


def ids(store: TraceStore, step: int | None = None, purpose: str | None = None) -> list[str]:
    return [e.trace.id for e in store.episodes(step=step, purpose=purpose)]


def test_an_episode_comes_back_equal(store: Store) -> None:
    store.add(make_episode("a"), attempt=1, step=1, purpose="train")
    assert list(store.episodes()) == [make_episode("a")]
    assert store.get("a") == make_episode("a")


def test_episodes_come_oldest_first(store: Store) -> None:
    store.add_many(map(make_episode, "cab"), attempt=1, step=2, purpose="train")
    store.add(make_episode("d"), attempt=1, step=1, purpose="train")
    assert ids(store) == ["c", "a", "b", "d"]
    assert store.count() == 4


def test_step_and_purpose_choose(store: Store) -> None:
    store.add(make_episode("a"), attempt=1, step=1, purpose="train")
    store.add(make_episode("b"), attempt=1, step=1, purpose="eval")
    store.add(make_episode("c"), attempt=1, step=2, purpose="train")
    assert ids(store, step=1) == ["a", "b"]
    assert ids(store, purpose="train") == ["a", "c"]
    assert ids(store, step=2, purpose="eval") == []
    assert ids(store, step=0) == []


@pytest.mark.parametrize(("limit", "kept"), [(0, ""), (2, "bc"), (9, "abc"), (None, "abc")])
def test_a_limit_keeps_the_newest(store: Store, limit: int | None, kept: str) -> None:
    store.add_many(map(make_episode, "abc"), attempt=1, step=1, purpose="train")
    assert [e.trace.id for e in store.episodes(limit=limit)] == list(kept)


def test_an_unknown_id_has_no_episode(store: Store) -> None:
    assert store.get("nobody") is None


def test_a_replayed_step_gives_only_its_newest_attempt(store: Store) -> None:
    store.begin_attempt(1, 0)
    for step, name in ((1, "a1"), (2, "b1"), (3, "c1")):
        store.add(make_episode(name), attempt=1, step=step, purpose="train")
    store.begin_attempt(2, 1)
    assert ids(store) == ["a1"]
    store.add(make_episode("b2"), attempt=2, step=2, purpose="train")
    assert ids(store) == ["a1", "b2"]
    assert store.get("b1") is None
    assert store.count() == 2


def test_a_replay_that_makes_the_same_episode_again_gives_it_once(store: Store) -> None:
    store.begin_attempt(1, 0)
    store.add(make_episode("a", value=1.0), attempt=1, step=1, purpose="train")
    store.begin_attempt(2, 0)
    store.add(make_episode("a", value=2.0), attempt=2, step=1, purpose="train")
    assert list(store.episodes()) == [make_episode("a", value=2.0)]
    assert store.get("a") == make_episode("a", value=2.0)


def test_an_evaluation_made_again_at_the_resumed_step_counts_once(store: Store) -> None:
    store.begin_attempt(1, 0)
    store.add(make_episode("t"), attempt=1, step=5, purpose="train")
    store.add_many(map(make_episode, ["e1", "e2"]), attempt=1, step=5, purpose="eval")
    store.begin_attempt(2, 5)
    assert ids(store) == ["t", "e1", "e2"]
    store.add(make_episode("e3"), attempt=2, step=5, purpose="eval")
    assert ids(store) == ["t", "e3"]


def test_a_third_attempt_can_go_back_further_than_the_second(store: Store) -> None:
    store.begin_attempt(1, 0)
    store.add_many(map(make_episode, "ab"), attempt=1, step=1, purpose="train")
    store.add(make_episode("c"), attempt=1, step=2, purpose="train")
    store.begin_attempt(2, 2)
    store.add(make_episode("d"), attempt=2, step=3, purpose="train")
    store.begin_attempt(3, 1)
    assert ids(store) == ["a", "b"]


def test_summaries_say_what_the_episodes_are(store: Store) -> None:
    task = Task(id="t1", env="math", split="train", level=3)
    store.add(make_episode("a", value=3.0), attempt=1, step=4, purpose="train", task=task)
    store.add(make_episode("b"), attempt=1, step=5, purpose="eval")
    first, second = store.summaries()
    assert (first.id, first.attempt, first.step, first.purpose) == ("a", 1, 4, "train")
    assert (first.task_id, first.env, first.level, first.stop) == ("t1", "math", 3, "max_turns")
    assert (first.score, first.success, first.n_turns, first.sampled_tokens) == (1.5, True, 1, 2)
    assert (second.id, second.level) == ("b", None)
    assert [s.id for s in store.summaries(purpose="eval", limit=1)] == ["b"]


def test_an_unscored_episode_is_summarised_as_unscored(store: Store) -> None:
    trace = make_episode("a").trace
    episode = Episode(trace=trace, outcome=None, score=Score.unscored("no answer"))
    store.add(episode, attempt=1, step=1, purpose="train")
    (summary,) = store.summaries()
    assert (summary.score, summary.success) == (None, None)


def test_the_task_of_an_episode_is_kept_for_scoring_it_again(store: Store) -> None:
    task = Task(id="t1", env="math", split="train", level=2, data={"equation": "3x = 9"})
    store.add_many([make_episode("a")], attempt=1, step=1, purpose="train", tasks=[task])
    assert store.task("math", "t1") == task
    assert store.task("math", "t2") is None


def test_episodes_may_be_added_while_others_are_read(store: Store) -> None:
    store.add_many(map(make_episode, "ab"), attempt=1, step=1, purpose="train")
    seen = []
    for episode in store.episodes():
        seen.append(episode.trace.id)
        store.add(make_episode(f"{episode.trace.id}2"), attempt=1, step=2, purpose="train")
    assert seen == ["a", "b"]
    assert ids(store) == ["a", "b", "a2", "b2"]
