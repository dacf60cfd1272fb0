"""Names of a pipeline from traces, over the real things: recorded, scored, built, detected."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from practicum import compat
from practicum.compat.pipeline import AgenticTrainer
from practicum.core.errors import UserError
from practicum.store.trace_store import SqliteTraceStore

EXAMPLES = Path(__file__).parents[3] / "examples" / "traces"


class FlowAgent:
    """As agents of that pipeline are: two coroutines."""

    async def a_run(self, query: str, session_id: str = "") -> str:
        found = await self.arun_function("weather", city="Bern")
        return f"It is {found}."

    async def arun_function(self, function_name: str, **arguments: Any) -> str:
        if arguments["city"] != "Bern":
            raise ValueError("no such city")
        return "sunny"


def test_a_hooked_agent_records_its_runs_and_the_real_names_of_its_functions(
    tmp_path: Path,
) -> None:
    agent = FlowAgent()
    collector = compat.TraceCollector(tmp_path / "traces.sqlite", env="isaa")
    assert compat.hook_into_agent(agent, collector) is collector
    assert asyncio.run(agent.a_run("How is the weather?")) == "It is sunny."
    with SqliteTraceStore(tmp_path / "traces.sqlite") as store:
        [episode] = store.query()
    messages = list(episode.trace.messages())
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1].tool_calls[0].name == "weather"
    assert messages[1].tool_calls[0].arguments == {"city": "Bern"}
    flat = compat.ExecutionTrace.of(episode)
    assert (flat.user_query, flat.final_response) == ("How is the weather?", "It is sunny.")
    assert flat.tool_calls[0].result == "sunny"


def test_an_agent_without_a_run_is_refused() -> None:
    with pytest.raises(UserError, match="has no method a_run"):
        compat.hook_into_agent(object())


def test_checkpoints_that_overlap_give_each_exchange_once() -> None:
    loader = compat.CheckpointLoader(EXAMPLES / "toolbox_checkpoint_2.json")
    assert [t.user_query for t in loader.load_traces()] == ["Remind me to call Ada.", "When?"]


def test_task_state_of_a_checkpoint_is_what_task_completion_scores(tmp_path: Path) -> None:
    checkpoint = json.loads((EXAMPLES / "toolbox_checkpoint_2.json").read_text())
    checkpoint["task_state"] = {
        "t1": {"id": "t1", "status": "completed", "created_at": "2026-01-03T12:00:01"},
        "t2": {"id": "t2", "status": "failed", "created_at": "2026-01-03T12:01:00"},
        "t3": {"id": "t3", "status": "Completed"},
        "odd": "not a task",
    }
    path = tmp_path / "checkpoint.json"
    path.write_text(json.dumps(checkpoint))
    first, second = compat.CheckpointLoader(path).load_episodes()
    score = compat.TaskCompletionReward().score
    assert score(first) == 1.0
    assert score(second) == 0.5


def trace(**fields: Any) -> compat.ExecutionTrace:
    return compat.ExecutionTrace(user_query="count files", **fields)


def call(success: bool) -> compat.ToolCallTrace:
    return compat.ToolCallTrace(tool_name="bash", success=success, error="" if success else "no")


class Short(compat.BaseReward):
    """An own reward."""

    name = "short"

    def compute(self, trace: compat.ExecutionTrace) -> float:
        return float(len(trace.final_response) < 20)


def test_an_engine_combines_rewards_by_weight_and_labels() -> None:
    engine = compat.RewardEngine([compat.ToolSuccessReward(), Short()])
    good = trace(final_response="12", tool_calls=(call(True), call(True)))
    poor = trace(final_response="12", tool_calls=(call(True), call(False), call(False)))
    assert engine.compute_all(good) == {"tool_success": 1.0, "short": 1.0}
    assert engine.compute_combined(poor) == pytest.approx((2.0 / 3 + 1.0) / 3)
    assert engine.get_binary_label(good) is True
    assert engine.get_binary_label(poor) is False
    better, worse = engine.compute_for_group([good, poor])
    assert (better, worse) == (pytest.approx(1.0), pytest.approx(-1.0))


def test_a_reward_that_cannot_say_anything_is_left_out_and_not_zero() -> None:
    engine = compat.RewardEngine([compat.TaskCompletionReward(), Short()])
    assert engine.compute_all(trace(final_response="12")) == {"short": 1.0}
    assert engine.compute_combined(trace(final_response="12")) == 1.0
    with pytest.raises(UserError, match="has no compute"):
        compat.BaseReward().compute(trace())


def test_all_seven_rewards_are_there_unless_told(tmp_path: Path) -> None:
    engine = compat.RewardEngine()
    assert {reward.name for reward in engine.rewards} == {
        *("code_execution", "syntax", "tool_success", "task_completion", "efficiency", "format"),
        "learned",
    }
    scored = engine.compute_all(
        trace(final_response="<b>12</b>", tool_calls=(call(True),), tasks_completed=1)
    )
    assert scored["format"] < 1.0
    assert scored["task_completion"] == 1.0
    assert scored["efficiency"] == pytest.approx((0.9 + 1 - 3 / 2000) / 2)
    assert not scored.keys() & {"code_execution", "syntax", "learned"}  # there is nothing to say


def test_shell_that_can_be_read_is_told_from_shell_that_cannot() -> None:
    reward = compat.SyntaxValidationReward()
    good, bad = "if true; then echo hi; fi", "if true; then"
    assert reward.compute(trace(final_response=f"```bash\n{good}\n```")) == 1.0
    assert reward.compute(trace(final_response=f"```bash\n{bad}\n```")) == 0.0


def test_a_long_answer_is_not_efficient() -> None:
    reward = compat.EfficiencyReward()
    short, long = (reward.compute(trace(final_response="x" * n)) for n in (40, 20_000))
    assert short == pytest.approx((1 + 1 - 10 / 2000) / 2)
    assert long == pytest.approx(0.5)  # no calls, and nothing left of the tokens
    alone = compat.EfficiencyReward(calls=None)
    assert alone.compute(trace(final_response="x" * 20_000)) == 0.0


def test_a_mistake_in_a_reward_s_options_is_one_sentence() -> None:
    with pytest.raises(UserError, match="efficiency has no option 'token'"):
        compat.EfficiencyReward(token=3)


def test_examples_of_a_dataset_are_text(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"q{n // 2}", "completion": f"a{n}", "reward": float(n % 2), "label": n % 2 == 1}
        for n in range(4)
    ]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert compat.KTOExample(prompt="q0", completion="a1", label=True) in (
        compat.KTODatasetBuilder(source).examples()
    )
    first, second = compat.GRPODatasetBuilder(source).examples()
    assert first == compat.GRPOExample(prompt="q0", completions=("a0", "a1"), rewards=(0.0, 1.0))
    assert second.prompt == "q1"


def test_examples_are_rows_to_train_on(tmp_path: Path) -> None:
    examples = [compat.KTOExample(prompt=f"q{n}", completion="a", label=n > 1) for n in range(4)]
    data = agentic(tmp_path, method="kto").prepare_training_data(examples)  # type: ignore[arg-type]
    assert len(data) == 4


def test_a_name_of_another_system_is_answered_there_too() -> None:
    with pytest.raises(AttributeError, match=r"'GRPOTrainer'; here it is practicum\.train"):
        compat.GRPOTrainer  # noqa: B018 - asked for to be refused


def test_a_dataset_pipeline_builds_and_writes_what_the_command_builds(tmp_path: Path) -> None:
    rows = [{"prompt": f"q{n}", "completion": f"a{n}", "label": bool(n % 2)} for n in range(6)]
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    pipeline = compat.DatasetPipeline(source, "kto")
    assert pipeline.get_statistics() == {"train": 6, "heldout": 0, "left_out": {}}
    folder = pipeline.export(tmp_path / "set")
    assert len((folder / "train.jsonl").read_text().splitlines()) == 6
    with pytest.raises(UserError, match="see practicum dataset build"):
        compat.DatasetPipeline(source, "kto", nonsense=1)
    assert compat.GRPODatasetBuilder(source).kind == "grpo"


def test_hardware_is_detected_and_its_settings_are_a_config() -> None:
    found = compat.detect_hardware("cpu")
    assert found.cpu_cores >= 1
    assert found.ram_gb > 0
    ryzen = compat.get_ryzen_optimized_config()
    assert (ryzen.recommended_batch_size, ryzen.lora_r, ryzen.lora_alpha) == (2, 16, 32)
    assert (ryzen.num_generations, ryzen.use_bf16) == (6, True)
    from practicum.core.config.parse_config import build_config

    config = build_config({"env": "math", **ryzen.get_training_args()})
    assert config.rollouts.group_size == 6


def test_a_hardware_config_is_as_detected_but_for_what_is_given() -> None:
    assert compat.HardwareConfig() == compat.detect_hardware()
    given = compat.HardwareConfig(cpu_name="AMD Ryzen 9 5950X", ram_gb=40.0, lora_r=16)
    assert (given.cpu_name, given.ram_gb, given.lora_r) == ("AMD Ryzen 9 5950X", 40.0, 16)
    assert given.cpu_threads == compat.detect_hardware().cpu_threads


def agentic(tmp_path: Path, **more: Any) -> AgenticTrainer:
    small = ("hardware.threads=1", "algorithm.lr=3e-3", "rollouts.max_tokens=8")
    return AgenticTrainer("tiny", runs_dir=tmp_path, overrides=small, **more)


def test_a_trainer_can_be_awaited_inside_a_running_loop_and_without(tmp_path: Path) -> None:
    one = agentic(tmp_path)
    rows = [{"problem": f"say {n}", "actions": [f"number {n}", "done"]} for n in range(4)]
    dataset = one.prepare_training_data(rows)
    assert len(dataset) == 4

    async def script() -> list[float]:
        losses: list[float] = await one.train(dataset, steps=2, quiet=True)
        return losses

    awaited = asyncio.run(script())
    assert len(awaited) == 2
    assert awaited == one.train(dataset, steps=2, quiet=True)


def test_lists_of_actions_are_played_in_the_environment_and_only_good_ones_learned(
    tmp_path: Path,
) -> None:
    one = agentic(tmp_path, env={"name": "math", "level": 1})
    from practicum.assemble.environments import open_environment
    from practicum.core.config.config_sections import EnvConfig
    from practicum.environments.registry import find_task

    environment = open_environment(EnvConfig(name="math", level=1))
    solution = list(environment.reference(find_task(environment, "3x + 7 = 16")))
    rows = [
        {"problem": "3x + 7 = 16", "actions": solution},
        {"problem": "3x + 7 = 16", "actions": [*solution[:-1], "state_answer 4"]},
    ]
    dataset = one.prepare_training_data(rows)
    assert (len(dataset), sum(dataset.left_out.values())) == (1, 1)
    [row] = (dataset.path / "train.jsonl").read_text().splitlines()
    said = json.dumps(json.loads(row))
    assert all(action in said for action in solution)


def test_actions_without_a_problem_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has 'problem', a text, and 'actions'"):
        agentic(tmp_path).prepare_training_data([{"actions": ["a"]}])


@pytest.mark.slow
def test_a_training_config_in_other_words_trains(tmp_path: Path) -> None:
    config = compat.TrainingConfig(
        base_model="tiny",
        env="math",
        num_steps=1,
        batch_size=1,
        num_generations=2,
        output_dir=str(tmp_path),
    )
    trainer = compat.RLTrainer(config)
    with pytest.raises(UserError, match="nothing is trained yet"):
        trainer.save_model(tmp_path / "adapter")
    run = trainer.train(quiet=True, eval={"n": 2}, hardware={"threads": 1})
    assert run.config.rollouts.group_size == 2
    assert run.config.lora.alpha == 32
    assert len(run.metrics) == 1
