"""A stranger's config, run folder, adapter and model folder: nothing of theirs runs unasked."""

import io
import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.integration.planted_by_strangers import THINGS, Stranger, takes_text, verbs
from typer.main import get_command

import practicum as pr
from practicum.cli.main import app, main
from practicum.core.trusted_code import SENT, VARIABLE


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
    run = stranger.run(trained)
    code, told = typed(capsys, *(word.format(run=run) for word in words))
    assert not stranger.mark.exists(), told
    assert "Traceback" not in told
    assert code == 0 or "practicum trust" in told or words[0] == "learn", told


VERBS = dict(verbs(get_command(app)))
"""Every verb, from the command line itself: a new one is looked at without a line here."""
CONSENT = ("trust",)
"""The verb that agrees."""
INSTALLS = (("agents", "install"), ("models", "pull"), ("sandbox", "build"))
"""Verbs that fetch what the user names from a registry; none takes a folder or a file of a run."""
USUAL = {
    "env": "math",
    "name": "other",
    "kind": "kto",
    "out": "out",
    "to": "me/model",
    "version": "1",
    "episode_id": "1",
    "tag": "other",
    "folder": "{own}",
    "from": "{own}",
    "policy": "{own}",
    "source": "{own}",
    "first": "{own}",
    "models": "{own}",
    "paths": "{own}",
}
"""What a verb is told that needs it, where something else is the stranger's."""
QUICK = {
    ("watch",): ("--once",),
    ("train",): ("steps=1", "eval.n=0"),
    ("push",): ("--dry-run",),
    ("learn",): ("--kind", "kto"),
}


def commands_of(path: tuple[str, ...]) -> Iterator[list[str]]:
    """A verb's words, once for each name or place that it takes, with `{thing}` in that one."""
    options = VERBS[path].params
    always = [*QUICK.get(path, ())]
    for name, value in (("--n", "1"), ("--port", "0")):
        always += [name, value] if any(name in one.opts for one in options) else []
    for chosen in filter(takes_text, options):
        words = [*path]
        for one in options:
            value = "{thing}" if one is chosen else USUAL.get(one.opts[-1].lstrip("-"), "")
            assert value or not one.required, f"write in USUAL what {one.opts} of {path} may be"
            if one is chosen or one.required:
                is_option = one.param_type_name == "option"
                words += [one.opts[0], value] if is_option else [value]
        yield [*words, *always]


def served(words: list[str]) -> str:
    """What a server says until it answers or ends."""
    command = [sys.executable, "-m", "practicum", *words]
    piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, **piped) as process:
        assert process.stdout is not None
        said = ""
        while "http://" not in said and (line := process.stdout.readline()):
            said += line
        process.kill()
    return said


READING = [path for path in VERBS if path != CONSENT and path not in INSTALLS]


def is_server(path: tuple[str, ...]) -> bool:
    """Whether a verb answers requests until it is stopped; each takes seconds to start."""
    return any("--port" in one.opts for one in VERBS[path].params)


TRIED = [pytest.param(path, marks=pytest.mark.rare if is_server(path) else ()) for path in READING]


def of_kind(thing: str) -> Any:
    """A run is tried with every verb; what else a stranger may send, among the rare tests."""
    return pytest.param(thing, marks=pytest.mark.slow if thing == "run" else pytest.mark.rare)


@pytest.mark.parametrize("thing", [*map(of_kind, THINGS)])
@pytest.mark.parametrize("path", TRIED, ids=lambda given: " ".join(given))
def test_no_verb_runs_what_a_stranger_sent(
    path: tuple[str, ...],
    thing: str,
    stranger: Stranger,
    trained: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = THINGS[thing](stranger, trained)
    shutil.copytree(trained, "own")
    monkeypatch.setattr("sys.stdin", io.StringIO())
    for words in commands_of(path):
        given = [word.format(thing=theirs, own="own") for word in words]
        told = served(given) if is_server(path) else typed(capsys, *given)[1]
        assert not stranger.mark.exists(), (given, told)
        assert "Traceback" not in told, (given, told)


def test_every_verb_that_may_read_a_strangers_is_tried() -> None:
    assert {path[0] for path in READING} >= {"eval", "gateway", "traces", "watch", "compare"}
    assert all(one in VERBS for one in (CONSENT, *INSTALLS))
    tried = {word for path in READING for words in commands_of(path) for word in words}
    assert tried >= {"--store", "--against", "--resume", "--policy", "--keys", "{thing}"}


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


SENDS: dict[str, dict[str, Any]] = {
    "judge": {
        "env": "math",
        "reward": {
            "components": [
                {"name": "judge", "model": "m", "endpoint": "{at}", "key_variable": "MY_SECRET"}
            ]
        },
    },
    "colleague": {"env": {"name": "office", "colleague_endpoint": "{at}", "colleague_model": "m"}},
    "colleague by name": {
        "env": {"name": "office", "colleague_endpoint": "{at}", "colleague_key_env": "MY_SECRET"}
    },
    "served colleague": {
        "env": {"name": "remote", "serve": "office", "options": {"colleague_endpoint": "{at}"}}
    },
    "a part's colleague": {
        "env": [{"name": "math"}, {"name": "office", "colleague_endpoint": "{at}"}]
    },
    "environment server": {"env": {"name": "remote", "url": "{at}"}},
    "any file as its key": {"env": {"name": "remote", "url": "{at}", "key_file": "/etc/hostname"}},
    "replicas": {"env": "math", "sampler": {"kind": "practicum", "urls": ["{at}"], "folder": "f"}},
    "any file as the replicas' key": {
        "env": "math",
        "sampler": {
            "kind": "practicum", "urls": ["{at}"], "folder": "f", "key_file": "/etc/hostname",
        },
    },
    "teacher": {"env": "math", "algorithm": {"name": "distill", "teacher": "{at}"}},
}  # fmt: skip
"""Every place in a config from where a secret of the user's goes to an address."""
VARIABLES = ("MY_SECRET", "OPENAI_API_KEY", *(one for _, _, one in SENT if one))


class Listener:
    """An address of a stranger's, which keeps all that is sent to it."""

    def __init__(self) -> None:
        self.heard = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):  # closed
            while True:
                line, _ = self._socket.accept()
                with line, suppress(OSError):
                    self.heard += line.recv(65_536)
                    line.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def elsewhere() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.mark.slow
@pytest.mark.parametrize("where", SENDS)
def test_no_place_in_a_config_sends_a_secret_unasked(
    where: str,
    stranger: Stranger,
    elsewhere: Listener,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, f"s3cret-{name}")
    values = json.loads(json.dumps(SENDS[where]).replace("{at}", elsewhere.address))
    config = stranger.config({**values, "eval": {"n": 0}})
    code, told = typed(capsys, "train", config)
    assert (code, f" to {elsewhere.address}" in told) == (2, True), told
    assert "practicum trust CONFIG" in told
    assert elsewhere.heard == b""
    assert "s3cret" not in told
    assert typed(capsys, "trust", config)[0] == 0  # and then it is not asked again
    assert "practicum trust" not in typed(capsys, "train", config, "--dry-run")[1]


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
