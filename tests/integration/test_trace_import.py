"""`practicum traces` as it is typed, and imports that are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.store.trace_store import SqliteTraceStore

REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples" / "traces"
COMMAND = [sys.executable, "-m", "practicum.cli.main", "traces"]


def write_chats(path: Path, count: int, bad: int = 0) -> None:
    with path.open("w") as file:
        for number in range(count):
            said = [
                {"role": "user", "content": f"question {number} " + "word " * 40},
                {"role": "assistant", "content": f"answer {number} " + "word " * 80},
            ]
            row = {"messages": said, "reward": number % 3, "label": number % 2}
            file.write(json.dumps(row) + "\n")
            if bad and number % bad == 0:
                file.write("{broken\n")


def contents(path: Path) -> list[tuple[Episode, list[Any]]]:
    with SqliteTraceStore(path, read_only=True) as store:
        assert store._query("PRAGMA integrity_check") == [("ok",)]
        return [(episode, list(store.labels(episode.trace.id))) for episode in store.query()]


@pytest.mark.rare
@pytest.mark.slow
def test_an_import_killed_at_any_commit_loses_and_doubles_nothing(tmp_path: Path) -> None:
    file, stores, whole = tmp_path / "chats.jsonl", tmp_path / "stores", tmp_path / "whole.sqlite"
    write_chats(file, 300, bad=50)
    stores.mkdir()
    script = Path(__file__).parent / "import_kills.py"
    done = subprocess.run(
        [sys.executable, str(script), str(file), str(stores)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 14, "seven commits: the tables, five batches and the end"
    subprocess.run([*COMMAND, "import", str(file), "--store", str(whole)], capture_output=True)
    expected = contents(whole)
    assert len(expected) == 300
    found = sorted(stores.glob("*.sqlite"))
    assert len(found) >= int(done.stdout)
    for store in found:
        assert contents(store) == expected, store.name


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.6])
def test_an_import_killed_by_a_signal_goes_on(share: float, tmp_path: Path) -> None:
    file, store, whole = (tmp_path / name for name in ("chats.jsonl", "a.sqlite", "b.sqlite"))
    count = 4000
    write_chats(file, count)
    command = [*COMMAND, "import", str(file), "--store", str(store)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 300
        while stored(store) < count * share and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, "it was still importing"
    assert count * share <= stored(store) < count
    for path in (store, whole):
        subprocess.run(
            [*COMMAND, "import", str(file), "--store", str(path)], check=True, capture_output=True
        )
    assert contents(store) == contents(whole)
    assert stored(store) == count


def stored(path: Path) -> int:
    """How many episodes there are, none while the file is still being made."""
    try:
        with SqliteTraceStore(path, read_only=True) as store:
            return store.count()
    except UserError:
        return 0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_import_list_show_score_export(practicum: Callable[..., Any], here: Path) -> None:
    done = practicum("traces", "import", EXAMPLES / "openai_chat.jsonl")
    assert done.code == 0
    assert "openai_chat.jsonl: openai-chat" in done.err
    assert done.out == "3 episodes imported into traces.sqlite\n"
    listed = practicum("traces", "list", "--where", "success", "--json")
    page = json.loads(listed.out)
    assert (page["count"], page["next_after"]) == (1, None)
    assert page["episodes"][0]["id"] == "chat-1"
    assert page["episodes"][0]["label"] == 1.0
    first = json.loads(practicum("traces", "list", "--n", "2", "--json").out)
    rest = json.loads(practicum("traces", "list", "--after", first["next_after"], "--json").out)
    assert len(first["episodes"]) + len(rest["episodes"]) == 3
    assert "chat-1" in practicum("traces", "list").out
    shown = practicum("traces", "show", "chat-1").out
    assert 'calls bash {"script": "ls /var/log/app | wc -l"}' in shown
    assert "label 1 by openai-chat" in shown
    assert (
        json.loads(practicum("traces", "show", "chat-1", "--json").out)["trace"]["id"] == "chat-1"
    )
    counts = json.loads(practicum("traces", "list", "--count-by", "success", "--json").out)
    assert {row["value"]: row["count"] for row in counts["counts"]} == {True: 1, False: 1, None: 1}
    scored = practicum("traces", "score", "correct=2", "--json")
    assert (scored.code, json.loads(scored.out)["mean"]) == (0, pytest.approx((2 - 0.5 + 0) / 3))
    assert practicum("traces", "export", "all.jsonl", "--where", "score = 2").code == 0
    assert len((here / "all.jsonl").read_text().splitlines()) == 1
    again = practicum("traces", "import", "all.jsonl", "--json")
    assert json.loads(again.out)["already_there"] == 1


def test_the_reward_may_come_from_a_config(practicum: Callable[..., Any], here: Path) -> None:
    practicum("traces", "import", EXAMPLES / "toolbox_trace.json")
    config = here / "mine.yaml"
    config.write_text("reward:\n  components:\n    - {name: tool_success, weight: 2.0}\n")
    done = practicum("traces", "score", "--reward", "mine.yaml", "--json")
    assert json.loads(done.out)["mean"] == 1.0, "one of two calls, with weight 2"
    config.write_text("env: math\n")
    done = practicum("traces", "score", "--reward", "mine.yaml")
    assert (done.code, "has no key 'reward'" in done.sentence) == (2, True)


def test_bad_lines_end_with_exit_code_one_and_a_count(
    practicum: Callable[..., Any], here: Path
) -> None:
    write_chats(here / "chats.jsonl", 3, bad=2)
    done = practicum("traces", "import", "chats.jsonl")
    assert done.code == 1
    assert "chats.jsonl, line 2: it is not JSON" in done.err
    assert done.out == "3 episodes imported into traces.sqlite; 2 could not be read\n"
    report = json.loads(practicum("traces", "import", "chats.jsonl", "--json").out)
    assert (report["kept"], report["already_there"], report["refused"]) == (0, 3, 2)
    assert [problem["line"] for problem in report["problems"]] == [2, 5]


def test_secrets_are_counted_and_kept_only_when_asked(
    practicum: Callable[..., Any], here: Path
) -> None:
    key = "ghp_" + "aB3dE5fG7h" * 4
    row = {"messages": [{"role": "user", "content": key}, {"role": "assistant", "content": "ok"}]}
    (here / "a.jsonl").write_text(json.dumps(row))
    done = practicum("traces", "import", "a.jsonl")
    assert "secrets taken out: 2 github-token" in done.out
    done = practicum("traces", "import", "a.jsonl", "--keep-secrets", "--store", "raw.sqlite")
    assert "secrets" not in done.out
    ident = json.loads(practicum("traces", "list", "--store", "raw.sqlite", "--json").out)
    shown = practicum("traces", "show", ident["episodes"][0]["id"], "--store", "raw.sqlite").out
    assert key in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("list",), "there is no trace store traces.sqlite; make one with practicum traces import"),
        (("import", "nowhere.jsonl"), "nowhere.jsonl does not exist; give a file or a folder"),
        (
            ("import", "a.jsonl", "--format", "xml"),
            "--format 'xml' is not known; known are openai-",
        ),
        (("import", "odd.json"), "the format of odd.json is not recognised"),
        (("import", "store.sqlite"), "store.sqlite is a trace store itself"),
        (("show", "nobody", "--store", "store.sqlite"), "has no episode 'nobody'"),
        (("list", "--store", "store.sqlite", "--where", "colour = 1"), "there is no such field"),
        (("list", "--store", "store.sqlite", "--count-by", "score"), "not by 'score'"),
        (("list", "--store", "odd.json"), "odd.json is not a trace database"),
        (("export", "x.csv", "--store", "store.sqlite"), "x.csv does not say what to write"),
        (("export", "x", "--to", "csv", "--store", "store.sqlite"), "--to 'csv' is not known"),
        (("score", "--reward", "magic", "--store", "store.sqlite"), "magic"),
        (("score", "--reward", "no.yaml", "--store", "store.sqlite"), "there is no config file"),
        (("score", "corect=1", "--store", "store.sqlite"), "did you mean 'reward.correct'?"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_two(
    words: tuple[str, ...], sentence: str, practicum: Callable[..., Any], here: Path
) -> None:
    (here / "a.jsonl").write_text("{}")
    (here / "odd.json").write_text('{"colour": 1}' + " " * 2000)
    SqliteTraceStore(here / "store.sqlite").close()
    done = practicum("traces", *words)
    assert done.code == 2
    assert sentence in done.sentence


def test_the_store_of_a_run_is_named_by_its_folder(
    practicum: Callable[..., Any], here: Path
) -> None:
    practicum("traces", "import", EXAMPLES / "practicum.jsonl", "--store", "given.sqlite")
    (rollout, _), _ = contents(here / "given.sqlite")
    (here / "runs" / "r").mkdir(parents=True)
    with SqliteTraceStore(here / "runs" / "r" / "traces.sqlite") as store:
        store.begin_attempt(1, 0)
        store.add(rollout, attempt=1, step=1, purpose="train")
    page = json.loads(practicum("traces", "list", "--store", "runs/r", "--json").out)
    assert [(row["id"], row["step"]) for row in page["episodes"]] == [("math-7-a", 1)]
    assert practicum("traces", "export", "r.jsonl", "--store", "runs/r").code == 0
    assert practicum("traces", "import", "r.jsonl").code == 0
    assert contents(here / "traces.sqlite") == [(rollout, [])]


@pytest.mark.rare
@pytest.mark.slow
def test_the_folder_is_loaded_by_datasets(practicum: Callable[..., Any], here: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("datasets")
    practicum("traces", "import", EXAMPLES)
    assert practicum("traces", "export", "dataset").code == 0
    program = (
        "import datasets\n"
        "rows = datasets.load_dataset('dataset', split='train')\n"
        "print(len(rows), sorted(set(rows['source'])), rows[0]['messages'][0]['role'])\n"
    )
    environment = {**os.environ, "HF_HOME": str(here / "hf"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("18 ['', 'art', 'lifelong'")
    assert done.stdout.endswith("system\n")


@pytest.mark.rare
@pytest.mark.slow
def test_the_benchmark_measures_time_and_memory() -> None:
    script = REPOSITORY / "benchmarks" / "import_traces.py"
    command = [sys.executable, str(script), "--sizes", "100", "600", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(done.stdout)
    assert [row["traces"] for row in found["rows"]] == [100, 600]
    assert found["shortfalls"] == [], "six times the traces take no more memory"
    assert done.returncode == 0
