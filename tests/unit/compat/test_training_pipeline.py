"""The whole way in one call, with real training of the tiny model."""

import json
from pathlib import Path

import pytest

from practicum import TrainingPipeline
from practicum.core.errors import UserError
from practicum.store.checkpoints import CheckpointStore
from practicum.store.run_dir import RunDir

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
    assert results["deployment"]["tag"] == "practicum-isaa"
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


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("magic", "method 'magic' is not known; choose one of grpo, "),
        ("grpo", "grpo learns from episodes it makes; give env="),
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
