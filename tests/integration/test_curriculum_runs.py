"""Whole runs with a curriculum, on the tiny model: killed and resumed, and shown."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

pytestmark = pytest.mark.slow

SETTINGS = (
    "env.level=[1, 2, 3]",
    "model=tiny",
    "steps=5",
    "warm_start=none",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=3",
    "rollouts.max_turns=3",
    "rollouts.temperature=1.2",
    "eval.n=2",
    "eval.before=false",
    "checkpoints.every=1",
    "checkpoints.keep=9",
    "hardware.threads=1",
)
KILLED = """
import os, signal, sys
from practicum.cli.main import main
from practicum.training import loop

save = loop.save

def save_and_die(*parts, **how):
    saved = save(*parts, **how)
    if saved.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return saved

loop.save = save_and_die
sys.argv = ["practicum", *sys.argv[1:]]
main()
"""
"""The command line, killed as soon as step 3 is saved."""


NO_REFERENCE = """
from contextlib import asynccontextmanager

from practicum import ActionForm, ConfigModel, Message, Observation, Outcome, Task


class Session:
    def prompt(self):
        return [Message(role="user", content="go")]

    def actions(self):
        return (ActionForm(name="left"), ActionForm(name="right"))

    async def act(self, text):
        return Observation(message=Message(role="user", content="."), reward=1.0, terminated=True)

    async def outcome(self):
        return Outcome(success=True, turn_rewards=(1.0,))


class Own:
    name = "own"
    all_levels = (1,)

    class Options(ConfigModel):
        pass

    def __init__(self, options):
        self.options = options

    def tasks(self, split, seed):
        return iter([Task(id=f"{split}-{n}", env="own", split=split) for n in range(4)])

    @asynccontextmanager
    async def open(self, task):
        yield Session()

    def reference(self, task):
        return ()
"""


def adapter(run: Path) -> bytes:
    return (run / "checkpoints" / "step_5" / "adapter_model.safetensors").read_bytes()


def state(run: Path) -> str:
    return (run / "checkpoints" / "step_5" / "state.json").read_text().partition('"totals"')[0]


def episodes(run: Path) -> list[tuple[str, object]]:
    with SqliteTraceStore(RunDir(run).traces_path, read_only=True) as store:
        return [(e.trace.id, e.score) for e in store.episodes(purpose="train")]


def metrics(run: Path) -> list[dict[str, Any]]:
    rows = read_metrics(RunDir(run).metrics_path).rows
    return [dict(row.values) for row in rows if row.kind == "step"]


def killed_and_whole(
    tmp_path: Path, practicum: Callable[..., Any], *settings: str
) -> tuple[Path, Path]:
    """A run, and the same killed after step 3 and resumed; both end with the same bytes."""
    words = ["train", "math", *SETTINGS, *settings, f"runs_dir={tmp_path}"]
    assert practicum(*words, "--name", "whole").code == 0
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *words, "--name", "killed"],
        capture_output=True,
        check=False,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert killed.returncode == -9, killed.stderr[-2000:]
    assert practicum("train", "--resume", tmp_path / "killed").code == 0
    whole, resumed = tmp_path / "whole", tmp_path / "killed"
    assert RunDir(resumed).facts().attempts[-1].from_step == 3
    assert adapter(resumed) == adapter(whole)
    assert state(resumed) == state(whole)
    assert episodes(resumed) == episodes(whole)
    return whole, resumed


@pytest.mark.rare
@pytest.mark.parametrize("curriculum", ["adaptive", "phases"])
def test_a_killed_run_draws_the_same_tasks_and_ends_with_the_same_bytes(
    tmp_path: Path, practicum: Callable[..., Any], curriculum: str
) -> None:
    whole, resumed = killed_and_whole(tmp_path, practicum, f"curriculum={curriculum}")
    kept = [
        {k: v for k, v in row.items() if k.startswith(("mastery", "draws", "phase"))}
        for row in metrics(whole)
    ]
    assert all(any(key.startswith("mastery_level_") for key in row) for row in kept)
    assert kept == [{k: row.get(k) for k in kept[n]} for n, row in enumerate(metrics(resumed))]
    assert ("phase" in kept[-1]) == (curriculum == "phases")
    shown = practicum("runs", tmp_path / "whole")
    assert "mastery" in shown.out
    assert "level 1" in shown.out


def test_a_curriculum_that_cannot_be_is_one_sentence_and_makes_no_run(
    tmp_path: Path, practicum: Callable[..., Any]
) -> None:
    answer = practicum(
        "train", "math", "env.level=1", "model=tiny", "curriculum=phases", f"runs_dir={tmp_path}"
    )
    assert answer.code == 2
    assert "needs at least two levels" in answer.sentence
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rare
@pytest.mark.parametrize("staleness", [0, 1])
def test_a_killed_run_gives_the_same_jump_starts(
    tmp_path: Path, practicum: Callable[..., Any], staleness: int
) -> None:
    words = (
        "env.level=1",
        "rollouts.jump_start=true",
        "rollouts.max_turns=8",
        f"rollouts.staleness={staleness}",
    )
    if staleness:  # what is sampled beside an update hangs on the machine's pace
        run = practicum(
            "train", "math", *SETTINGS, *words, f"runs_dir={tmp_path}", "--name", "whole"
        )
        assert run.code == 0, run.err
        whole = tmp_path / "whole"
    else:
        whole, _ = killed_and_whole(tmp_path, practicum, *words)
    rows = metrics(whole)
    assert rows[0].get("jump_started_groups") is None
    assert rows[-1]["jump_started_groups"] > 0
    assert rows[-1]["given_turns"] > 0
    assert "kinds" in json.loads(state(whole).rstrip().rstrip(",") + "}")["curriculum"]
    with SqliteTraceStore(RunDir(whole).traces_path, read_only=True) as store:
        helped = [e for e in store.episodes(purpose="train") if e.given_turns]
        assert helped
        assert all(e.trace.has_logprobs for e in helped)
        assert not any(e.given_turns for e in store.episodes(purpose="eval"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("own.py:Own",), "has none for its tasks"),
        (
            ("math", "agent.name=command", "agent.command=[cat, x]"),
            "plays a reference's turns to the built-in agent",
        ),
    ],
)
def test_jump_starts_that_cannot_be_are_one_sentence_and_make_no_run(
    tmp_path: Path,
    practicum: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(NO_REFERENCE)
    answer = practicum("train", *words, "model=tiny", "rollouts.jump_start=true", "eval.n=0")
    assert answer.code == 2, answer.err
    assert said in answer.sentence
    assert not Path("runs").exists()
