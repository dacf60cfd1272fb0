"""One model that executes tasks and learns from them, by the calls of TAC-RL; it is tiny."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peft
import pytest

import practicum.art
from practicum.compat import TrainableModel, compute_reward, sample_professional_tasks
from practicum.compat.local_model import read_peft
from practicum.core.errors import UserError

ADAPTER = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
SMALL = ("hardware.threads=1", "algorithm.lr=1e-2", "rollouts.max_turns=3")


def make(tmp_path: Path, **more: Any) -> TrainableModel:
    given = {"env": "math", "overrides": SMALL, "runs_dir": tmp_path, **more}
    return TrainableModel("tiny", ADAPTER, **given)


async def test_the_loop_of_the_guide_changes_the_weights_that_act(tmp_path: Path) -> None:
    model = make(tmp_path)
    weights = [model._policy.policy.learner.fingerprint()]
    for step in (1, 2):
        tasks = sample_professional_tasks(n=2, attempts=4, env="math")
        results = [await model.execute_task(task) for task in tasks]
        rewards = [compute_reward(result) for result in results]
        assert all(isinstance(reward, float) for reward in rewards)
        trained = await model.train(results, rewards)
        assert trained.groups == 2
        assert trained.report is not None
        assert trained.report.applied
        assert model.step == step
        weights.append(model._policy.policy.learner.fingerprint())
    assert len(set(weights)) == 3
    assert (model.folder / "checkpoints" / "step_2" / "adapter_config.json").is_file()
    await model.close()


@pytest.mark.slow
async def test_a_reward_of_ones_own_is_what_is_learned_from(tmp_path: Path) -> None:
    """The one action that is paid gets likelier, whatever the environment says of it."""
    model, wanted = make(tmp_path, overrides=(*SMALL, "rollouts.max_turns=1")), "simplify"

    def said(results: list[Any]) -> list[float]:
        first = [next(m.content for m in r.messages if m.role == "assistant") for r in results]
        return [float(text.startswith(wanted)) for text in first]

    task = sample_professional_tasks(n=1, attempts=1, env="math")[0]
    shares = []
    for _ in range(8):
        results = [await model.execute_task(task) for _ in range(24)]
        shares.append(sum(said(results)) / 24)
        await model.train([results], [said(results)])
    await model.close()
    assert sum(shares[-2:]) / 2 > shares[0] + 0.3, shares


async def test_a_model_goes_on_by_its_name(tmp_path: Path) -> None:
    model = make(tmp_path, name="goes-on")
    tasks = sample_professional_tasks(n=2, attempts=3, env="math", seed=1)
    await model.train([await model.execute_task(task) for task in tasks])
    trained = model._policy.policy.learner.fingerprint()
    await model.close()
    again = make(tmp_path, name="goes-on")
    assert (again.step, again._policy.policy.learner.fingerprint()) == (1, trained)
    await again.close()
    other = make(tmp_path)
    assert other.folder.name == "model-1"
    await other.close()


async def test_what_could_teach_nothing_is_refused_with_what_to_do(tmp_path: Path) -> None:
    model = make(tmp_path)
    first, second = [
        await model.execute_task(task)
        for task in sample_professional_tasks(n=2, attempts=1, env="math")
    ]
    for groups, rewards, told in (
        ([first, second], None, "executed once, and grpo compares attempts"),
        ([first, second], [1.0], "2 executed tasks and 1 rewards"),
        ([], None, "nothing was executed"),
        ([first], ["good"], "'good' is none"),
        (["3x = 6"], None, "a trajectory is a str"),
    ):
        with pytest.raises(UserError, match=re.escape(told)):
            await model.train(groups, rewards)
    again = await model.execute_task(first.task)
    await model.train([first, again], [1.0, 0.0])
    with pytest.raises(UserError, match="before the model last learned"):
        await model.train([first, again], [1.0, 0.0])
    await model.close()


async def test_a_task_may_be_a_text(tmp_path: Path) -> None:
    model = make(tmp_path)
    result = await model.execute_task("Solve for x: 3x + 7 = 16")
    assert result.task.id == "math-1-3x+7=16"
    assert result.success in (True, False)
    await model.close()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"overrides": ["algorithm=ppo"]}, "choose one of grpo"),
        ({"overrides": ["model=no-such-model"]}, "no-such-model"),
        ({"env": "nowhere"}, "unknown environment"),
    ],
)
def test_a_model_that_cannot_be_leaves_no_folder(
    wrong: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=told):
        make(tmp_path, **wrong)
    assert not list(tmp_path.iterdir())


def test_tasks_differ_from_call_to_call_and_are_the_same_by_seed() -> None:
    one, other = (sample_professional_tasks(env="math", n=3, attempts=1) for _ in range(2))
    assert [t.id for t in one] != [t.id for t in other]
    seeded = [sample_professional_tasks(env="math", n=3, attempts=2, seed=4) for _ in range(2)]
    assert [t.id for t in seeded[0]] == [t.id for t in seeded[1]]
    ids = [t.id for t in seeded[0]]
    assert ids[::2] == ids[1::2]
    with pytest.raises(UserError, match="n=0"):
        sample_professional_tasks(n=0)


def test_professional_tasks_are_the_offices() -> None:
    tasks = sample_professional_tasks(n=3, attempts=1, seed=0)
    assert {task.env for task in tasks} == {"office"}


def test_an_adapters_config_is_read_as_peft_has_it() -> None:
    theirs = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["v_proj", "q_proj"])
    theirs.task_type = "CAUSAL_LM"
    expected = {"preset": "full", "r": 4, "alpha": 8, "targets": ["q_proj", "v_proj"]}
    found = read_peft(theirs)
    assert found == {**expected, "dropout": 0.0}
    assert read_peft({"target_modules": "all-linear", "bias": "none"}) == {"preset": "full"}

    @dataclass
    class Other:
        use_dora: bool = False

    for wrong, told in (
        ({"use_dora": True}, "peft_config.use_dora = True is not used here"),
        (Other(use_dora=True), "peft_config.use_dora = True is not used here"),
        ({"target_modules": ".*proj"}, "is a pattern"),
        (8, "peft_config is a int"),
    ):
        with pytest.raises(UserError, match=re.escape(told)):
            read_peft(wrong)


def test_arts_model_with_words_of_the_other_says_where_that_is() -> None:
    with pytest.raises(UserError, match=r"is in practicum\.compat"):
        practicum.art.TrainableModel("tiny", ADAPTER)
