"""Whole runs of the tiny model on rewards of several components, with and without a judge."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.rewards.judge.judges import shown_to
from tests.unit.rewards.judge.server import answering, completion

from practicum.core.trace import Message
from practicum.store.events import read_metrics
from practicum.store.run_dir import find_run
from practicum.store.trace_store import SqliteTraceStore

COMPONENTS = (
    "reward.components=[{name: outcome}, {name: efficiency, turns: 4, only_successful: false, "
    "weight: 0.2}, {name: format}, {name: repetition, weight: 0.1}]"
)


@pytest.mark.parametrize("combine", ["sum", "normalise"])
def test_each_component_is_logged(practicum, runs_dir: Path, tiny_run, combine: str) -> None:
    words = (COMPONENTS, f"reward.combine={combine}", f"runs_dir={runs_dir}", "--name", "x")
    answer = practicum("train", *tiny_run, *words)
    assert answer.code == 0, answer.err
    run = find_run("x", runs_dir)
    for row in read_metrics(run.metrics_path).rows:
        if row.kind == "step":
            for label in ("outcome", "efficiency", "format", "repetition"):
                assert isinstance(row.values[f"reward_{label}"], float)
            assert row.values["reward_format"] == 1.0
            assert row.values.get("decides_format", 0.0) == 0.0  # the same for all
            assert row.values["response_tokens"] > 0
    with SqliteTraceStore(run.traces_path, read_only=True) as traces:
        episodes = list(traces.episodes(purpose="train"))
    weights = {episode.score.weights["efficiency"] for episode in episodes}
    assert weights == {0.2} if combine == "sum" else weights != {0.2}
    assert practicum("runs", run.path).code == 0


def prefers_short(asked: dict[str, Any]) -> tuple[int, str]:
    """Judges by length: the shortest attempt is best."""
    messages = [Message(role=m["role"], content=m["content"]) for m in asked["messages"]]
    lengths = {name: len(text) for name, text in shown_to(messages).items()}
    longest = max(lengths.values())
    scores = {name: round(1 - length / (2 * longest), 3) for name, length in lengths.items()}
    return 200, completion(f"My verdict: {json.dumps({'scores': scores})}")


def test_a_judge_scores_whole_groups_and_its_word_is_kept(
    practicum, runs_dir: Path, tiny_run
) -> None:
    with answering(prefers_short) as (url, asked):
        judge = f"{{name: judge, model: m, endpoint: '{url}', repeats: 2, weight: 0.5}}"
        words = (f"reward.components=[outcome, {judge}]", f"runs_dir={runs_dir}", "--name", "x")
        answer = practicum("train", *tiny_run, *words)
    assert answer.code == 0, answer.err
    run = find_run("x", runs_dir)
    steps = [row for row in read_metrics(run.metrics_path).rows if row.kind == "step"]
    assert all(0.0 < row.values["reward_judge"] < 1.0 for row in steps)
    assert all(row.values["reward_judge_spread"] == 0.0 for row in steps)
    assert all(row.values["unscored_episodes"] == 0 for row in steps)
    lines = (run.path / "judgements.jsonl").read_text().splitlines()
    assert len(lines) == len(asked)  # one call for each round of each group, all of them logged
    cost = [json.loads(line) for line in lines]
    assert {(one["calls"], one["prompt_tokens"]) for one in cost} == {(1, 7)}
    with SqliteTraceStore(run.traces_path, read_only=True) as traces:
        for episode in traces.episodes(purpose="train"):
            assert episode.score.components["judge"] is not None
            assert "judge: " in episode.score.reason


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        ("[outcom]", "there is no component 'outcom'"),
        ("['no_such_module_here:f']", "no_such_module_here"),
        (
            "[{name: judge, model: m, endpoint: 'http://x/v1', key_variable: NO_SUCH_KEY}]",
            "export NO_SUCH_KEY=",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_is_made(
    practicum, runs_dir: Path, tiny_run, reward: str, sentence: str
) -> None:
    answer = practicum("train", *tiny_run, f"reward.components={reward}", f"runs_dir={runs_dir}")
    assert answer.code == 2
    assert sentence in answer.sentence
    assert not runs_dir.exists() or not any(runs_dir.iterdir())
