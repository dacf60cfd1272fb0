"""A config file of TAC-RL: every key becomes one of ours, or a line says why it does not."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from practicum.core.config.foreign_config import BASE, OFFICE, RULES, in_our_keys, is_foreign
from practicum.core.config.parse_config import build_config, parse_yaml
from practicum.core.errors import ConfigError
from practicum.core.word_table import TAC, WORDS

REPOSITORY = Path(__file__).parents[4]
THEIRS = """
model: {name: q7, base_model_path: tiny, model_type: qwen2, context_length: 32768, device: "cuda:0",
  load_in_8bit: true, torch_dtype: torch.float16}
training: {algorithm: GRPO, batch_size: 2, learning_rate: 1e-5, max_episodes_per_task: 4,
  current_phase: advanced, success_threshold: 0.65, checkpoint_frequency: 25,
  evaluation_frequency: 10, output_dir: outputs, max_training_hours: 48}
lora: {r: 8, lora_alpha: 16, lora_dropout: 0.1, target_modules: [q_proj, v_proj], bias: none}
openhands: {max_iterations: 50, timeout: 180}
environment: {server_hostname: localhost}
monitoring: {use_wandb: true}
"""


def test_a_whole_file_is_a_config_here() -> None:
    values, lines = in_our_keys(parse_yaml(THEIRS, "theirs.yaml"))
    config = build_config(values)
    assert (config.model.name, config.model.device, config.model.dtype) == (
        *("tiny", "cuda"),
        "bfloat16",
    )
    assert (config.algorithm.name, config.algorithm.lr, config.runs_dir) == (
        "grpo",
        1e-5,
        "outputs",
    )
    assert (config.rollouts.tasks_per_step, config.rollouts.group_size) == (2, 4)
    assert (config.rollouts.max_turns, config.agent.deadline_s) == (50, 180)
    assert config.env is not None
    assert (config.env_name, config.env.options["rounds"]) == ("office", 50)
    assert (config.checkpoints.every, config.eval.every) == (25, 10)
    assert config.curriculum.model_dump()["phases"] == ((3,), (4,))
    assert config.curriculum.model_dump()["threshold"] == 0.65
    assert (config.lora.r, config.lora.alpha, config.lora.dropout) == (8, 16, 0.1)
    assert config.lora.targets == ("q_proj", "v_proj")
    for said in (
        "training.batch_size: 2 is rollouts.tasks_per_step=2",
        "model.load_in_8bit: true has no counterpart and is left out (there are no 8-bit",
        "model.torch_dtype: torch.float16 is model.dtype=bfloat16 (float16 is not used)",
        "training.max_training_hours: 48 has no counterpart and is left out",
        "lora.bias: none has no counterpart and is left out",
        "monitoring.use_wandb: true is not needed (every step is in metrics.jsonl)",
    ):
        assert any(line.startswith(said) for line in lines), said


def test_what_it_leaves_open_is_as_in_our_config_for_the_same() -> None:
    ours = parse_yaml((REPOSITORY / OFFICE).read_text(encoding="utf-8"), OFFICE)
    for section, values in BASE.items():
        kept = values if isinstance(values, dict) else {"": values}
        found = ours[section] if isinstance(ours[section], dict) else {"": ours[section]}
        assert kept.items() <= {key: found[key] for key in kept}.items()


@pytest.mark.parametrize("word", [w for w in WORDS if w.kind == "key" and w.system == TAC])
def test_every_key_that_is_known_of_it_has_a_line_that_says_what_it_became(word: Any) -> None:
    section, _, key = word.theirs.partition(".")
    values = {section: {key: "1"} if key else {"warmup": {"domains": ["hr"]}}, "training": {}}
    values[section] = {key: "1"} if key else values[section]
    [line, _] = [x for x in in_our_keys(values)[1] if not x.startswith("training: ")]
    assert line.startswith(f"{word.theirs}: ")
    assert " is " in line
    assert word.theirs in RULES or not word.ours or f"is {word.ours}=" in line


NAMES = some.sampled_from(
    ["training", "lora", "model", "openhands", "monitoring", "r", "lr", "name", "batch_size"]
)
VALUES = some.none() | some.booleans() | some.integers() | some.text(max_size=5)
NESTED = some.recursive(VALUES, lambda inner: some.dictionaries(NAMES, inner, max_size=4))


def paths(values: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in values.items():
        inner = isinstance(value, dict) and value
        found += paths(value, f"{prefix}{key}.") if inner else [f"{prefix}{key}"]
    return found


@given(some.dictionaries(NAMES, NESTED, max_size=4))
def test_no_key_is_dropped_without_a_line(values: dict[str, Any]) -> None:
    config, lines = in_our_keys(values)
    assert [line.partition(": ")[0] for line in lines[:-1]] == paths(values)
    with suppress(ConfigError):  # for a value that is none of that key
        build_config(config)


@pytest.mark.parametrize(
    "ours", [{"env": "math"}, {"model": {"name": "tiny"}}, {"training": "math"}, {"model": "tiny"}]
)
def test_a_file_of_ours_is_none_of_theirs(ours: dict[str, Any]) -> None:
    assert not is_foreign(ours)
