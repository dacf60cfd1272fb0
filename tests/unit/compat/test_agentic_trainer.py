"""Four calls from a model's name to what it has learned, with real training of the tiny model."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from practicum import AgenticTrainer
from practicum.assemble.environments import open_environment, training_tasks
from practicum.core.errors import UserError

SMALL = ("hardware.threads=1", "algorithm.lr=3e-3", "rollouts.max_tokens=8")


def talk(question: str, answer: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return {"messages": messages, "task_id": question, **more}


def trainer(tmp_path: Path, method: str = "sft", **more: Any) -> AgenticTrainer:
    return AgenticTrainer("tiny", method, runs_dir=tmp_path, overrides=SMALL, **more)


def test_a_model_learns_from_conversations(tmp_path: Path) -> None:
    one = trainer(tmp_path)
    model, tokenizer, device = one.setup_model()
    assert any("lora" in name for name, _ in model.named_parameters())
    assert tokenizer.decode(tokenizer.encode("x = 3")) == "x = 3"
    assert device == "cpu"
    before = one.test_inference(["hello"])
    dataset = one.prepare_training_data([talk(f"say {n}", f"number {n}") for n in range(6)])
    assert (len(dataset), dataset.heldout) == (6, 0)
    losses = one.train(dataset, steps=6, quiet=True)
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    assert one.run is not None
    assert (one.run / "checkpoints" / "latest").readlink().name == "step_6"
    (after,) = one.test_inference(["hello"])
    assert after["problem"] == "hello"
    assert isinstance(after["response"], str)
    assert before[0].keys() == after.keys()


def test_training_again_starts_from_the_model_itself(tmp_path: Path) -> None:
    one = trainer(tmp_path)
    dataset = one.prepare_training_data([talk("say 1", "one"), talk("say 2", "two")])
    first, second = (one.train(dataset, steps=2, quiet=True) for _ in range(2))
    assert first == second


def test_bad_examples_are_for_methods_that_want_them(tmp_path: Path) -> None:
    rows = [talk("a", "good", label=True), talk("b", "bad", label=False), talk("c", "so so")]
    assert len(trainer(tmp_path).prepare_training_data(rows)) == 2
    kto = trainer(tmp_path, "kto").prepare_training_data(rows)
    assert len(kto) == 2
    assert sum(kto.left_out.values()) == 1


def test_where_it_can_act_inference_is_an_episode(tmp_path: Path) -> None:
    one = trainer(tmp_path, env={"name": "math", "level": 1})
    (found,) = one.test_inference(["3x + 7 = 16"])
    assert found["success"] in (True, False)
    assert found["actions"]
    assert isinstance(found["reward"], float)


def test_the_solutions_of_an_environment_are_a_training_set(tmp_path: Path) -> None:
    found = trainer(tmp_path, env="math").prepare_training_data("reference")
    assert len(found) > 100
    with pytest.raises(UserError, match=r"name one: AgenticTrainer\(\.\.\., domain='math'\)"):
        trainer(tmp_path).prepare_training_data("reference")


def test_lists_of_actions_alone_are_of_the_first_training_tasks(tmp_path: Path) -> None:
    words = [*SMALL, "eval.n=0"]
    one = AgenticTrainer("tiny", domain="math", runs_dir=tmp_path, overrides=words)
    config = one._config(source="none yet").env
    environment, tasks = open_environment(config), training_tasks(config, 2)
    done = [list(environment.reference(task)) for task in tasks]
    dataset = one.prepare_training_data([*done, ["nothing of the kind"]])
    assert len(dataset) == 2
    assert sum(dataset.left_out.values()) == 1  # what solves nothing is not learned
    rows = (dataset.path / "train.jsonl").read_text()
    assert all(task.id in rows for task in tasks)
    assert all(math.isfinite(loss) for loss in one.train(dataset, steps=1, quiet=True))
    (found,) = one.test_inference([tasks[0].id])
    assert found["success"] is False
    assert found["actions"]


def test_lists_of_actions_without_a_domain_are_one_sentence(tmp_path: Path) -> None:
    taken = ["identify_operation"]
    with pytest.raises(UserError, match=r"trajectory 2 is a list of actions, .* domain='math'"):
        trainer(tmp_path).prepare_training_data([talk("a", "b"), taken])
    with pytest.raises(UserError, match="has 'problem', a text, and 'actions', a list"):
        trainer(tmp_path, domain="math").prepare_training_data([[]])
    with pytest.raises(UserError, match="domain='math' and env='code' are two names"):
        trainer(tmp_path, domain="math", env="code")


def test_a_problem_may_be_asked_in_words(tmp_path: Path) -> None:
    one, asked = trainer(tmp_path, env="math"), "Solve for x: 3x + 7 = 16"
    taken = ["identify_operation", "subtract_terms", "divide_terms", "state_answer"]
    assert len(one.prepare_training_data([{"problem": asked, "actions": taken}])) == 1
    (found,) = one.test_inference([asked])
    assert found["problem"] == asked
    assert isinstance(found["reward"], float)


def test_the_weights_of_the_base_stay_as_they_are(tmp_path: Path) -> None:
    one = trainer(tmp_path)
    model, _, _ = one.setup_model()
    frozen = {n: p.clone() for n, p in model.named_parameters() if not p.requires_grad}
    one.train(one.prepare_training_data([talk("a", "b")]), steps=1, quiet=True)
    assert frozen
    assert all(torch.equal(p, dict(model.named_parameters())[n]) for n, p in frozen.items())


@pytest.mark.parametrize(
    ("trajectories", "sentence"),
    [
        ([], "nothing sft could learn from: it is empty"),
        ([{"text": "hi"}], "none of the columns"),
        (["hi"], "trajectory 1 is str, not a conversation"),
        ([talk("a", "b", label=False)], "it is not a good one"),
        ([{"messages": {1, 2}}], "trajectory 1 cannot be written as JSON"),
        ("nowhere.sqlite", "nowhere.sqlite"),
    ],
)
def test_trajectories_that_cannot_be_used_are_one_sentence(
    trajectories: Any, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        trainer(tmp_path).prepare_training_data(trajectories)


def test_what_is_not_known_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="method 'magic' is not known"):
        trainer(tmp_path, "magic")
    with pytest.raises(UserError, match="ppo learns from episodes it makes"):
        trainer(tmp_path, "ppo")
    with pytest.raises(UserError, match="no-such-model"):
        AgenticTrainer("no-such-model").setup_model()


def test_a_trainer_without_an_environment_invents_none() -> None:
    assert AgenticTrainer("tiny")._config(source="a.jsonl").env is None


async def test_the_calls_work_where_an_event_loop_runs_already(tmp_path: Path) -> None:
    one = trainer(tmp_path)
    one.setup_model()
    dataset = one.prepare_training_data([talk(f"say {n}", f"number {n}") for n in range(6)])
    assert len(one.train(dataset, steps=1, quiet=True)) == 1
    assert len(one.test_inference(["hello"])) == 1
