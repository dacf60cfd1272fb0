"""Shell tasks on real machines, from the command line to a training step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine

from practicum.store.run_dir import RunDir


@pytest.fixture(scope="module", autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")


def entry(number: int, check: str, solution: str, setup: str = "mkdir /w") -> dict[str, Any]:
    def item(script: str) -> dict[str, str]:
        return {"command_name": "bash", "script": script}

    return {
        "sample_index": number,
        "instruction": f"Do piece {number} of the work in /w.",
        "initialization_command_item": item(setup),
        "evaluation_info": {
            "evaluation_command_item": item(check),
            "ground_truth_command_item": item(solution),
        },
        "skill_list": ["touch"],
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of a user: sound tasks of several kinds."""
    rows = [
        entry(0, "test -e /w/a", "touch /w/a"),
        entry(1, "id ada && test $(stat -c %U /w) = ada", "useradd ada && chown ada /w"),
        entry(2, "kill -0 $(cat /w/pid)", "sleep 100 & echo $! > /w/pid"),
        entry(3, 'grep -qx "ab" /w/f', "printf 'a' >> /w/f; printf 'b\\n' >> /w/f"),
    ]
    path = tmp_path / "entry_dict.json"
    path.write_text(json.dumps({str(n): row for n, row in enumerate(rows)}))
    return path


def test_all_tasks_of_a_users_file_are_checked(practicum: Callable[..., Any], data: Path) -> None:
    answer = practicum("tasks", "shell", "--data", data, "--check", "all", "--json")
    assert answer.code == 0, answer.err
    (level,) = json.loads(answer.out)["levels"]
    assert (level["n"], level["reference_solved"], level["do_nothing_paid"]) == (4, 4, 0)


def test_a_task_that_nothing_solves_and_one_that_cannot_be_set_up_are_named(
    practicum: Callable[..., Any], data: Path
) -> None:
    rows = json.loads(data.read_text())
    rows["4"] = entry(4, "test -e /w/b", "touch /w/a")
    rows["5"] = entry(5, "true", "true", setup="echo no luck >&2; exit 3")
    rows["6"] = entry(6, "true", "true")
    data.write_text(json.dumps(rows))
    answer = practicum("tasks", "shell", "--data", data, "--check", "all")
    assert answer.code == 1
    said = " ".join(answer.out.split())
    assert "reference 5/7, do-nothing 1/7" in said
    assert "task 'lab-4': the reference does not solve it" in said
    assert "task 'lab-5': the task could not be set up (ok, exit code 3): no luck" in said
    assert "task 'lab-6': doing nothing earns something" in said


def test_generated_tasks_are_sound(practicum: Callable[..., Any]) -> None:
    answer = practicum("tasks", "shell", "--level", 2, "--check", 2)
    assert answer.code == 0, answer.out
    said = " ".join(answer.out.split())
    assert "level 2: reference 2/2, do-nothing 0/2, near-miss 0/2" in said


@pytest.mark.parametrize("protocol", ["text", "tools"])
def test_the_reference_can_be_watched(practicum: Callable[..., Any], protocol: str) -> None:
    task = "gen-heldout-L2-s0-0"
    answer = practicum("play", "shell", "--task", task, f"env.protocol={protocol}")
    assert answer.code == 0, answer.out
    assert "solved, total reward 1" in answer.out
    assert "sandbox bubblewrap" in answer.out or "sandbox landlock" in answer.out


def test_a_person_can_play(
    practicum: Callable[..., Any], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter(["ls -d /w", "touch /w/a", "finish"])
    monkeypatch.setattr("builtins.input", lambda *_: next(lines))
    words = ("--policy", "human", "--task", "lab-0", f"env.data={data}")
    answer = practicum("play", "shell", *words)
    assert answer.code == 0, answer.err
    assert "The output of the OS:" in answer.out
    assert "solved, total reward 1" in answer.out


def test_a_run_trains_in_sandboxes_and_says_which(
    practicum: Callable[..., Any], runs_dir: Path
) -> None:
    words = ("shell", "model=tiny", "steps=1", "rollouts.tasks_per_step=1", "rollouts.group_size=2")
    limits = ("rollouts.max_turns=1", "rollouts.max_tokens=8", "eval.n=1", "hardware.threads=1")
    answer = practicum("train", *words, *limits, f"runs_dir={runs_dir}", "--name", "one")
    assert answer.code == 0, answer.err
    (attempt,) = RunDir(runs_dir / "one").facts().attempts
    assert attempt.sandbox in ("bubblewrap", "landlock")
    assert f"its commands run in sandboxes of kind {attempt.sandbox}" in answer.err


def test_the_reference_evaluates_to_full_marks(practicum: Callable[..., Any]) -> None:
    words = ("--env", "shell", "env.level=[1,2]", "--n", 4, "--json")
    answer = practicum("eval", "reference", *words)
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)["report"]
    assert report["success"]["value"] == 1.0
    assert report["reward"]["value"] == 1.0


PLANTED = """
mkdir -p /usr/local/bin /usr/local/sbin
for name in test grep bash python3 stat; do
  printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/$name; chmod 755 /usr/local/bin/$name
done
echo 'exit 0' > /etc/profile; echo 'exit 0' > ~/.bashrc
echo 'export PATH=/usr/local/bin' >> /etc/environment
d=$(python3 -c 'import sys; print(sys.prefix)')/lib/python3/dist-packages
mkdir -p $d; echo 'import os; os._exit(0)' > $d/sitecustomize.py
"""


@pytest.mark.parametrize("kind", ["script", "state"])
async def test_what_the_policy_plants_does_not_change_a_verdict(kind: str) -> None:
    from practicum.assemble.environments import open_environment
    from practicum.core.config.config_sections import EnvConfig
    from practicum.core.task import Task

    state = {"kind": "state", "assertions": [{"kind": "absent", "path": "/w"}]}
    script = {"kind": "script", "script": "test ! -e /w && grep -q x /etc/hostname-x"}
    task = Task(
        id="one",
        env="shell",
        split="train",
        instruction="?",
        data={
            "source": "test",
            "setup": "mkdir /w",
            "reference": "rmdir /w",
            "check": state if kind == "state" else script,  # type: ignore[dict-item]
        },
    )
    environment: Any = open_environment(EnvConfig(name="shell"))
    try:
        async with environment.open(task) as session:
            await session.act(environment.turn_from_line(PLANTED))
            outcome = await session.outcome()
    finally:
        await environment.close()
    assert outcome.success is False
