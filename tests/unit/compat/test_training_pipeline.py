"""The whole way in one call, with real training of the tiny model."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import practicum
from practicum import TrainingPipeline, compat
from practicum.core.errors import UserError
from practicum.store.checkpoints import CheckpointStore
from practicum.store.run_dir import RunDir
from practicum.training.stage_data import read_stage_examples

TRACES = Path(__file__).parents[3] / "examples" / "traces"


def pipeline(tmp_path: Path, method: str) -> TrainingPipeline:
    return TrainingPipeline(
        agent_name="isaa",
        base_model="tiny",
        method=method,
        runs_dir=tmp_path,
        store=tmp_path / "traces.sqlite",
    )


@pytest.mark.rare
def test_traces_become_an_adapter_and_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = pipeline(tmp_path, "kto").run_full_pipeline(
        TRACES / "openai_chat.jsonl",
        steps=2,
        heldout=0.0,
        deploy_ollama=True,
        overrides=["algorithm.batch=2", "hardware.threads=1"],
    )
    run = RunDir(Path(results["run"]))
    assert run.name == "isaa"
    assert json.loads((run.path / "pipeline_results.json").read_text()) == results
    assert (Path(results["checkpoint"]) / "adapter_config.json").is_file()
    assert CheckpointStore(run.path).steps() == [2]
    assert len(results["losses"]) == 2
    assert results["losses"][0] == pytest.approx(0.5)  # the policy is the base model
    assert results["losses"][1] < results["losses"][0]
    assert results["deployment"]["done"] is False
    assert "--to merged" in results["deployment"]["reason"]  # no .gguf has this tokenizer
    assert results["deployment"]["tag"] == "toolbox-isaa"
    assert "step 2 of 2: kto loss" in capsys.readouterr().err


def test_a_method_that_acts_starts_from_the_good_traces(tmp_path: Path) -> None:
    small = ["rollouts.tasks_per_step=1", "rollouts.group_size=2", "rollouts.max_turns=2"]
    found = pipeline(tmp_path, "GRPO").run_full_pipeline(
        [TRACES / "openai_chat.jsonl"],
        env={"name": "math", "level": 1},
        steps=1,
        heldout=0.0,
        overrides=[*small, "eval.n=2", "hardware.threads=1"],
        quiet=True,
    )
    assert found["stages"] == ["sft", "grpo"]
    assert sorted(found["evaluations"]) == ["0", "1", "2"]
    again = pipeline(tmp_path, "sft").run_full_pipeline(
        steps=1, heldout=0.0, quiet=True, overrides=["hardware.threads=1"]
    )
    assert Path(again["run"]).name == "isaa-2"


class Agent:
    """Answers some questions well, some badly, and writes code for one."""

    def __init__(self) -> None:
        self.runs = 0

    async def a_run(self, query: str) -> str:
        self.runs += 1
        await self.arun_function("look_up", query=query) if self.runs % 2 else None
        return "```python\nprint(1)\n```" if self.runs % 3 == 0 else f"<b>{query}</b>" * self.runs

    async def arun_function(self, name: str, query: str) -> str:
        return "found"


def test_the_quick_start_from_traces_runs_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    agent = Agent()
    compat.hook_into_agent(agent, compat.TraceCollector())
    for query in ("How many files?", "Who is Ada?") * 4:
        asyncio.run(agent.a_run(query))
    made = compat.TrainingPipeline(agent_name="isaa", base_model="tiny", method="grpo")
    results = made.run_full_pipeline(deploy_ollama=True, steps=2)
    assert results["method"] == "grpo"
    assert results["stages"] == ["offline_grpo"]
    assert (Path(results["checkpoint"]) / "adapter_config.json").is_file()
    assert results["deployment"]["tag"] == "toolbox-isaa"
    assert results["deployment"]["done"] is False
    assert results["deployment"]["reason"]
    [assumed] = [w for w in results["warnings"] if "no log-probabilities" in w]
    assert assumed.startswith("4 of the answers")  # and the other question is held out
    assert "takes them to be sampled by the policy that it starts from" in capsys.readouterr().err


def test_recorded_log_probabilities_are_what_answers_are_weighed_against(tmp_path: Path) -> None:
    """Episodes of a run of the same model are learned from with what its sampler said of them."""
    small: dict[str, Any] = {"model": "tiny", "eval": {"n": 0}, "hardware": {"threads": 1}}
    rollouts = {"tasks_per_step": 3, "group_size": 4, "max_turns": 2}
    options = {**small, "quiet": True, "runs_dir": str(tmp_path), "rollouts": rollouts}
    first = practicum.train("math", name="first", steps=1, warm_start="none", **options)
    data = {"source": str(first.path)}
    again = practicum.train(
        name="again", steps=1, **{**options, "algorithm": "offline_grpo", "data": data}
    )
    groups = read_stage_examples(again.path / "data" / "stage_1").train
    assert all(len({row.pair for row in group}) == 1 and len(group) > 1 for group in groups)
    rows = [row for group in groups for row in group]
    assert all((row.sample.old_logprobs[row.sample.loss_mask] <= 0).all() for row in rows)
    assert all(row.sample.old_logprobs.any() for row in rows)
    told = [step for step in again.metrics if step.get("stage") == "offline_grpo"]
    assert told[0]["groups"] >= 1
    assert told[0]["loss"] == pytest.approx(0.0, abs=1e-4)  # of the same policy: ratios of 1


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("magic", "method 'magic' is not known; choose one of grpo, "),
        ("ppo", "ppo learns from episodes it makes; give env="),
        ("grpo", "there are no traces of 'isaa': "),
        ("kto", "there are no traces of 'isaa': "),
    ],
)
def test_what_cannot_be_done_is_one_sentence(method: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        pipeline(tmp_path, method).run_full_pipeline()
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_model_is_one_sentence_and_leaves_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no-such-model"):
        TrainingPipeline("isaa", "no-such-model", "kto", runs_dir=tmp_path).run_full_pipeline(
            TRACES, overrides=[f"data.source={tmp_path / 'traces.sqlite'}"]
        )
    assert not (tmp_path / "isaa").exists()


def test_an_unknown_option_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'epochs'.*it takes steps, heldout, where, reward"):
        pipeline(tmp_path, "kto").run_full_pipeline(TRACES, epochs=3)
