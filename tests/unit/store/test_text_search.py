"""Looking for words in stored episodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.core.trace import Message, ToolCall, Trace, recorded_nodes
from practicum.store.text_search import search_text
from practicum.store.trace_store import SqliteTraceStore


def episode(name: str, said: str, **evidence: str) -> Episode:
    call = ToolCall(name="bash", arguments={"command": f"echo {name}"})
    messages = [
        Message(role="user", content="list the files"),
        Message(role="assistant", content=said, tool_calls=(call,)),
    ]
    trace = Trace(id=name, task_id=f"task-{name}", env="shell", nodes=recorded_nodes(messages))
    outcome = Outcome(success=True, evidence=dict(evidence))
    return Episode(trace=trace, outcome=outcome, score=Score(components={"solved": 1.0}))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteTraceStore]:
    with SqliteTraceStore(tmp_path / "traces.sqlite") as opened:
        for step, name in enumerate(("one", "two", "three"), start=1):
            said = f'It says "{name}" — ÄRGER\\n'
            one = episode(name, said, stdout=f"out of {name}")
            opened.add(one, attempt=1, step=step, purpose="train")
        yield opened


def found(store: SqliteTraceStore, text: str, where: str = "") -> list[int]:
    return [hit.row for hit in search_text(store, text, where=where, seconds=600).hits]


def test_words_are_found_whatever_their_case_the_newest_first(store: SqliteTraceStore) -> None:
    assert found(store, "IT SAYS") == [3, 2, 1]
    assert found(store, "ärger") == [3, 2, 1]
    assert found(store, 'says "two" — Ärger\\n') == [2]


def test_calls_their_arguments_and_the_evidence_are_looked_through(store: SqliteTraceStore) -> None:
    assert found(store, "echo three") == [3]
    assert found(store, "out of one") == [1]


def test_names_of_fields_are_not_what_was_said(store: SqliteTraceStore) -> None:
    assert found(store, "token_ids") == []
    assert found(store, "loss_mask") == []


def test_a_condition_holds_as_well(store: SqliteTraceStore) -> None:
    assert found(store, "says", "step > 1") == [3, 2]


def test_a_search_that_ends_early_says_where_to_go_on(store: SqliteTraceStore) -> None:
    first = search_text(store, "says", limit=1, seconds=600)
    assert ([hit.row for hit in first.hits], first.before, first.looked_at) == ([3], 3, 1)
    out_of_time = search_text(store, "echo one", before=first.before, seconds=-1)
    assert (out_of_time.hits, out_of_time.before) == ([], 2)
    last = search_text(store, "echo one", before=2, seconds=600)
    assert ([hit.row for hit in last.hits], last.before) == ([1], None)


def test_an_excerpt_is_the_place_where_it_is_said(store: SqliteTraceStore) -> None:
    long = episode("long", "a" * 500 + " needle " + "b" * 500)
    store.add(long, attempt=1, step=9, purpose="train")
    (hit,) = search_text(store, "needle", seconds=600).hits
    assert hit.excerpt.startswith("…a")
    assert " needle " in hit.excerpt
    assert len(hit.excerpt) < 200
