"""How an episode's evidence becomes its score."""

from typing import Any, Literal

from pydantic import SerializeAsAny, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.reward_components import ComponentConfig, component_of
from practicum.core.config.stage import Stage

__all__ = ["RewardConfig"]


class RewardConfig(Stage):
    """How an episode's evidence becomes its score."""

    name: Literal["auto", "turns", "os"] = "auto"
    """`turns`: the sum of what the environment paid for each turn; `os`: one value for the whole
    episode, by its outcome; `auto`: what the environment is made for."""
    correct: float = 1.0
    """With `os`: the task was done."""
    incorrect: float = -0.5
    """With `os`: it was not."""
    unknown: float = 0.0
    """With `os`: it cannot be said whether it was."""
    malformed: float | None = None
    """With `os`: it was not, and the episode ended with a turn in no known form; as `incorrect`
    unless given."""
    components: tuple[SerializeAsAny[ComponentConfig], ...] = ()
    """In place of all that: parts with weights, such as [{name: outcome}, {name: efficiency,
    turns: 8, weight: 0.2}]; see docs/rewards.md."""
    combine: Literal["sum", "normalise"] = "sum"
    """With `components`: their weighted sum; or each divided by its spread in the group first, so
    that a part counts by its weight and not by its range."""

    @field_validator("components", mode="before")
    @classmethod
    def _each_by_its_name(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise PydanticCustomError(
                "components", "components are a list, such as [{{name: outcome, weight: 1.0}}]"
            )
        return tuple(component_of(one) for one in value)

    @model_validator(mode="after")
    def _values_belong_to_outcomes(self) -> "RewardConfig":
        values = _DEFAULT_VALUES.keys() & self.model_fields_set
        stray = sorted(key for key in values if getattr(self, key) != _DEFAULT_VALUES[key])
        if self.name == "turns" and stray:
            raise PydanticCustomError(
                "reward",
                "{key} is for the reward `os`; `turns` takes what the environment pays",
                {"key": stray[0]},
            )
        if self.components and (stray or self.name != "auto"):
            raise PydanticCustomError(
                "reward",
                "{key} cannot be given beside components; write it as one of them",
                {"key": stray[0] if stray else "name"},
            )
        return self

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "RewardConfig":
        if not self.components and self.combine != "sum":
            raise PydanticCustomError("reward", "combine is for components; add components: [...]")
        labels = [part.logged_as for part in self.components]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise PydanticCustomError(
                "reward",
                "two components are called {label}; give one of them a label: of its own",
                {"label": twice[0]},
            )
        return self


_DEFAULT_VALUES = {"correct": 1.0, "incorrect": -0.5, "unknown": 0.0, "malformed": None}
