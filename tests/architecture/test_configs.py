"""Every config that ships is one a run would accept."""

from pathlib import Path

import pytest

from practicum.assemble.environments import open_environment
from practicum.core.config.parse_config import build_config, parse_yaml

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted(CONFIGS.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_shipped_config_is_accepted_with_its_environment_options(path: Path) -> None:
    config = build_config(parse_yaml(path.read_text(encoding="utf-8"), path.name), path.name)
    if config.env is None:
        assert not config.needs_env
        return
    environment = open_environment(config.env)
    names = {part["name"] for part in config.env.options.get("parts", [])} or {config.env.name}
    assert next(environment.tasks("train", config.seed)).env in names


def test_the_demo_has_a_config() -> None:
    assert CONFIGS / "demo.yaml" in FILES


def test_configs_have_one_spelling_of_their_ending() -> None:
    assert sorted(path for path in CONFIGS.iterdir() if path.is_file()) == FILES
