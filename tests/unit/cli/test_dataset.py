"""`practicum dataset build`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.traces.datasets.made import make_episode
from typer.testing import CliRunner

from practicum.cli.dataset import app
from practicum.core.errors import UserError
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.datasets.dataset_reading import read_examples
from practicum.traces.datasets.dataset_writing import read_manifest


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Ten tasks, each answered well and badly."""
    path = tmp_path / "traces.sqlite"
    with SqliteTraceStore(path) as traces:
        for task in range(10):
            for good in (True, False):
                episode = make_episode(
                    f"{task}-{good}",
                    f"{good} q{task}",
                    task=f"task{task} of{task} kind{task}",
                    success=good,
                    score=float(good),
                )
                traces.add(episode, attempt=1, step=0, purpose="import")
    return path


def run(*words: str, exit_code: int = 0) -> str:
    result = CliRunner().invoke(app, ["build", *words], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result.stdout


def report(*words: str, exit_code: int = 0) -> dict[str, Any]:
    values = json.loads(run(*words, "--json", exit_code=exit_code))
    assert isinstance(values, dict)
    return values


def test_figures_are_printed_and_the_dataset_is_written(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "kto"
    printed = run("--kind", "kto", "--from", str(store), "--heldout", "0.2", "--out", str(out))
    assert "train: 16 rows, 16 answers, 8 tasks" in printed
    assert "good: 8, together weighing 8" in printed
    assert "heldout: 4 rows, 4 answers, 2 tasks" in printed
    assert f"written: {out}" in printed.replace("\n", "")
    assert len(list(read_examples(out / "train.jsonl"))) == 16


def test_the_question_is_in_the_manifest(store: Path, tmp_path: Path) -> None:
    out = tmp_path / "d"
    values = report(
        "--kind", "dpo", "--from", str(store), "--where", "score >= 0", "--margin", "0.5",
        "--out", str(out),
    )  # fmt: skip
    assert values == {"out": str(out), **read_manifest(out)}
    asked = values["question"]
    assert (asked["kind"], asked["where"], asked["margin"]) == ("dpo", "score >= 0", 0.5)
    assert "out" not in asked
    assert values["files"]["train.jsonl"]["rows"] == 10


def test_what_was_left_out_is_said_with_the_reason(store: Path, tmp_path: Path) -> None:
    printed = run("--kind", "sft", "--from", str(store), "--out", str(tmp_path / "sft.jsonl"))
    assert "left out: 10" in printed
    assert "10  it is not a good one (0-False)" in printed


def test_nothing_left_is_a_failure_and_writes_nothing(store: Path, tmp_path: Path) -> None:
    words = ("--kind", "dpo", "--from", str(store), "--where", "success")
    out = tmp_path / "d"
    values = report(*words, "--out", str(out), exit_code=1)
    assert values["out"] is None
    (reason,) = values["statistics"]["left_out"]["reasons"]
    assert "no other is invented" in reason
    assert not out.exists()
    assert "nothing was written" in run(*words, "--out", str(out), exit_code=1)


def test_reference_solutions(tmp_path: Path) -> None:
    out = tmp_path / "math.jsonl"
    words = ("--kind", "sft", "--from", "reference", "--env", "math", "--n", "3", "--out", str(out))
    assert report(*words, "--set", "level=2")["files"]["math.jsonl"]["rows"] == 3
    assert all("math-2" in example.task_id for example in read_examples(out))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--kind", "ppo", "--from", "x.jsonl"), "--kind 'ppo' is not known; choose sft, kto"),
        (("--kind", "sft", "--from", "x.jsonl", "--format", "csv"), "--format 'csv' is not known"),
        (("--kind", "sft", "--from", "x.jsonl", "--env", "math"), "go with --from reference"),
        (("--kind", "sft", "--from", "reference"), "add --env math"),
        (("--kind", "kto", "--from", "x.jsonl", "--weight-by", "score"), "goes with --kind sft"),
    ],
)
def test_a_mistake_is_a_sentence(words: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=reason):
        run(*words, "--out", str(tmp_path / "d"))


def test_help_teaches_with_examples_and_lists_every_option() -> None:
    text = run("--help")
    assert "practicum dataset build --kind kto --from traces.sqlite" in " ".join(text.split())
    for option in ("--kind", "--from", "--where", "--balance", "--near", "--heldout", "--json"):
        assert option in text
