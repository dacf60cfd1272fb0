from typing import Any

import pytest

from practicum.core.config.parse_config import (
    RESUMABLE_KEYS,
    apply_overrides,
    build_config,
    changed_keys,
    parse_yaml,
)
from practicum.core.errors import ConfigError


def complaint(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        build_config(values, "run.yaml")
    return str(caught.value)


def test_a_file_is_read_as_nested_keys() -> None:
    text = "env: {name: math, level: 2}\nsteps: 3\nlora: light\n"
    assert parse_yaml(text, "run.yaml") == {
        "env": {"name": "math", "level": 2},
        "steps": 3,
        "lora": "light",
    }


def test_an_empty_file_sets_nothing() -> None:
    assert parse_yaml("# all defaults\n", "run.yaml") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("env: math\nsteps: 1\nsteps: 2\n", "run.yaml: line 3: the key 'steps' is given twice"),
        ("env: {level: 1, level: 2}\n", "run.yaml: line 1: the key 'level' is given twice"),
        ("env: math\n12: x\n", "run.yaml: line 2: 12 is not a key"),
        ("steps: [1\n", "run.yaml line 2: not valid YAML"),
        ("env: math: shell\n", "run.yaml line 1: not valid YAML"),
        ("- env\n", "run.yaml: expected `key: value` lines, found list"),
        ("just words\n", "run.yaml: expected `key: value` lines, found str"),
        ("env: !!python/object:os.system {}\n", "run.yaml line 1: not valid YAML"),
        ("name: 2024-13-45\n", "run.yaml: not valid YAML: month must be in 1..12"),
        ("env: a\x00b\n", "run.yaml: not valid YAML: it cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence_that_names_it(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "run.yaml")
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_an_override_reaches_the_key_its_dotted_path_names() -> None:
    values = apply_overrides({"rollouts": {"group_size": 8}}, ["rollouts.group_size=4", "seed=7"])
    assert values == {"rollouts": {"group_size": 4}, "seed": 7}


def test_an_override_leaves_the_values_it_was_given_alone() -> None:
    values = {"rollouts": {"group_size": 8}}
    apply_overrides(values, ["rollouts.group_size=4"])
    assert values == {"rollouts": {"group_size": 8}}


def test_the_last_of_two_overrides_wins() -> None:
    assert apply_overrides({}, ["steps=1", "steps=2"]) == {"steps": 2}


@pytest.mark.parametrize(
    ("given", "override", "meant"),
    [
        ({"env": "math"}, "env.level=2", {"env": {"name": "math", "level": 2}}),
        ({"model": "tiny"}, "model.device=cpu", {"model": {"name": "tiny", "device": "cpu"}}),
        ({"lora": "light"}, "lora.r=4", {"lora": {"preset": "light", "r": 4}}),
        ({"algorithm": "grpo"}, "algorithm.kl=0.1", {"algorithm": {"name": "grpo", "kl": 0.1}}),
    ],
)
def test_a_part_given_as_one_word_can_still_be_overridden_inside(
    given: dict[str, Any], override: str, meant: dict[str, Any]
) -> None:
    assert apply_overrides(given, [override]) == meant


def test_an_override_may_hold_lists_maps_text_and_equals_signs() -> None:
    values = apply_overrides({}, ["env.level=[1, 2]", "eval={n: 5}", "runs_dir=a=b", "model="])
    assert values == {"env": {"level": [1, 2]}, "eval": {"n": 5}, "runs_dir": "a=b", "model": ""}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("steps", "'steps' is not an override; overrides are written key=value"),
        ("=3", "'=3' is not an override"),
        ("steps=[1", "'steps=[1': the value after = is not valid YAML"),
        ("steps=2024-13-45", "'steps=2024-13-45': the value after = is not valid YAML"),
        ("eval={n: 1, n: 2}", "'eval={n: 1, n: 2}': line 1: the key 'n' is given twice"),
        ("seed.deep=1", "'seed' holds 3, so 'seed.deep' cannot be set"),
    ],
)
def test_a_bad_override_is_one_sentence_that_repeats_it(override: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_overrides({"seed": 3}, [override])
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("text", ["lr: 1e-5", "lr: 1.0e-5", "lr: '1e-5'", "lr: 0.00001"])
def test_a_number_that_yaml_takes_for_text_is_still_that_number(text: str) -> None:
    algorithm = parse_yaml(text, "run.yaml")
    assert build_config({"env": "math", "algorithm": algorithm}).algorithm.lr == 1e-5


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    assert complaint({"env": "math", "stpes": 1}).startswith(
        "run.yaml: unknown key 'stpes'; did you mean 'steps'? (allowed here: agent, algorithm, "
    )


def test_an_unknown_key_inside_a_part_is_named_by_its_dotted_path() -> None:
    said = complaint({"env": "math", "rollouts": {"groupsize": 4}})
    assert "unknown key 'rollouts.groupsize'; did you mean 'rollouts.group_size'?" in said
    assert "tasks_per_step" in said


def test_an_unknown_key_like_no_other_lists_what_is_allowed() -> None:
    said = complaint({"env": "math", "checkpoints": {"zzz": 4}})
    assert said.startswith(
        "run.yaml: unknown key 'checkpoints.zzz'; allowed here: adapter_bin, every, keep"
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"env": {"level": 1}}, "run.yaml: the key 'env.name' is missing; add `env.name: ...`"),
        ({"env": "math", "steps": 0}, "steps = 0 cannot be used: input should be greater than"),
        ({"env": "math", "steps": 1.5}, "steps = 1.5 cannot be used"),
        ({"env": "math", "lora": "big"}, "lora.preset = 'big' cannot be used: input should be 'l"),
        ({"env": "math", "eval": 5}, "eval = 5 cannot be used: write `key: value` lines under it"),
        ({"env": "math", "rollouts": {"group_size": 0}}, "rollouts.group_size = 0 cannot be used"),
        ({"env": "math", "algorithm": {"lr": float("inf")}}, "algorithm.lr = inf cannot be used"),
        ({"env": "math", "algorithm": {"lr": "fast"}}, "algorithm.lr = 'fast' cannot be used"),
    ],
)
def test_a_bad_value_is_one_sentence_with_the_key_and_what_is_allowed(
    values: dict[str, Any], said: str
) -> None:
    message = complaint(values)
    assert said in message
    assert "\n" not in message


def test_configs_that_do_not_differ_have_no_changed_keys() -> None:
    config = build_config({"env": {"name": "math", "level": 2}, "lora": "light"})
    assert changed_keys(config, build_config(config.model_dump())) == []


def test_a_changed_key_is_shown_with_both_values() -> None:
    before = build_config({"env": "math"})
    after = build_config({"env": {"name": "math", "level": 2}, "algorithm": {"lr": 1e-5}})
    assert changed_keys(before, after) == [
        "algorithm.lr (0.0002 -> 1e-05)",
        "env.level (None -> 2)",
    ]


def test_a_removed_option_counts_as_changed() -> None:
    before = build_config({"env": {"name": "math", "level": 2}})
    assert changed_keys(before, build_config({"env": "math"})) == ["env.level (2 -> None)"]


def test_a_resumed_run_may_go_further_and_lie_elsewhere() -> None:
    before = build_config({"env": "math", "steps": 5, "runs_dir": "a"})
    after = build_config({"env": "math", "steps": 9, "runs_dir": "b"})
    assert changed_keys(before, after) == []
    assert {"steps", "runs_dir"} <= RESUMABLE_KEYS


def test_a_number_in_a_path_is_a_place_in_a_list_and_the_file_is_left_alone() -> None:
    values = {"stages": [{"steps": 20, "algorithm": "sft"}, {"steps": 30}]}
    found = apply_overrides(values, ["stages.0.steps=10", "stages.0.algorithm.lr=1e-3"])
    assert found["stages"][0] == {"steps": 10, "algorithm": {"name": "sft", "lr": "1e-3"}}
    assert values["stages"][0]["steps"] == 20


@pytest.mark.parametrize("word", ["stages.2.steps=1", "stages.first.steps=1", "stages.-1.steps=1"])
def test_a_place_that_a_list_does_not_have_is_said(word: str) -> None:
    with pytest.raises(ConfigError, match=r"is a list.*write one of 0 to 1, such as stages\.0"):
        apply_overrides({"stages": [{}, {}]}, [word])


def test_several_environments_are_parts_of_one() -> None:
    config = build_config({"env": ["math", {"name": "shell", "weight": 2}]})
    assert config.env_name == "mixed"
    assert config == build_config(config.model_dump(mode="json"))
