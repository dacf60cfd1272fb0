from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.rewards.learned.talks import mixed_talks

from practicum.assemble.environments import open_environment
from practicum.assemble.wired_rewards import REWARDS, load_embedder
from practicum.core.config.parse_config import build_config
from practicum.core.config.reward_config import LearnedComponent, RewardConfig
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label, Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import StopReason
from practicum.rewards.learned.labeler import TracePool, save_labeler
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.labelling import (
    LABELER,
    LabelSession,
    mean_by_author,
    read_pool,
    report_labels,
    suggest_labels,
    teach,
)

TRACES, TRUTH = mixed_talks(40, seed=0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteTraceStore]:
    with SqliteTraceStore(tmp_path / "traces.sqlite") as opened:
        scored = Score(components={"outcome": 0.0})
        opened.add_imported([Episode(trace=t, outcome=None, score=scored) for t in TRACES])
        yield opened


def label(name: str, value: float, author: str = "ann", at: float = 1.0, **more: bool) -> Label:
    return Label(episode_id=name, value=value, author=author, created_at=at, **more)


def pool_of(store: SqliteTraceStore, **options: int) -> TracePool:
    settings = {"where": "", "size": 1000, "seed": 0, "embedder": None, **options}
    return read_pool(store, **settings)  # type: ignore[arg-type]


def sit_down(store: SqliteTraceStore, author: str = "ann") -> LabelSession:
    return LabelSession(store, pool_of(store), author, "uncertain", seed=0)


def answer(desk: LabelSession, count: int) -> list[str]:
    names = []
    for _ in range(count):
        episode = desk.next()
        assert episode is not None
        names.append(episode.trace.id)
        desk.answer(names[-1], TRUTH[names[-1]])
    return names


def test_people_count_by_their_last_word_and_suggestions_never() -> None:
    given = [
        label("a", 0.0, at=1),
        label("a", 1.0, at=2),
        label("a", 0.0, author="bob"),
        label("a", 0.0, author=LABELER, is_suggestion=True),
        label("b", 1.0, author=LABELER, is_suggestion=True),
    ]
    assert mean_by_author(iter(given)) == {"a": 0.5}


def test_the_pool_holds_every_labelled_trace_and_a_draw_of_the_others(
    store: SqliteTraceStore,
) -> None:
    store.add_labels([label("t30", 1.0), label("t7", 0.0)])
    pools = [pool_of(store, size=10, seed=seed) for seed in (1, 1, 2)]
    assert len(pools[0]) == 12
    assert {"t30", "t7"} <= set(pools[0].ids)
    assert pools[0].ids == pools[1].ids
    assert pools[0].ids != pools[2].ids
    assert len(pool_of(store)) == 40


def test_what_broke_without_the_policys_doing_is_left_out(store: SqliteTraceStore) -> None:
    broken = replace(TRACES[0], id="broken", task_id="other", stop=StopReason.ENVIRONMENT_FAILED)
    score = Score.unscored("broke")
    store.add_imported([Episode(trace=broken, outcome=None, score=score)])
    assert store.count() == 41
    assert "broken" not in pool_of(store).ids


def test_a_labeler_never_learns_from_evaluations(store: SqliteTraceStore) -> None:
    for name in ("unlabelled", "labelled"):
        heldout = replace(TRACES[0], id=name, task_id="heldout")
        episode = Episode(trace=heldout, outcome=None, score=Score(components={"outcome": 0.0}))
        store.add(episode, attempt=1, step=4, purpose="eval")
    store.add_labels([label("labelled", 1.0), label("t7", 0.0)])
    pool = pool_of(store)
    assert set(pool.ids) == set(TRUTH)
    assert report_labels(store, pool, seed=0).unlabelled == len(TRUTH) - 1


def test_nothing_to_label_is_said(store: SqliteTraceStore) -> None:
    with pytest.raises(UserError, match=r"no episodes.*env = moon"):
        read_pool(store, where="env = moon", size=5, seed=0, embedder=None)


def test_every_answer_is_in_the_store_at_once_with_author_and_time(
    store: SqliteTraceStore,
) -> None:
    desk = sit_down(store)
    episode = desk.next()
    assert episode is not None
    desk.answer(episode.trace.id, 0.0, "wrong folder")
    [kept] = store.labels()
    assert (kept.episode_id, kept.value, kept.author) == (episode.trace.id, 0.0, "ann")
    assert kept.note == "wrong folder"
    assert kept.created_at > 1.7e9
    assert not kept.is_suggestion


def test_a_later_sitting_does_not_ask_again(store: SqliteTraceStore) -> None:
    asked = answer(sit_down(store), 15)
    again = answer(sit_down(store), 25)
    assert sorted(asked + again) == sorted(TRUTH)
    assert sit_down(store).next() is None


def test_what_the_labeler_thought_before_is_kept_as_a_suggestion(store: SqliteTraceStore) -> None:
    answer(sit_down(store), 20)
    people = list(store.labels(suggestions=False))
    suggested = list(store.labels(suggestions=True))
    assert len(people) == 20
    assert 5 <= len(suggested) < 20  # none before there was enough to learn from
    assert {one.author for one in suggested} == {LABELER}
    assert all(one.confidence is not None and one.confidence >= 0.5 for one in suggested)


def test_undo_takes_back_the_answer_and_what_was_suggested(store: SqliteTraceStore) -> None:
    desk = sit_down(store)
    names = answer(desk, 14)
    before = list(store.labels())
    episode = desk.next()
    assert episode is not None
    desk.answer(episode.trace.id, 1.0)
    assert desk.undo() == episode.trace.id
    assert list(store.labels()) == before
    again = desk.next()
    assert again is not None
    assert again.trace.id == episode.trace.id
    for name in reversed(names):
        assert desk.undo() == name
    assert desk.undo() is None
    assert list(store.labels()) == []
    assert desk.counts == {"labelled": 0, "good": 0, "bad": 0, "skipped": 0, "left": 40}


def test_undo_of_a_skip_shows_the_trace_again(store: SqliteTraceStore) -> None:
    desk = sit_down(store)
    first = desk.next()
    assert first is not None
    desk.skip(first.trace.id)
    assert desk.next() != first
    assert desk.undo() == first.trace.id
    assert desk.next() == first


def test_nobody_may_sign_as_the_labeler(store: SqliteTraceStore) -> None:
    with pytest.raises(UserError, match="give another --author"):
        sit_down(store, LABELER)


def test_suggestions_are_written_for_the_rest_and_for_people_never(
    store: SqliteTraceStore,
) -> None:
    store.add_labels(label(name, TRUTH[name]) for name in list(TRUTH)[:16])
    labeler, _ = teach(store, pool_of(store), seed=0)
    made = suggest_labels(store, labeler, where="", minimum_confidence=0.5)
    assert (made.good + made.bad, made.unsure) == (24, 0)
    suggested = list(store.labels(suggestions=True))
    assert {one.episode_id for one in suggested} == set(list(TRUTH)[16:])
    assert all(one.value == TRUTH[one.episode_id] for one in suggested)
    assert mean_by_author(store.labels()) == {name: TRUTH[name] for name in list(TRUTH)[:16]}
    suggest_labels(store, labeler, where="", minimum_confidence=0.5)
    assert len(list(store.labels(suggestions=True))) == 24  # the same is not written twice


def test_what_is_not_sure_enough_is_left_alone(store: SqliteTraceStore) -> None:
    store.add_labels(label(name, TRUTH[name]) for name in list(TRUTH)[:16])
    labeler, _ = teach(store, pool_of(store), seed=0)
    made = suggest_labels(store, labeler, where="", minimum_confidence=0.9999)
    assert (made.good, made.bad, made.unsure) == (0, 0, 24)
    assert list(store.labels(suggestions=True)) == []


def test_a_labeler_is_not_taught_by_suggestions(store: SqliteTraceStore) -> None:
    store.add_labels(label(name, TRUTH[name], author=LABELER, is_suggestion=True) for name in TRUTH)
    with pytest.raises(UserError, match="0 good and 0 bad"):
        teach(store, pool_of(store), seed=0)


def test_the_report_counts_and_compares(store: SqliteTraceStore) -> None:
    names = list(TRUTH)
    store.add_labels(label(name, TRUTH[name]) for name in names[:20])
    store.add_labels(label(name, 1.0, author="bob") for name in names[:10])
    store.add_labels([label("t30", 1.0, author=LABELER, is_suggestion=True), label("t30", 0.0)])
    store.add_labels([label("t31", 1.0), label("t31", 0.0, author=LABELER, is_suggestion=True)])
    report = report_labels(store, pool_of(store), seed=0)
    # Five that Ann calls bad Bob calls good: in the middle, which counts as good.
    assert (report.good, report.bad, report.unlabelled) == (16, 6, 18)
    assert report.authors == {"ann": 22, "bob": 10}
    assert report.suggestions == 2
    assert report.people["ann and bob"].agreed == 0.5
    # The suggestion that came after the person's word is not held against anyone.
    assert (report.suggested.n, report.suggested.agreed) == (1, 0.0)
    assert report.labeler is not None
    assert report.labeler.n == 22
    assert report.calibration is not None
    assert sum(count for _, _, count in report.calibration.bins) == 22


def test_a_report_of_few_labels_has_no_labeler(store: SqliteTraceStore) -> None:
    report = report_labels(store, pool_of(store), seed=0)
    assert (report.labeler, report.calibration, report.suggested.n) == (None, None, 0)


async def test_with_the_local_model_from_labels_to_reward(
    store: SqliteTraceStore, tmp_path: Path
) -> None:
    store.add_labels(label(name, TRUTH[name]) for name in list(TRUTH)[:16])
    pool = read_pool(store, where="", size=10, seed=0, embedder=load_embedder("tiny"))
    labeler, _ = teach(store, pool, seed=0)
    assert labeler.embedder_model == "tiny"
    save_labeler(labeler, tmp_path / "labeler")
    part = LearnedComponent(labeler=str(tmp_path / "labeler"), minimum_confidence=0.5)
    reward = REWARDS.for_traces(RewardConfig(components=(part,)))
    task, outcome = Task(id="t", env="test", split="train"), Outcome(success=None)
    values = [(await reward.score(task, trace, outcome)).value for trace in TRACES[20:24]]
    assert [value is not None and value > 0.5 for value in values] == [True, False, True, False]


async def test_a_config_names_the_labeler_as_a_component(
    store: SqliteTraceStore, tmp_path: Path
) -> None:
    store.add_labels(label(name, TRUTH[name]) for name in list(TRUTH)[:16])
    labeler, _ = teach(store, pool_of(store), seed=0)
    save_labeler(labeler, tmp_path / "labeler")
    part = {"name": "learned", "labeler": str(tmp_path / "labeler"), "weight": 0.5}
    config = build_config({"env": {"name": "math"}, "reward": {"components": [part]}})
    reward = REWARDS.reward(config.reward, open_environment(config.env))
    task = Task(id="t", env="math", split="train")
    score = await reward.score(task, TRACES[20], Outcome(success=None))
    [said] = labeler.predict_traces([TRACES[20]])
    assert score.components == {"learned": pytest.approx(said.probability)}
    assert score.value == pytest.approx(0.5 * said.probability)
