"""Traces to KTO to export, publish, serve, feedback, learn and rollback, without a hub.

The model is known by SmolLM2's two names and has the tiny model's weights. Whoever would look up or
call another machine is caught, in every process.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.serve_site import serve_process

from practicum.engine.models.tiny import save_tiny
from practicum.store.served_versions import find_served

NAME, HUB_ID = "smollm2-135m", "HuggingFaceTB/SmolLM2-135M-Instruct"
EXAMPLES = Path(__file__).parents[2] / "examples"
AGREE = {"x-practicum-record": "yes"}

WATCHED = """
import os, sys

def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        where = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
        host = where[0] if isinstance(where, tuple) else where
        if host not in ("127.0.0.1", "localhost", "::1", None) and not str(host).startswith("/"):
            with open(os.environ["PRACTICUM_TEST_CALLS"], "a") as calls:
                calls.write(f"{event} {host!r} {sys.argv[:3]}\\n")
            raise OSError("no network in this test")

sys.addaudithook(note)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine that has the model, and no hub; nobody asked for one at the end."""
    calls = tmp_path / "calls"
    calls.touch()
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(WATCHED)
    monkeypatch.setenv("PRACTICUM_TEST_CALLS", str(calls))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hook"))
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    model = tmp_path / "cache" / "models" / NAME
    save_tiny(model)
    record = {"name": NAME, "source": "a test", "sha256": []}
    (model / "practicum.json").write_text(json.dumps(record))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    before = os.umask(0)
    yield work
    os.umask(before)
    assert calls.read_text() == ""


def run(*words: object) -> str:
    """What a command prints; a process of its own, as the hub's client reads its settings once."""
    done = subprocess.run(
        [sys.executable, "-m", "practicum.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def use(folder: Path, *asked: str) -> None:
    """Serve what is published and its base, chat with consent, and say what is thought of it."""
    words = ("served/shop", "--record", "traffic.sqlite", "--max-tokens", 4)
    with serve_process(folder, *words) as served, served.client() as client:
        for name in (NAME, HUB_ID):
            body = {"model": name, "messages": [{"role": "user", "content": "hello"}]}
            assert client.post("/v1/chat/completions", json=body).json()["model"] == NAME
        for number, words_said in enumerate(asked):
            body = {"model": "shop", "messages": [{"role": "user", "content": words_said}]}
            answer = client.post("/v1/chat/completions", json=body, headers=AGREE)
            assert answer.headers["x-practicum-recorded"] == "yes"
            thumbs = {"id": answer.json()["id"], "thumbs": "up" if number % 2 else "down"}
            assert client.post("/feedback", json=thumbs).status_code == 200
        assert "X-Practicum-Record: yes" in served.said.read_text()
        assert open_to_others(folder) == []  # the store's -wal and -shm are there now


def open_to_others(folder: Path) -> list[str]:
    """Files with people's words that others may read; the umask allows everything."""
    stores = [p for p in folder.rglob("*") if ".sqlite" in p.name or p.suffix == ".jsonl"]
    said = [p for p in stores if p.name not in ("metrics.jsonl", "events.jsonl", "history.jsonl")]
    kept = [p for p in folder.rglob("*") if p.name in ("data", ".traffic", "stage_1")]
    assert said
    return [str(p) for p in [*said, *kept] if p.stat().st_mode & 0o077]


def learn(name: str) -> dict[str, Any]:
    words = ("learn", "--from", "traffic.sqlite", "--model", "served/shop", "--env", "math")
    settings = ("steps=1", "env.level=1", "rollouts.max_turns=2", "rollouts.max_tokens=4")
    told: dict[str, Any] = json.loads(
        run(*words, "--n", 2, *settings, "--name", name, "--json", "algorithm.batch=4")
    )
    return told


def test_whoever_asks_another_machine_is_caught(here: Path) -> None:
    calls = Path(os.environ["PRACTICUM_TEST_CALLS"])
    asks = "import socket; socket.getaddrinfo('huggingface.co', 443)"
    done = subprocess.run([sys.executable, "-c", asks], stderr=subprocess.PIPE, check=False)
    assert b"no network in this test" in done.stderr
    assert "huggingface.co" in calls.read_text()
    calls.write_text("")


@pytest.mark.slow
@pytest.mark.rare
def test_from_traces_to_rollback_by_either_name(here: Path) -> None:
    # A file to learn from, the model by one name, and on by the other.
    data = ("algorithm=kto", f"data.source={here}/traces.sqlite", "algorithm.batch=4", "data.n=16")
    imports = (f"data.imports=[{EXAMPLES / 'algebra_traces.jsonl'}]", "data.heldout=0.2")
    run("train", *data, *imports, f"model={HUB_ID}", "steps=1", "--name", "kto")
    run("train", "--resume", "runs/kto", f"model={NAME}", "steps=2")
    run("eval", HUB_ID, "--env", "math", "--n", 1, "rollouts.max_tokens=2", "rollouts.max_turns=1")
    # Out, to another folder, and back in as a version; the same weights as the run's.
    run("export", "runs/kto", "--to", "adapter", "exported", "--n", 1)
    shutil.move(here / "exported", here / "elsewhere")
    run("served", "publish", "shop", "runs/kto")
    run("served", "publish", "shop", "elsewhere")
    # A stranger's folder, of which nothing says what it is.
    shutil.copytree(here / "elsewhere", here / "theirs")
    for name in ("export_results.json", "README.md"):
        (here / "theirs" / name).unlink()
    run("served", "publish", "shop", "theirs")
    served = find_served("shop")
    versions = [served.version(number) for number in ("1", "2", "3")]
    assert len({one.fingerprint for one in versions}) == 1
    assert versions[0].fingerprint.count("+") == 1
    assert {one.base for one in versions} == {NAME}
    # Served, talked to, judged, learned from, published, gone back from.
    use(here, *(f"question {number} of many" for number in range(8)))
    told = learn("learned")
    assert told["labels"] == {"good": 4, "bad": 4, "corrections": 0}
    assert told["left_out"] == {}
    before = served.current.sha256
    run("served", "publish", "shop", "runs/learned")
    assert served.current.sha256 != before
    assert f"sha256 {before}" in run("served", "rollback", "shop")
    assert open_to_others(here) == []


def test_an_export_that_cannot_be_is_refused_before_anything_is_loaded(
    practicum: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def loaded(*words: object, **options: object) -> None:
        raise AssertionError("it was loaded")

    monkeypatch.setattr("practicum.workflows.exports.load_model", loaded)
    for kind in ("gguf", "ollama", "lora-gguf"):
        words = ("export", "tiny", "--env", "math", "--to", "adapter", "--to", kind)
        sentence = practicum(*words).sentence
        assert "tiny has random weights" in sentence
        assert "leaves no .gguf file; export it with --to merged" in sentence
    assert list(tmp_path.glob("exports/*")) == []
    plan = practicum("train", "math", "model=tiny", "--dry-run")
    assert "tiny has random weights" in plan.out
    assert "leaves no .gguf file" not in practicum("train", "math", "--dry-run").out
