"""Whole runs through the command line, on the tiny model."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from practicum.analysis.evaluations import read_evaluations
from practicum.store.checkpoints import CheckpointStore
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir, find_run
from practicum.store.trace_store import SqliteTraceStore


def test_a_run_leaves_everything_it_promises(practicum, runs_dir: Path, tiny_run) -> None:
    answer = practicum("train", *tiny_run, f"runs_dir={runs_dir}", "--name", "x")
    assert answer.code == 0, answer.err
    assert "difference" in answer.out
    run = find_run("x", runs_dir)
    rows = read_metrics(run.metrics_path).rows
    assert [(r.kind, r.step) for r in rows] == [("eval", 0), ("step", 1), ("step", 2), ("eval", 2)]
    step = rows[1].values
    for name in ("reward", "success", "flat_share", "masked_episodes", "entropy", "clip_share"):
        assert step[name] is not None
    for name in ("kl_to_base", "grad_norm", "logprob_gap", "fingerprint", "loss"):
        assert step[name] is not None
    saved = {path.name for path in (run.checkpoints_path / "step_2").iterdir()}
    assert saved == {
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
        "chat_template.jinja",
        "manifest.json",
        "optimizer.safetensors",
        "random.safetensors",
        "state.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "training_stats.json",
    }
    with SqliteTraceStore(run.traces_path, read_only=True) as traces:
        episodes = list(traces.episodes(purpose="train"))
    assert len(episodes) == sum(r.values["episodes"] for r in rows if r.kind == "step")
    facts = run.facts()
    assert facts.attempts[0].threads == 1
    assert facts.attempts[0].device == "cpu"


def test_held_out_episodes_are_kept_and_never_learned_from(
    practicum, runs_dir: Path, tmp_path: Path, tiny_run
) -> None:
    words = (f"runs_dir={runs_dir}", "--name", "x", "eval.k=2", "eval.temperature=1.0")
    assert practicum("train", *tiny_run, *words).code == 0
    run = find_run("x", runs_dir)
    assert practicum("train", "--resume", run.path).code == 0  # there is nothing left to do
    with SqliteTraceStore(run.traces_path, read_only=True) as store:
        trained = store.count_where("purpose = train")
        for step in (0, 2):
            report = read_evaluations(run)[step]
            kept = list(store.episodes(step=step, purpose="eval"))
            rewards = [reward for task in report.tasks for reward in task.rewards]
            assert [episode.score.value for episode in kept] == rewards
            assert [e.trace.task_id for e in kept[::2]] == [task.task_id for task in report.tasks]
            found = [store.task(e.trace.env, e.trace.task_id) for e in kept]
            assert {task.split for task in found if task is not None} == {"heldout"}
        names = [summary.id for summary in store.summaries()]
    assert len(set(names)) == len(names) == trained + 16
    stats = json.loads((run.checkpoints_path / "step_2" / "training_stats.json").read_text())
    assert stats["totals"]["episodes"] == trained

    listed = practicum("traces", "list", "--store", run.path, "--json", "--where", "purpose = eval")
    rows = json.loads(listed.out)["episodes"]
    assert [row["step"] for row in rows] == [0] * 8 + [2] * 8
    shown = practicum("traces", "show", rows[-1]["id"], "--store", run.path)
    assert (shown.code, rows[-1]["task_id"] in shown.out) == (0, True)
    assert "eval step 2" in practicum("runs", run.path).out
    out = tmp_path / "all.jsonl"
    assert (
        "16 of them are evaluations" in practicum("traces", "export", out, "--store", run.path).out
    )
    # Neither from the store, nor by way of a file that has forgotten what they were made for.
    assert practicum("traces", "import", out, "--store", tmp_path / "back.sqlite").code == 0
    for source in (run.path, tmp_path / "back.sqlite"):
        folder = tmp_path / f"built from {source.name}"
        options = ("--kind", "sft", "--only", "all", "--out", folder, "--json")
        built = json.loads(practicum("dataset", "build", "--from", source, *options).out)
        reasons = built["statistics"]["left_out"]["reasons"]
        assert reasons["its task is held out for evaluations"] == 16


def test_text_written_freely_is_parsed_and_trained_on(practicum, runs_dir: Path, tiny_run) -> None:
    words = ("env.actions=free", "rollouts.max_tokens=6", f"runs_dir={runs_dir}", "--name", "x")
    assert practicum("train", *tiny_run, *words).code == 0
    rows = read_metrics(find_run("x", runs_dir).metrics_path).rows
    assert all(r.values["reward"] is not None for r in rows if r.kind == "step")
    assert max(r.values.get("largest_gap") or 0 for r in rows) < 1e-4


@pytest.mark.parametrize(
    "settings",
    [
        ("lora=attention",),
        ("lora=light", "algorithm.kl=0.1"),
        ("algorithm.epochs=2", "algorithm.credit=episode"),
        ("env.level=3", "rollouts.top_p=0.9", "rollouts.top_k=5", "rollouts.temperature=0.7"),
        ("rollouts.replace_flat_groups=0", "algorithm.scale=none", "algorithm.discount=0.9"),
    ],
)
def test_every_setting_trains(practicum, runs_dir: Path, tiny_run, settings) -> None:
    answer = practicum("train", *tiny_run, *settings, f"runs_dir={runs_dir}", "--name", "x")
    assert answer.code == 0, answer.err
    rows = read_metrics(find_run("x", runs_dir).metrics_path).rows
    assert [r.step for r in rows if r.kind == "step"] == [1, 2]


ONLINE = ("grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "reinforce++", "ppo")


def test_one_run_goes_through_every_method(practicum, runs_dir: Path, tiny_run) -> None:
    """A step of each, all on the same weights: what one leaves the next one goes on from."""
    stages: list[dict[str, object]] = [{"steps": 1, "algorithm": name} for name in ONLINE]
    stages += [
        {"steps": 1, "algorithm": {"name": "grpo", "kl": 0.1, "kl_in": "reward"}},
        {"steps": 1, "algorithm": {"name": "ppo", "entropy": 0.01, "gae": "token", "kl": 0.1}},
        {"steps": 1, "algorithm": {"name": "distill", "teacher": "tiny", "reward_coef": 0.5}},
    ]
    data = {"source": "reference", "n": 4}
    stages += [
        {"steps": 1, "algorithm": {"name": name, "batch": 2}, "data": data}
        for name in ("sft", "weighted_sft", "kto")
    ]
    words = [word for word in tiny_run if not word.startswith(("steps=", "eval.n="))]
    words += [f"stages={json.dumps(stages)}", "eval.n=1", f"runs_dir={runs_dir}", "--name", "x"]
    answer = practicum("train", *words)
    assert answer.code == 0, answer.err
    rows = read_metrics(find_run("x", runs_dir).metrics_path).rows
    steps = [r.values for r in rows if r.kind == "step"]
    assert [values["stage"] for values in steps] == [
        *ONLINE, "grpo", "ppo", "distill", "sft", "weighted_sft", "kto",
    ]  # fmt: skip
    prints = [values["fingerprint"] for values in steps]
    assert all(values["applied"] for values in steps)
    assert len(set(prints)) == len(prints)  # every one of them has moved the weights


def test_what_a_policy_did_is_recorded_and_learned_from(
    practicum, runs_dir: Path, tmp_path: Path
) -> None:
    store = tmp_path / "recorded.sqlite"
    words = ("traces", "record", "tiny", "--env", "math", "--n", 3, "--k", 2, "--store", store)
    answer = practicum(*words, "hardware.threads=1", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["episodes"] == found["usable"] == 6
    assert found["succeeded"] + found["failed"] == 6
    settings = ("model=tiny", "steps=1", "eval.n=1", "hardware.threads=1", "algorithm.batch=6")
    words = ("train", "math", *settings, "algorithm.name=kto", f"data={store}")
    answer = practicum(*words, f"runs_dir={runs_dir}", "--name", "x")
    assert answer.code == 0, answer.err
    [step] = [
        r for r in read_metrics(find_run("x", runs_dir).metrics_path).rows if r.kind == "step"
    ]
    assert step.values["examples"] == 6
    assert step.values["loss"] == pytest.approx(0.5, abs=1e-3)  # the policy is still the base


def test_a_trained_policy_is_evaluated_against_others(practicum, runs_dir: Path, tiny_run) -> None:
    assert practicum("train", *tiny_run, f"runs_dir={runs_dir}", "--name", "x").code == 0
    run = runs_dir / "x"
    answer = practicum("eval", run, "--n", 6, "--k", 2, "--against", "base", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["report"]["attempts_per_task"] == 2
    assert found["report"]["fingerprint"] != found["against"]["fingerprint"]
    assert found["comparison"]["n_tasks"] == 6
    for other in ("reference", "random", run / "best", run / "checkpoints/step_2"):
        assert practicum("eval", other, "--env", "math", "--n", 4).code == 0


STOPS = """
import os
from pathlib import Path

from practicum import Score

COUNT = Path({folder!r}) / "scored"

def score(task, trace, outcome):
    with COUNT.open("a") as file:
        file.write(trace.id + "\\n")
    if len(COUNT.read_text().splitlines()) == {stop}:
        os._exit(9)
    return Score(components={{"turns": float(len(trace.turns))}})
"""
"""A reward that ends the process at its so many-th episode."""


def test_an_evaluation_that_was_killed_goes_on(
    practicum, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    scored = tmp_path / "scored"
    words = ("eval", "tiny", "--env", "math", "reward=stops.py:score", "--n", "8", "--json")
    Path("stops.py").write_text(STOPS.format(folder=str(tmp_path), stop=0))
    whole = json.loads(practicum(*words).out)["report"]
    scored.unlink()
    Path("stops.py").write_text(STOPS.format(folder=str(tmp_path), stop=5))
    command = [sys.executable, "-m", "practicum", *words]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 9
    first = scored.read_text().split()
    again = subprocess.run(
        [*command, "--resume"], check=False, capture_output=True, text=True, timeout=600
    )
    assert again.returncode == 0, again.stderr
    assert "going on: 4 of 8 episodes are there" in again.stderr
    second = scored.read_text().split()[len(first) :]
    assert not set(second) & set(first[:4])  # the fifth was not kept yet when it died
    assert len(second) == 4
    report = json.loads(again.stdout)["report"]
    assert report["reward"] == whole["reward"]
    assert not list((tmp_path / "cache" / "evaluations").iterdir())
    told = practicum(*words, "--resume").err
    assert "nothing to go on with" in told


def test_an_evaluation_tells_each_tenth_where_there_is_no_terminal(practicum) -> None:
    told = practicum("eval", "random", "--env", "math", "--n", 60).err
    assert [f"{n} of 60 episodes" in told for n in (6, 30, 60, 7)] == [True, True, True, False]


def test_the_reference_solves_every_held_out_task(practicum) -> None:
    answer = practicum("eval", "reference", "--env", "math", "env.level=5", "--n", 20, "--json")
    report = json.loads(answer.out)["report"]
    assert report["success"]["value"] == 1.0


def test_play_shows_the_reference_path_and_its_rewards(practicum) -> None:
    answer = practicum("play", "math", "--task", "3x + 7 = 16")
    assert answer.code == 0
    shown = answer.out.splitlines()
    assert [line.split()[2] for line in shown[1:5]] == ["+1.5", "+2.0", "+2.0", "+3.0"]
    assert "total reward 8.5" in shown[-1]


def test_a_person_can_play(practicum, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["subtract_terms", "divide_terms", "state_answer"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(typed))
    answer = practicum("play", "math", "--policy", "human", "--task", "3x + 7 = 16")
    assert "solved, total reward 7" in answer.out


def test_an_interrupted_run_is_saved_and_resumes_to_the_same_bytes(
    practicum, runs_dir: Path, tiny_run
) -> None:
    words = (*tiny_run, "steps=6", f"runs_dir={runs_dir}")
    assert practicum("train", *words, "--name", "whole").code == 0
    command = [sys.executable, "-m", "practicum.cli.main", "train", *words, "--name", "cut"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    metrics = runs_dir / "cut" / "metrics.jsonl"
    while not (metrics.exists() and '"step", "attempt": 1, "step": 2' in metrics.read_text()):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert process.returncode == 130, said
    assert "--resume" in said
    cut = RunDir(runs_dir / "cut")
    assert CheckpointStore(cut.path).pointed("latest") in range(2, 6)
    assert practicum("train", "--resume", cut.path).code == 0
    last = "checkpoints/step_6/adapter_model.safetensors"
    assert (cut.path / last).read_bytes() == (runs_dir / "whole" / last).read_bytes()


def test_two_trainers_on_one_run_are_refused(practicum, runs_dir: Path, tiny_run) -> None:
    assert practicum("train", *tiny_run, f"runs_dir={runs_dir}", "--name", "x").code == 0
    with RunDir(runs_dir / "x").hold():
        answer = practicum("train", "--resume", runs_dir / "x", "steps=3")
    assert answer.code == 2
    assert str(os.getpid()) in answer.sentence


def test_a_profile_fills_in_only_what_the_config_does_not_say(practicum) -> None:
    words = ("math", "hardware.profile=ryzen", "model=tiny", "rollouts.group_size=3")
    answer = practicum("train", *words, "--dry-run")
    assert answer.code == 0, answer.err
    assert "name: tiny" in answer.out
    assert "group_size: 3" in answer.out
    assert "tasks_per_step: 2" in answer.out
    assert "dtype: bfloat16" in answer.out
