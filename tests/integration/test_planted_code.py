"""A stranger's config, run folder, adapter and model folder: nothing of theirs runs unasked."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import practicum as pr
from practicum.cli.main import main
from practicum.core.trusted_code import VARIABLE

PLANTED = """
from pathlib import Path
Path({mark!r}).touch()
import practicum as pr

class Env:
    name, all_levels = "planted", (1,)
    class Options(pr.ConfigModel):
        pass
    def __init__(self, options): pass
    def tasks(self, split, seed):
        yield pr.Task(id="a", env="planted", split=split, instruction="?")
    def open(self, task): raise NotImplementedError

def rows():
    return [{{"id": "a", "prompt": "?", "answer": "b"}}]

def act(task, client): return 1.0
def score(task, trace, outcome): return 1.0
def judge(messages): return "1"
"""


class Stranger:
    """A folder that came from somewhere, with a file that leaves a mark when it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "mark"
        self.code = folder / "planted.py"
        self.code.write_text(PLANTED.format(mark=str(self.mark)))

    def config(self, values: dict[str, Any]) -> str:
        path = self.folder / "downloaded.yaml"
        path.write_text(yaml.safe_dump({"model": "tiny", "steps": 1, **values}))
        return str(path)


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stranger]:
    (tmp_path / "here").mkdir()
    folder = tmp_path / "here" / "downloaded"
    folder.mkdir()
    monkeypatch.chdir(tmp_path / "here")  # the stranger's folder lies inside the current one
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("PRACTICUM_TRUST_FILE", str(tmp_path / "trusted"))
    before = set(sys.modules)
    yield Stranger(folder)
    for name in set(sys.modules) - before:
        if "planted" in name:
            del sys.modules[name]


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and all output of a command, typed in this process."""
    kept, sys.argv = sys.argv, ["practicum", *words]
    try:
        main()
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    else:
        code = 0
    finally:
        sys.argv = kept
    told = capsys.readouterr()
    return code, told.out + told.err


NAMED: dict[str, dict[str, Any]] = {
    "env": {"env": "planted.py:Env"},
    "env by module": {"env": "planted:Env"},
    "rows": {"env": {"name": "tasks", "data": "planted.py:rows"}},
    "rows of an installed module": {"env": {"name": "tasks", "data": "http.server:test"}},
    "agent": {"env": "math", "agent": "planted.py:act"},
    "command": {"env": "math", "agent": {"name": "command", "command": ["sh", "-c", "{mark}"]}},
    "scoring command": {
        "env": "math",
        "agent": {"name": "command", "command": ["true"], "score": ["sh", "-c", "{mark}"]},
    },
    "reward": {"env": "math", "reward": "planted.py:score"},
    "judge": {
        "env": "math",
        "reward": {"components": [{"name": "judge", "model": "planted.py:judge"}]},
    },
    "examples": {"algorithm": "sft", "data": "planted.py:rows"},
    "served": {"env": {"name": "remote", "serve": "planted.py:Env"}},
    "served rows": {
        "env": {"name": "remote", "serve": "tasks", "options": {"data": "planted.py:rows"}}
    },
}
"""Every place in a config that can name code."""


def with_mark(values: Any, mark: Path) -> Any:
    return json.loads(json.dumps(values).replace("{mark}", f"touch {mark}"))


@pytest.mark.parametrize("where", NAMED)
@pytest.mark.parametrize(
    "words", [("train", "{}"), ("train", "{}", "--dry-run"), ("doctor", "--config", "{}")]
)
def test_a_config_of_a_stranger_runs_nothing_of_theirs(
    where: str, words: tuple[str, ...], stranger: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    config = stranger.config(with_mark(NAMED[where], stranger.mark))
    code, told = typed(capsys, *(word.format(config) for word in words))
    assert not stranger.mark.exists()
    assert "Traceback" not in told
    if words == ("train", "{}"):
        assert (code, "practicum trust" in told) == (2, True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    run = pr.train(
        "math", model="tiny", steps=1, name="theirs", runs_dir=str(folder), quiet=True,
        rollouts={"tasks_per_step": 1, "group_size": 2, "max_turns": 1}, eval={"n": 1},
    )  # fmt: skip
    return Path(run.path)


RUN_VERBS = [
    ("eval", "{run}", "--n", "1"),
    ("eval", "{run}/step_1", "--n", "1"),
    ("play", "math", "--policy", "{run}"),
    ("train", "--resume", "{run}", "steps=2"),
    ("train", "--resume", "{run}", "--dry-run", "steps=2"),
    ("train", "--resume", "{run}/step_1", "steps=2"),
    ("export", "{run}", "--n", "1"),
    ("export", "{run}", "--to", "adapter", "--n", "1"),
    ("push", "{run}", "--to", "me/model", "--dry-run", "--n", "1"),
    ("serve", "{run}", "--port", "0"),
    ("runs", "{run}"),
    ("learn", "--from", "{run}/traces.sqlite"),
    ("traces", "list", "--store", "{run}"),
    ("traces", "score", "--store", "{run}"),
    ("watch", "{run}", "--once"),
    ("compare", "{run}", "{run}"),
    ("served", "publish", "mine", "{run}"),
    ("dataset", "build", "--kind", "kto", "--from", "{run}", "--out", "rows"),
]


@pytest.mark.slow
@pytest.mark.parametrize("words", RUN_VERBS, ids=" ".join)
def test_a_run_of_a_stranger_runs_nothing_of_theirs(
    words: tuple[str, ...], stranger: Stranger, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stranger.folder / "theirs"
    shutil.copytree(trained, run)
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["env"] = {"name": f"{stranger.code}:Env"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    code, told = typed(capsys, *(word.format(run=run) for word in words))
    assert not stranger.mark.exists(), told
    assert "Traceback" not in told
    assert code == 0 or "practicum trust" in told or words[0] == "learn", told


@pytest.mark.slow
def test_the_gateway_serves_a_run_of_a_stranger_and_runs_nothing_of_theirs(
    stranger: Stranger, trained: Path
) -> None:
    run = stranger.folder / "theirs"
    shutil.copytree(trained, run)
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["env"] = {"name": f"{stranger.code}:Env"}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    words = [sys.executable, "-m", "practicum", "gateway", str(run), "--port", "0"]
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(words, text=True, **told) as process:
        assert process.stdout is not None
        said = ""
        while "http://" not in said and process.poll() is None:
            said += process.stdout.readline()
        process.kill()
    assert not stranger.mark.exists(), said
    assert "http://" in said or "practicum trust" in said, said


def test_a_variable_is_sent_nowhere_before_the_user_agrees(
    stranger: Stranger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "s3cret")
    judge = {"name": "judge", "model": "m", "key_variable": "MY_SECRET"}

    def config(endpoint: str) -> str:
        reward = {"components": [{**judge, "endpoint": endpoint}]}
        return stranger.config({"env": "math", "reward": reward, "eval": {"n": 0}})

    first = config("http://127.0.0.1:9/v1")
    code, told = typed(capsys, "train", first)
    assert (code, "MY_SECRET to http://127.0.0.1:9/v1" in told) == (2, True)
    assert typed(capsys, "trust", first)[0] == 0
    assert "not checked" not in typed(capsys, "train", first, "--dry-run")[1]
    elsewhere = typed(capsys, "train", config("http://127.0.0.1:7/v1"), "--dry-run")[1]
    assert "not checked" in elsewhere
    assert "s3cret" not in told + elsewhere


def test_a_consent_is_asked_once_and_again_when_the_code_has_changed(
    stranger: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    config = stranger.config({"env": "planted.py:Env", "eval": {"n": 0}})
    assert typed(capsys, "trust", str(stranger.code))[0] == 0
    code, told = typed(capsys, "train", config, "--dry-run")
    assert (code, stranger.mark.exists(), "not checked" in told) == (0, True, False)
    stranger.mark.unlink()
    stranger.code.write_text(stranger.code.read_text() + "\n# and more\n")
    for name in [name for name in sys.modules if "planted" in name]:
        del sys.modules[name]
    assert "not checked" in typed(capsys, "train", config, "--dry-run")[1]
    assert not stranger.mark.exists()


def test_what_the_user_types_is_their_consent_and_is_remembered(
    stranger: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(capsys, "train", f"{stranger.code}:Env", "model=tiny", "eval.n=0", "--dry-run")
    assert stranger.mark.exists()
    config = stranger.config({"env": "planted.py:Env", "eval": {"n": 0}})
    assert "not checked" not in typed(capsys, "train", config, "--dry-run")[1]
