"""Configs that nobody would write: each is a config or one sentence.

`pytest --hypothesis-profile=many` tries 10,000 for each test.
"""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel

from practicum.core.config.parse_config import (
    MOST_VALUES,
    apply_overrides,
    build_config,
    parse_yaml,
)
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(["grpo", "math", "tiny", "auto", "1e-5", "-0", "full", "reference", 10**400]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=5,
)


def keys_of(model: type[BaseModel]) -> list[str]:
    return list(model.model_fields)


def sections() -> dict[str, list[str]]:
    """The keys of each section that is a model."""
    found = {}
    for name, field in RunConfig.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found[name] = keys_of(kind)
    return found


SECTIONS = sections()


@st.composite
def near_configs(draw: st.DrawFn) -> dict[str, Any]:
    """Known keys with any values, and some unknown ones."""
    config: dict[str, Any] = {"env": draw(st.one_of(st.just("math"), VALUES))}
    for name in draw(st.lists(st.sampled_from(list(RunConfig.model_fields)), max_size=4)):
        inner = SECTIONS.get(name)
        if inner and draw(st.booleans()):
            keys = draw(st.lists(st.sampled_from([*inner, "name", "typo"]), max_size=3))
            config[name] = {key: draw(VALUES) for key in keys}
        else:
            config[name] = draw(VALUES)
    return config


@given(values=near_configs())
@example(values={"env": "math", "lora": {"preset": []}})  # it was a TypeError
def test_any_values_are_a_config_or_one_sentence(values: dict[str, Any]) -> None:
    with suppress(ConfigError):
        assert isinstance(build_config(values), RunConfig)


WORDS = st.one_of(
    st.text(max_size=30),
    st.builds(
        lambda section, key, value: f"{section}.{key}={value}",
        st.sampled_from([*RunConfig.model_fields, "", "x"]),
        st.sampled_from(["name", "lr", "n", "0", "", "a.b"]),
        st.text(max_size=15),
    ),
)


@given(words=st.lists(WORDS, max_size=4))
def test_any_words_of_a_command_line_are_a_config_or_one_sentence(words: list[str]) -> None:
    with suppress(ConfigError):
        build_config(apply_overrides({"env": "math"}, words))


@given(
    text=st.one_of(
        st.text(max_size=120), st.text(alphabet="{}[]:,-&*!|>'\"\n ab0#?%@`", max_size=60)
    )
)
def test_any_text_is_a_config_file_or_one_sentence(text: str) -> None:
    with suppress(ConfigError):
        build_config(parse_yaml(text, "run.yaml"))


def alias_bomb(levels: int, width: int) -> str:
    """A few lines that stand for width ** levels values."""
    lines = ["a0: &a0 x"]
    for at in range(1, levels):
        inner = ", ".join([f"*a{at - 1}"] * width)
        lines.append(f"a{at}: &a{at} [{inner}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (alias_bomb(9, 10), "more than 20,000 values"),
        (alias_bomb(60, 2), "more than 20,000 values"),
        ("env: " + "[" * 5000 + "]" * 5000, "nested more than 40 deep"),
        ("env: " + "{a: " * 5000 + "}" * 5000, "nested more than 40 deep"),
        ("\n".join(" " * i + "a:" for i in range(500)), "nested more than 40 deep"),
        ("- " * 5000 + "a", "nested more than 40 deep"),
        ("env: &a [*a]", "stands inside what it names"),
        ("env: &a {b: *a}", "stands inside what it names"),
        ("x" * 300_000, "more than 200,000 characters"),
        ("steps: 1" + ":01" * 5000, "a number of 15,001 characters"),
        ("steps: " + "9" * 5000, "a number of 5,000 characters"),
    ],
)
def test_a_yaml_text_that_would_take_for_ever_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as wrong:
        build_config(parse_yaml(text, "run.yaml"))
    assert str(wrong.value).startswith("run.yaml: ")
    with pytest.raises(ConfigError):
        apply_overrides({}, [f"env={text}"])


PIECES = st.sampled_from(
    ["&a ", "*a", "&b ", "*b", "[", "]", "{", "}", ", ", ": ", "- ", "\n", "<<: ", "x", "1:01", "'"]
)


@given(text=st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=40).map("".join)))
@example(text="a: &a\n  <<: *a")
@example(text="? [a]\n: b")
def test_any_text_is_values_within_bounds_or_one_sentence(text: str) -> None:
    with suppress(ConfigError):
        assert count(parse_yaml(text, "run.yaml")) <= MOST_VALUES


def count(values: Any) -> int:
    inner = values.values() if isinstance(values, dict) else values
    return 1 + sum(map(count, inner)) if isinstance(values, dict | list) else 1
