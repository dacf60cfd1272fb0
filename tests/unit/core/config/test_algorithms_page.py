"""The page on algorithms: its configs are read, and it has every method's options and defaults."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic_core import PydanticUndefined

from practicum.core.config.algorithm_config import ALGORITHMS, AlgorithmConfig
from practicum.core.config.parse_config import build_config, parse_yaml

PAGE = (Path(__file__).parents[4] / "docs" / "algorithms.md").read_text(encoding="utf-8")
CONFIG = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPTION = re.compile(r"^\| `(\w+)` \| (.+?) \|", re.MULTILINE)


def section(name: str) -> str:
    return PAGE.partition(f"### `{name}`\n")[2].partition("\n##")[0]


def value(text: str) -> Any:
    return PydanticUndefined if text == "must be given" else yaml.safe_load(text)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_method_has_the_options_and_defaults_of_the_config(name: str) -> None:
    listed = {option: value(text) for option, text in OPTION.findall(section(name))}
    own = ALGORITHMS[name].model_fields.items()
    common = AlgorithmConfig.model_fields
    assert listed == {option: field.default for option, field in own if option not in common}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_method_has_an_example_that_is_accepted(name: str) -> None:
    [text] = CONFIG.findall(section(name))
    assert build_config(parse_yaml(text, "algorithms.md")).algorithm.name == name


def test_the_example_of_stages_is_accepted() -> None:
    [text] = CONFIG.findall(PAGE.partition("## Stages\n")[2].partition("\n## ")[0])
    assert len(build_config(parse_yaml(text, "algorithms.md")).stages) == 2


def test_what_all_methods_take_has_its_defaults_on_the_page() -> None:
    for option in ("lr", "weight_decay", "max_grad_norm", "micro_batch_tokens"):
        shown = re.search(rf"`{option}` \((\S+?)[:)]", PAGE)
        assert shown is not None, option
        assert float(shown[1]) == AlgorithmConfig.model_fields[option].default


@pytest.mark.parametrize("model", ["tiny", "smollm2-135m"])
def test_there_is_a_place_for_the_results(model: str) -> None:
    assert PAGE.count(f"<!-- results: {model} -->") == 1
    assert PAGE.count(f"<!-- end of results: {model} -->") == 1
