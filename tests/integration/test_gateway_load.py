"""The gateway under load, by its own benchmark at a small size. Nothing here is timed."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Message, Node, SampledSpan, Trace
from practicum.store.trace_store import SqliteTraceStore

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SIZES = ("--rollouts=8", "--seconds=4", "--rounds=1", "--at-once", "1", "4", "--max-tokens=12")
pytestmark = pytest.mark.rare
DIALECTS = {"/v1/chat/completions", "/v1/responses", "/v1/messages"}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What the benchmark says; memory and times are not judged at this size."""
    answer = subprocess.run(
        [sys.executable, "gateway.py", *SIZES, "--grow=1e9", "--bar=1e9", "--json"],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert answer.stdout, answer.stderr
    report: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    assert report["problems"] == []
    assert answer.returncode == 0
    return report


def test_no_token_is_lost_or_mixed_up_and_closed_rollouts_are_let_go(found: dict[str, Any]) -> None:
    load = found["load"]
    assert load["compared_tokens"] == load["tokens"] > 100
    assert load["requests"] > 16
    assert (load["lost"], load["mixed"], load["branched"], load["retokenised"]) == (0, 0, 0, 0)
    assert (load["still_held"], load["rows_left"], load["errors"]) == (0, 0, [])
    assert [mark["part"] for mark in load["memory"]["marks"]] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_killed_clients_leave_nothing_in_the_engine(found: dict[str, Any]) -> None:
    trouble = found["load"]["trouble"]
    assert trouble["killed_rows_left"] == 0
    assert {one["path"] for one in trouble["killed"]} == DIALECTS
    for one in trouble["killed"]:
        assert one["heard"] > 0  # it was killed after its first event
        assert (one["under_way"], one["turns"]) == (0, 0)


def test_slow_readers_do_not_hold_their_own_sampling_up(found: dict[str, Any]) -> None:
    for one in found["load"]["trouble"]["slow"]:
        assert 0 < one["read"] < 10
        assert one["under_way"] == 0
        assert one["tokens"] > 0


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("body of 10 MB", 413, "longer than"),
        ("wrong key", 401, "key"),
        ("no key", 401, "key"),
        ("prompt too long", 400, "context"),
        ("invalid JSON", 400, "not JSON"),
        ("unknown parameter", 400, "no_such_parameter"),
    ],
)
def test_wrong_requests_are_answered_in_each_dialects_shape_under_load(
    found: dict[str, Any], name: str, status: int, words: str
) -> None:
    seen = [one for one in found["load"]["trouble"]["refused"] if one["name"] == name]
    assert {one["path"] for one in seen} == DIALECTS
    assert len(seen) == 6  # each streamed and not
    for one in seen:
        assert (one["status"], one["shaped"]) == (status, True)
        assert words in one["sentence"]


def test_another_models_name_is_answered_by_the_model_that_is_there(found: dict[str, Any]) -> None:
    names = found["load"]["trouble"]["other_names"]
    assert {one["path"] for one in names["answers"]} == DIALECTS
    assert {(one["status"], one["model"]) for one in names["answers"]} == {(200, "tiny")}
    assert names["looked_up"] == 404


def test_the_same_requests_are_asked_of_the_engine_and_of_the_gateway(
    found: dict[str, Any],
) -> None:
    rows = [(row["at_once"], row["stream"], row["requests"]) for row in found["overhead"]]
    assert rows == [(1, False, 4), (1, True, 4), (4, False, 16), (4, True, 16)]


def test_lost_and_mixed_tokens_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    compare: Any = runpy.run_path(str(BENCHMARKS / "gateway_checks.py"))["compare_with_store"]
    said = Message(role="assistant", content="x")
    span = SampledSpan(
        logprobs=(-1.0, -1.0), loss_mask=(True, True), temperature=1.0, fingerprint="f"
    )
    nodes = (
        Node(parent=None, messages=(Message(role="user", content="q"),), token_ids=(1, 2)),
        Node(parent=0, messages=(said,), token_ids=(3, 4), sampled=span, duration_s=0.2),
        Node(parent=1, messages=(said,), token_ids=(5, 6), sampled=span, duration_s=0.3),
    )
    trace = Trace(id="gateway/r", task_id="r", env="gateway", nodes=nodes)
    episode = Episode(trace=trace, outcome=None, score=Score.unscored("none"))
    store, records = tmp_path / "s.sqlite", tmp_path / "r.jsonl"
    with SqliteTraceStore(store) as traces:
        traces.add_imported([episode])

    def counts(*turns: dict[str, Any], rollout: str = "r") -> tuple[int, int, int]:
        records.write_text(json.dumps({"rollout": rollout, "turns": turns}))
        got = compare(records, store)
        return got["compared_tokens"], got["lost"], got["mixed"]

    first = {"prompt": [1, 2], "ids": [3, 4], "took_s": 0.21}
    second = {"prompt": [1, 2, 3, 4], "ids": [5, 6], "took_s": 0.33}
    assert counts(first, second) == (4, 0, 0)
    assert compare(records, store)["beyond_engine_ms"]["p50"] == pytest.approx(20.0)
    assert counts({**first, "ids": [3, 5]}, second) == (2, 1, 1)
    assert counts({**first, "prompt": [1, 9]}, second) == (2, 1, 1)
    assert counts(first, first) == (2, 1, 1)
    assert counts() == (0, 0, 2)
    assert counts(first, rollout="unknown") == (0, 1, 0)
