"""The page on rewards: its configs are read, and it names every component and option."""

import re
from pathlib import Path

import pytest

from practicum.core.config.parse_config import build_config, parse_yaml
from practicum.core.config.reward_config import COMPONENTS, ComponentConfig

PAGE = (Path(__file__).parents[4] / "docs" / "rewards.md").read_text(encoding="utf-8")
CONFIGS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", CONFIGS)
def test_a_config_on_the_page_is_accepted(text: str) -> None:
    assert build_config(parse_yaml(text, "rewards.md")).reward.components


def test_there_are_configs() -> None:
    assert len(CONFIGS) >= 3


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_component_is_there_with_all_its_options(name: str) -> None:
    section = PAGE.partition(f"### `{name}`\n")[2].partition("\n###")[0]
    assert section
    own = COMPONENTS[name].model_fields.keys() - ComponentConfig.model_fields.keys()
    missing = [option for option in own if not re.search(rf"\b{option}\b", section)]
    assert missing == []
