"""What a model keeps in its folder, and what it says before it is registered."""

import json
from pathlib import Path
from statistics import pstdev

import pytest
from pydantic import BaseModel

from practicum.compat.art import dev
from practicum.compat.art.model import Model, TrainableModel
from practicum.compat.art.trajectories import TrainConfig, Trajectory, TrajectoryGroup
from practicum.core.errors import UserError


class AgentConfig(BaseModel):
    turns: int = 3


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(name="prompted", project="demo", base_path=str(tmp_path))


def history(model: Model) -> list[dict[str, object]]:
    lines = (model.folder.path / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


async def test_a_row_holds_means_over_all_trajectories(model: Model) -> None:
    groups = [
        TrajectoryGroup([Trajectory(reward=1.0, metrics={"turns": 2}), Trajectory(reward=0.0)]),
        TrajectoryGroup([Trajectory(reward=0.5), RuntimeError("no")], metrics={"hard": True}),
    ]
    await model.log(groups, metrics={"loss/train": 0.1, "mine": 2.0}, step=4)
    (row,) = history(model)
    assert row.pop("recorded_at")
    assert row == {
        "val/reward": 0.5,
        "val/turns": 2.0,
        "val/group_hard": 1.0,
        "val/exception_rate": 0.25,
        "val/reward_std_dev": pstdev([1.0, 0.0]),
        "loss/train": 0.1,
        "val/mine": 2.0,
        "training_step": 4,
        "step": 4,
    }


async def test_logged_trajectories_can_be_imported(model: Model) -> None:
    from practicum.traces.importers.import_art import read

    choice = {"index": 0, "message": {"role": "assistant", "content": "4"}}
    said = [{"role": "user", "content": "2 + 2?"}, choice]
    await model.log([Trajectory(messages_and_choices=said, reward=1.0)], split="train", step=2)
    (part,) = read(model.folder.path / "trajectories" / "train" / "0002.jsonl", 0)
    (imported,) = part.found
    assert [m.content for m in imported.episode.trace.messages()] == ["2 + 2?", "4"]


async def test_figures_that_are_no_numbers_are_left_out(model: Model) -> None:
    await model.log(metrics={"a": float("nan"), "b": 1.0}, split="train")
    assert "train/a" not in history(model)[0]
    assert history(model)[0]["train/b"] == 1.0


async def test_what_is_neither_group_nor_trajectory_is_refused(model: Model) -> None:
    with pytest.raises(TypeError, match="these are str"):
        await model.log(["a"])  # type: ignore[list-item]


def test_the_best_step_is_by_the_mean_of_a_figure_and_the_later_of_equals(model: Model) -> None:
    for step, reward in ((1, 0.9), (1, 0.1), (2, 0.6), (3, 0.6), (4, 0.2)):
        model.folder.add_row({"reward": reward}, "val", step)
    assert model.folder.best_step("val/reward") == 3
    assert model.folder.best_step("val/other") is None


def test_state_is_kept_merged_and_replaced(model: Model) -> None:
    assert model.read_state() is None
    model.merge_state({"seen": {"a": 1}})
    assert model.merge_state({"seen": {"b": 2}, "epoch": 1}) == {
        "seen": {"a": 1, "b": 2},
        "epoch": 1,
    }
    model.overwrite_state({"epoch": 2})
    assert model.read_state() == {"epoch": 2}
    with pytest.warns(DeprecationWarning, match="overwrite_state"):
        model.write_state({})


def test_a_config_of_ones_own_stays_what_it_is(tmp_path: Path) -> None:
    made = TrainableModel[AgentConfig](
        name="a", project="demo", base_model="tiny", config=AgentConfig(turns=5)
    )
    assert made.config.turns == 5
    assert made.trainable
    told = TrainableModel(
        name="a",
        project="demo",
        base_model="tiny",
        _internal_config=dev.InternalModelConfig(peft_args=dev.PeftArgs(r=4)),
    )
    assert told._internal_config["peft_args"]["r"] == 4


def test_names_and_clients_before_a_model_is_registered(model: Model) -> None:
    assert model.get_inference_name() == "prompted"
    assert model.get_inference_name(step=3) == "prompted@3"
    with pytest.raises(UserError, match="has no inference_base_url"):
        model.openai_client()
    with pytest.raises(UserError, match="is not registered yet"):
        model.backend()


async def test_a_prompted_model_has_no_steps(model: Model) -> None:
    assert await model.get_step() == 0


def test_a_client_of_a_prompted_model_asks_where_it_was_told(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    asked = Model(
        name="m",
        project="demo",
        inference_base_url="http://127.0.0.1:9/v1",
        inference_api_key="none",
    )
    client = asked.openai_client()
    assert str(client.base_url) == "http://127.0.0.1:9/v1/"
    assert asked.openai_client() is client
    assert asked.litellm_completion_params()["model"] == "m"


async def test_training_by_imitation_says_where_it_is_done() -> None:
    made = TrainableModel(name="a", project="demo", base_model="tiny")
    with pytest.raises(UserError, match="AgenticTrainer"):
        await made.train_sft([])


def test_a_train_config_takes_no_unknown_words() -> None:
    with pytest.raises(ValueError, match="lerning_rate"):
        TrainConfig(lerning_rate=1.0)  # type: ignore[call-arg]
