"""Scripts in the manner of ART, over HTTP, on the tiny model."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import practicum.compat.art as art
from practicum.compat.art.local import link_groups
from practicum.core.errors import RunBusy, UserError
from practicum.core.sample import Credit, Group
from practicum.core.score import JudgeReply
from practicum.engine.learning.learner_state import steps_taken
from practicum.training.prefix_tree import build_batches, episode_samples

pytest.importorskip("openai")

QUESTION = [{"role": "user", "content": "Write digits."}]
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}


@asynccontextmanager
async def registered(
    folder: Path, name: str = "agent", **options: Any
) -> AsyncIterator[art.TrainableModel]:
    model = art.TrainableModel(name=name, project="demo", base_model="tiny", base_path=str(folder))
    async with art.LocalBackend(**options) as backend:
        await model.register(backend)
        yield model


async def ask(model: art.TrainableModel, messages: Iterable[Any] = QUESTION, **options: Any) -> Any:
    return await model.openai_client().chat.completions.create(
        model=model.get_inference_name(),
        messages=list(messages),
        **{"max_tokens": 6, **options},
    )


async def attempt(model: art.TrainableModel, reward: float | None = None) -> art.Trajectory:
    choice = (await ask(model)).choices[0]
    digits = sum(sign.isdecimal() for sign in choice.message.content or "") / 6
    return art.Trajectory(
        messages_and_choices=[*QUESTION, choice], reward=digits if reward is None else reward
    )


async def group(model: art.TrainableModel, *rewards: float) -> art.TrajectoryGroup:
    return await art.TrajectoryGroup([attempt(model, reward) for reward in rewards])


def policy_of(model: art.TrainableModel) -> Any:
    return model.backend()._policy(model)


def fingerprints(model: art.TrainableModel) -> list[str]:
    checkpoints = policy_of(model).checkpoints
    return [checkpoints.load(step).fingerprint for step in checkpoints.steps()]


def logprobs(model: art.TrainableModel, groups: list[Group]) -> list[float]:
    """What the learner finds each episode's sampled tokens to be worth, in sum."""
    found = []
    for episode in groups[0].episodes:
        trace = episode.trace
        samples = episode_samples(trace, Credit(advantages=(0.0,) * len(trace.turns)), 1.0)
        measured = policy_of(model).policy.learner.measure(
            build_batches(samples, 4096), frozenset()
        )
        found.append(float(sum(one.logprobs.sum() for one in measured)))
    return found


async def test_what_was_paid_becomes_likelier_and_everything_is_kept(tmp_path: Path) -> None:
    async with registered(tmp_path) as model:
        groups = [await group(model, 1.0, 0.0, 0.0, 0.0)]
        linked = link_groups(groups, policy_of(model).turns, 1)
        before = logprobs(model, linked)
        for episode, total in zip(linked[0].episodes, before, strict=True):
            spans = [n.sampled for n in episode.trace.nodes if n.sampled is not None]
            assert total == pytest.approx(sum(sum(s.logprobs) for s in spans), abs=1e-4)
        result = await model.train(groups, config=art.TrainConfig(learning_rate=2e-3))
        after = logprobs(model, linked)
        assert after[0] > before[0]
        assert sum(after[1:]) < sum(before[1:])
        assert result.step == await model.get_step() == 1
        assert result.metrics["loss/largest_gap"] < 1e-4
        assert result.metrics["data/step_num_groups_trainable"] == 1
        folder = tmp_path / "demo" / "models" / "agent"
        (row,) = [json.loads(x) for x in (folder / "history.jsonl").read_text().splitlines()]
        assert row["train/reward"] == 0.25
        assert row["step"] == 1
        assert (folder / "trajectories" / "train" / "0001.jsonl").is_file()
        assert Path(result.checkpoint_path) == folder / "checkpoints" / "step_1"  # type: ignore[attr-defined]
        assert (folder / "checkpoints" / "step_1" / "adapter_model.safetensors").is_file()


async def test_flat_groups_are_skipped_and_the_step_counts_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with registered(tmp_path) as model:
        rate = art.TrainConfig(learning_rate=1e-3)
        flat = await group(model, 0.5, 0.5)
        assert (await model.train([flat], config=rate)).step == 1
        assert "1 of 1 groups have nothing to compare" in capsys.readouterr().err
        # The weights are the same, so what was sampled by them can still be learned from.
        uneven = art.TrajectoryGroup(
            [t.model_copy(update={"reward": r}) for t, r in zip(flat, (0.0, 1.0), strict=True)]
        )
        result = await model.train([uneven, flat], config=rate)
        assert (result.step, await model.get_step()) == (2, 2)
        assert result.metrics["data/step_num_groups_trainable"] == 1
        assert "1 of 2 groups" in capsys.readouterr().err
        assert (await model.train([], config=rate)).step == 3
        first, second, third = fingerprints(model)
        assert first != second == third
        rows = (model.folder.path / "history.jsonl").read_text().splitlines()
        assert [json.loads(row)["step"] for row in rows] == [1, 2, 3]


async def test_turns_tools_choices_and_histories_are_trained_as_they_were_sampled(
    tmp_path: Path,
) -> None:
    async with registered(tmp_path) as model:
        trajectory = art.Trajectory(messages_and_choices=list(QUESTION), tools=[TOOL])
        sampled: list[list[int]] = []
        for number in range(3):
            answer = await ask(
                model,
                trajectory.messages(),
                tools=[TOOL],
                n=2,
                extra_body={"return_token_ids": True},
            )
            sampled.append(answer.choices[1].token_ids)
            trajectory.messages_and_choices += [
                answer.choices[1],
                {"role": "user", "content": f"and again {number}"},
            ]
        other = await ask(
            model,
            [{"role": "system", "content": "another"}, *QUESTION],
            extra_body={"return_token_ids": True},
        )
        sampled.append(other.choices[0].token_ids)
        trajectory.additional_histories = [art.History(messages_and_choices=[other.choices[0]])]
        turns = policy_of(model).turns
        (linked,) = link_groups([art.TrajectoryGroup([trajectory])], turns, 1)
        trace = linked.episodes[0].trace
        assert [list(trace.nodes[i].token_ids) for i in trace.turns] == sampled
        assert len(trace.leaves()) == 2
        paired = art.TrajectoryGroup([trajectory.model_copy(update={"reward": 1.0}), trajectory])
        result = await model.train([paired])
        assert result.metrics["loss/largest_gap"] < 1e-4


async def test_choices_that_are_not_the_models_own_are_refused_and_nothing_is_learned(
    tmp_path: Path,
) -> None:
    async with registered(tmp_path) as model:
        own = await group(model, 0.0, 1.0)
        foreign = own.trajectories[0].messages_and_choices[1].model_copy(deep=True)
        foreign.practicum_turn = 10_000
        stranger = art.Trajectory(messages_and_choices=[*QUESTION, foreign], reward=0.5)
        with pytest.raises(UserError, match="did not return"):
            await model.train([art.TrajectoryGroup([*own, stranger])])
        assert await model.get_step() == 0
        del foreign.practicum_turn
        with pytest.raises(UserError, match="did not return"):
            await model.train([art.TrajectoryGroup([*own, stranger])])
        await model.train([own], config=art.TrainConfig(learning_rate=1e-3))
        with pytest.raises(UserError, match="sampled before the model last learned"):
            await model.train([own])
        assert await model.get_step() == 1


async def test_a_plain_message_of_another_model_is_context_and_not_trained(tmp_path: Path) -> None:
    async with registered(tmp_path) as model:
        opening = [*QUESTION, {"role": "assistant", "content": "123"}, *QUESTION]
        answer = await ask(model, opening, extra_body={"return_token_ids": True})
        made = art.Trajectory(messages_and_choices=[*opening, answer.choices[0]])
        (linked,) = link_groups([art.TrajectoryGroup([made])], policy_of(model).turns, 1)
        trace = linked.episodes[0].trace
        assert [list(trace.nodes[i].token_ids) for i in trace.turns] == [
            answer.choices[0].token_ids
        ]


async def test_requests_during_training_are_answered_by_the_new_weights(tmp_path: Path) -> None:
    async with registered(tmp_path) as model:
        groups = [await group(model, 1.0, 0.0)]
        training = asyncio.create_task(
            model.train(groups, config=art.TrainConfig(learning_rate=1e-3))
        )
        await asyncio.sleep(0)
        answers = await asyncio.gather(*(ask(model) for _ in range(4)))
        await training
        (fingerprint,) = fingerprints(model)
        assert {answer.system_fingerprint for answer in answers} == {fingerprint}


async def test_a_script_goes_on_where_it_was(tmp_path: Path) -> None:
    greedy = {"temperature": 0, "max_tokens": 12}
    rate = art.TrainConfig(learning_rate=3e-3)
    async with registered(tmp_path) as model:
        for _ in range(2):
            await model.train([await group(model, 1.0, 0.0, 0.0)], config=rate)
        said = (await ask(model, **greedy)).choices[0].message.content
        saved = fingerprints(model)[-1]
        with pytest.raises(RunBusy):
            async with registered(tmp_path):
                pass
    async with registered(tmp_path) as again:
        assert await again.get_step() == 2
        answer = await ask(again, **greedy)
        assert (answer.system_fingerprint, answer.choices[0].message.content) == (saved, said)
        result = await again.train([await group(again, 1.0, 0.0)], config=rate)
        assert result.step == 3
    async with registered(tmp_path, name="other") as fresh:
        assert await fresh.get_step() == 0


async def test_only_the_newest_and_the_best_checkpoint_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with registered(tmp_path) as model:
        for reward in (0.1, 0.9, 0.3, 0.2):
            await model.train([])
            await model.log([art.Trajectory(reward=reward)], split="val")
        await model.delete_checkpoints()
        assert policy_of(model).checkpoints.steps() == [2, 4]
        await model.delete_checkpoints(best_checkpoint_metric="val/other")
        assert policy_of(model).checkpoints.steps() == [4]
        assert "no 'val/other' was logged" in capsys.readouterr().out


async def test_a_backend_is_told_what_a_config_is_told(tmp_path: Path) -> None:
    async with registered(
        tmp_path / "unused", path=tmp_path / "there", overrides=["lora.r=2", "lora.alpha=4"]
    ) as model:
        pair = [await group(model, 1.0, 0.0)]
        result = await model.backend().train(model, pair, algorithm="rloo", learning_rate=1e-4)
        saved = json.loads((Path(result.checkpoint_path) / "adapter_config.json").read_text())
        assert (saved["r"], saved["lora_alpha"]) == (2, 4)
        assert Path(result.checkpoint_path).is_relative_to(tmp_path / "there")
        with pytest.raises(UserError, match="algorithm 'sft' does not learn from rewards"):
            await model.backend().train(model, pair, algorithm="sft")
        with pytest.raises(UserError, match="is at step 1 and step 7 is not served"):
            model.get_inference_name(step=7)
        with pytest.raises(UserError, match="is registered already"):
            await model.register(model.backend())


async def test_a_batch_size_divides_a_step_into_updates(tmp_path: Path) -> None:
    async with registered(tmp_path, overrides=["algorithm.batch_size=2"]) as model:
        await model.train([await group(model, 1.0, 0.0, 0.0, 0.0)])
        assert steps_taken(policy_of(model).policy.learner._optimizer) == 2


async def test_two_models_of_one_backend_do_not_mix(tmp_path: Path) -> None:
    names = ("one", "two")
    models = [
        art.TrainableModel(name=n, project="demo", base_model="tiny", base_path=str(tmp_path))
        for n in names
    ]
    async with art.LocalBackend() as backend:
        for model in models:
            await model.register(backend)
        groups = [await group(model, 1.0, 0.0) for model in models]
        await models[0].train([groups[0]], config=art.TrainConfig(learning_rate=1e-3))
        assert [await model.get_step() for model in models] == [1, 0]
        await models[1].train([groups[1]], config=art.TrainConfig(learning_rate=1e-3))
        assert [await model.get_step() for model in models] == [1, 1]


@pytest.mark.filterwarnings("ignore")  # those of the packages that ART loads
class CountsDigits:
    """A judge that prefers answers with digits in them."""

    name = "counts digits"

    async def complete(self, messages: Any) -> JudgeReply:
        question = next(m.content for m in messages if m.role == "user")
        rows = [json.loads(line) for line in question.splitlines() if line.startswith('{"id"')]
        found = [
            {"id": row["id"], "score": min(1.0, sum(map(str.isdecimal, str(row["messages"]))) / 20)}
            for row in rows
        ]
        return JudgeReply(text=json.dumps({"scores": found}))


async def test_arts_pattern_of_a_training_script_runs_with_its_imports_changed(
    tmp_path: Path,
) -> None:
    """Batches of scenarios, groups judged by RULER, `backend.train`, `log`, validation."""
    from practicum.art.local.backend import LocalBackend
    from practicum.art.rewards import ruler_score_group
    from practicum.art.types import MessagesAndChoices
    from practicum.art.utils.iterate_dataset import iterate_dataset
    from practicum.art.utils.limit_concurrency import limit_concurrency

    import practicum.art as art

    @limit_concurrency(4)
    async def rollout(model: art.TrainableModel, scenario: str) -> art.Trajectory:
        messages: MessagesAndChoices = [{"role": "user", "content": scenario}]
        trajectory = art.Trajectory(messages_and_choices=messages, reward=0.0)
        asked: art.Messages = trajectory.messages()
        choice = (await ask(model, asked)).choices[0]
        trajectory.messages_and_choices.append(choice)
        return trajectory

    async def judged(model: art.TrainableModel, scenarios: list[str]) -> list[art.TrajectoryGroup]:
        return await art.gather_trajectory_groups(
            [
                art.TrajectoryGroup(
                    (rollout(model, scenario) for _ in range(4)), metadata={"scenario": scenario}
                )
                for scenario in scenarios
            ],
            after_each=lambda group: ruler_score_group(group, judge_model=CountsDigits()),
            max_exceptions=4 * len(scenarios),
        )

    scenarios = [f"Write {n} digits." for n in range(3)]
    backend: art.Backend = LocalBackend()
    model = art.TrainableModel(name="p", project="demo", base_model="tiny", base_path=str(tmp_path))
    await model.register(backend)
    steps = []
    for batch in iterate_dataset(
        scenarios, groups_per_step=2, num_epochs=1, initial_step=await model.get_step()
    ):
        groups = await judged(model, batch.items)
        result = await backend.train(
            model, groups, learning_rate=1e-3, grad_accumulation_sequences=2
        )
        await model.log(groups, metrics=result.metrics, step=result.step, split="train")
        validation = await judged(model, scenarios[:1])
        await model.log(validation, metrics={"reward": 0.5}, step=result.step, split="val")
        await model.delete_checkpoints()
        steps.append((batch.step, result.step))
    await backend.close()
    assert steps == [(0, 1), (1, 2)]


async def test_arts_own_classes_train_through_the_backend(tmp_path: Path) -> None:
    openpipe = pytest.importorskip("art", reason="needs openpipe-art")
    from practicum.compat.art.openpipe import backend

    model = openpipe.TrainableModel(
        name="agent", project="demo", base_model="tiny", base_path=str(tmp_path)
    )
    serving = backend()
    await model.register(serving)
    try:

        async def one(reward: float) -> Any:
            answer = await ask(model)
            return openpipe.Trajectory(
                messages_and_choices=[*QUESTION, answer.choices[0]], reward=reward
            )

        groups = await openpipe.gather_trajectory_groups(
            [openpipe.TrajectoryGroup([one(1.0), one(0.0)])]
        )
        result = await serving.train(model, groups, learning_rate=1e-3)
        assert result.step == await model.get_step() == 1
        assert result.metrics["loss/largest_gap"] < 1e-4
    finally:
        await serving.close()


def test_without_openpipe_art_its_backend_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    from practicum.compat.art.openpipe import backend

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install openpipe-art"):
        backend()
