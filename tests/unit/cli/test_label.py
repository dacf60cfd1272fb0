import json
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.unit.rewards.learned.talks import mixed_talks, said, talk, user
from typer.testing import CliRunner, Result

from practicum.cli.label import label
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.store.trace_store import SqliteTraceStore

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(label)

TRACES, TRUTH = mixed_talks(30, seed=0)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "traces.sqlite"
    with SqliteTraceStore(path) as opened:
        score, outcome = Score(components={"outcome": 0.125}), Outcome(success=True)
        opened.add_imported([Episode(trace=t, outcome=outcome, score=score) for t in TRACES])
    return path


def run_label(store: Path, *options: str, typed: str = "") -> Result:
    words = ["--store", str(store), "--author", "ann", *options]
    result = CliRunner().invoke(app, words, input=typed, catch_exceptions=False)
    assert result.exit_code == 0
    return result


def as_json(store: Path, *options: str, typed: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_label(store, *options, "--json", typed=typed).stdout)
    return found


def answers_by_id(folder: Path, count: int) -> Path:
    path = folder / "answers.txt"
    words = {1.0: "good", 0.0: "bad"}
    path.write_text("".join(f"{name} {words[TRUTH[name]]}\n" for name in list(TRUTH)[:count]))
    return path


def test_a_sitting_without_a_terminal(store: Path) -> None:
    shown = run_label(store, "--order", "oldest", typed="g\nnote odd\nb\ns\nq\n").stdout
    assert "t0" in shown
    assert "→ bash" in shown
    assert "2 labelled (1 good, 1 bad), 1 skipped, 27 left" in shown
    with SqliteTraceStore(store, read_only=True) as opened:
        kept = [(one.episode_id, one.value, one.author, one.note) for one in opened.labels()]
    assert kept == [("t0", 1.0, "ann", ""), ("t1", 0.0, "ann", "odd")]


def test_a_later_sitting_goes_on(store: Path) -> None:
    run_label(store, "--order", "oldest", typed="g\nb\n")
    assert as_json(store, "--order", "oldest", typed="g\nb\n")["left"] == 26


def test_neither_score_nor_suggestion_is_shown_before_the_answer(
    store: Path, tmp_path: Path
) -> None:
    run_label(store, "--answers", str(answers_by_id(tmp_path, 16)))
    run_label(store, "--auto")
    before = run_label(store, typed="").stdout
    assert "0.125" not in before
    assert "success" not in before
    assert "labeler" not in before
    after = run_label(store, typed="g\n").stdout
    assert "the labeler" in after


def test_undo_takes_the_last_answer_back(store: Path) -> None:
    found = as_json(store, "--order", "oldest", typed="g\nu\nb\nu\nu\n")
    assert (found["labelled"], found["left"]) == (0, 30)


def test_so_many_labels_and_no_more(store: Path) -> None:
    assert as_json(store, "--n", "2", typed="g\ns\nb\ng\n")["labelled"] == 2


def test_labels_then_report_then_suggestions_then_a_saved_labeler(
    store: Path, tmp_path: Path
) -> None:
    taught = as_json(store, "--answers", str(answers_by_id(tmp_path, 20)))
    assert (taught["labelled"], taught["good"]) == (20, 10)
    report = as_json(store, "--report")
    assert (report["good"], report["bad"], report["unlabelled"]) == (10, 10, 10)
    assert report["labeler"]["n"] == 20
    assert report["labeler"]["low"] <= report["labeler"]["kappa"] <= report["labeler"]["high"]
    assert set(report["calibration"]) == {"error", "by_chance", "brier", "bins"}
    made = as_json(store, "--auto", "--save", str(tmp_path / "labeler"))
    assert made["labels"] == 20
    assert made["suggested"]["good"] == made["suggested"]["bad"] == 5
    assert (tmp_path / "labeler" / "labeler.json").is_file()
    assert as_json(store, "--report")["good"] == 10  # suggestions are nobody's labels
    text = run_label(store, "--report").stdout
    assert "20 episodes labelled by people: 10 good, 10 bad; 10 not" in text
    assert "kappa" in text
    assert "calibration error" in text


def test_control_characters_in_a_trace_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    nasty = talk("nasty", user("go\x1b[2J"), said("done\x07\x1b]0;title\x07", "ls \x1b[31m"))
    with SqliteTraceStore(path) as opened:
        score = Score(components={"outcome": 0.0})
        opened.add_imported([Episode(trace=nasty, outcome=None, score=score)])
    shown = run_label(path, typed="q\n").stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_long_messages_are_shortened_unless_asked_for_whole(tmp_path: Path) -> None:
    path = tmp_path / "traces.sqlite"
    long = talk("long", user("go"), said("\n".join(f"line {index}" for index in range(100))))
    with SqliteTraceStore(path) as opened:
        score = Score(components={"outcome": 0.0})
        opened.add_imported([Episode(trace=long, outcome=None, score=score)])
    short = run_label(path, typed="q\n").stdout
    assert "88 lines" in short
    assert "line 99" in short
    assert "line 50" not in short
    assert "line 50" in run_label(path, "--whole", typed="q\n").stdout


def test_a_runs_folder_is_a_store_too(store: Path) -> None:
    assert as_json(store.parent, typed="q\n")["left"] == 30


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--order", "best"], "uncertain, random, oldest"),
        (["--where", "env = moon"], "no episodes"),
        (["--auto"], "0 good and 0 bad"),
        (["--answers", "nowhere.txt"], "cannot be read"),
        (["--author", "labeler"], "another --author"),
    ],
)
def test_mistakes_are_one_sentence(store: Path, options: list[str], reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        CliRunner().invoke(app, ["--store", str(store), *options], catch_exceptions=False)


def test_a_store_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="practicum traces import FILE"):
        CliRunner().invoke(app, ["--store", str(tmp_path / "no.sqlite")], catch_exceptions=False)


def test_answers_with_an_id_that_is_not_there_are_refused_whole(
    store: Path, tmp_path: Path
) -> None:
    file = answers_by_id(tmp_path, 4)
    file.write_text(file.read_text() + "nowhere good\n")
    with pytest.raises(UserError, match=r"no episode 'nowhere'; nothing was labelled"):
        CliRunner().invoke(
            app, ["--store", str(store), "--answers", str(file)], catch_exceptions=False
        )
    assert as_json(store, "--report")["unlabelled"] == 30
