"""The reward that a command line names, for scoring stored episodes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError, create_model

from practicum.core.config.parse_config import apply_overrides, explain, parse_yaml
from practicum.core.config.reward_config import RewardConfig
from practicum.core.errors import ConfigError

PRESETS = ("os", "turns", "auto")


def named_reward(named: str, options: Sequence[str]) -> RewardConfig:
    """The config of a reward.

    Args:
        named: `os`, `turns`, components with commas between them, or a config file that has a
            `reward:`.
        options: Words such as `correct=2`, as a run takes them under `reward.`.
    """
    if named.endswith((".yaml", ".yml")):
        values = _reward_of_file(Path(named))
    elif named in PRESETS:
        values = {"name": named}
    else:
        values = {"components": [{"name": name.strip()} for name in named.split(",")]}
    words = [f"reward.{word.removeprefix('reward.')}" for word in options]
    whole = create_model("Scoring", reward=(RewardConfig, RewardConfig()))
    try:
        checked = whole.model_validate(apply_overrides({"reward": values}, words))
    except ValidationError as error:
        raise ConfigError(explain(error, whole)) from None
    config: RewardConfig = getattr(checked, "reward")  # noqa: B009 - the field is made here
    return config


def _reward_of_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"there is no config file {str(path)!r}; name one, or a reward")
    given = parse_yaml(path.read_text(encoding="utf-8"), str(path)).get("reward")
    if given is None:
        raise ConfigError(f"{path} has no key 'reward'; add `reward: os` or components")
    return {"name": given} if isinstance(given, str) else dict(given)
