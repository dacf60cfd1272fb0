"""Config models of the curricula: which tasks a run trains on, given how earlier ones went."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.config_sections import ConfigModel

Level = Annotated[int, Field(ge=1)]


class NoCurriculumConfig(ConfigModel):
    """The environment's own order of tasks."""

    name: Literal["none"] = "none"


class AutoCurriculumConfig(ConfigModel):
    """Adaptive by family where tasks name several, else the environment's own order.

    Tasks of several environments come in the shares of their weights.
    """

    name: Literal["auto"] = "auto"


class MeasuredConfig(ConfigModel):
    """What the curricula that measure success have in common."""

    levels: tuple[Level, ...] = ()
    """Levels to choose from, easiest first; `env.level` unless given, or else every level of the
    environment."""
    threshold: float = Field(default=0.7, gt=0.0, lt=1.0)
    """Success from which something is mastered: the lower end of its 95 % interval must reach it.
    It is forgotten again once the upper end is below."""
    min_episodes: int = Field(default=64, ge=1)
    """Episodes before anything counts as mastered or forgotten."""
    memory: float = Field(default=8.0, gt=0.0)
    """Groups after which an earlier group counts half."""
    replay: float = Field(default=0.2, ge=0.0, lt=1.0)
    """Share of the tasks that is kept for what was learned before: with `phases` of the phases
    passed, with `adaptive` of what is forgotten."""

    @model_validator(mode="after")
    def _each_level_once(self) -> "MeasuredConfig":
        if len(set(self.levels)) < len(self.levels):
            raise PydanticCustomError("levels", "a level is named twice; name each once")
        return self


class PhasesConfig(MeasuredConfig):
    """Warm-up, intermediate, advanced, expert: one phase after the other."""

    name: Literal["phases"] = "phases"
    phases: tuple[tuple[Level, ...], ...] = ()
    """Levels of each phase, such as [[1], [2, 3], [4]]; the levels spread evenly over at most four
    phases unless given."""

    @model_validator(mode="after")
    def _phases_are_levels(self) -> "PhasesConfig":
        named = [level for phase in self.phases for level in phase]
        if self.phases and self.levels:
            raise PydanticCustomError("phases", "levels and phases exclude each other; keep phases")
        if not all(self.phases) or len(set(named)) < len(named):
            raise PydanticCustomError(
                "phases", "every phase has at least one level, and each level is in one phase"
            )
        return self


class AdaptiveConfig(MeasuredConfig):
    """Weight goes where groups have variance."""

    name: Literal["adaptive"] = "adaptive"
    by: Literal["auto", "env", "level", "family", "skill", "domain", "service", "task"] = "auto"
    """What difficulty is measured of: environments, levels, families (`family` in a task's data),
    skills (`skill` or `domain`) or single tasks, of which `auto` takes the first that there is more
    than one of; or the domains alone, or the `services` that tasks need."""
    explore: float = Field(default=0.1, gt=0.0, le=1.0)
    """Share of the tasks that goes, in turn, to what has not been tried for longest."""


def _by_name(value: Any) -> Any:
    if isinstance(value, str):
        return {"name": value}
    if isinstance(value, dict) and "name" not in value:
        raise PydanticCustomError(
            "curriculum", "options need the curriculum's name; add name: adaptive, or name: phases"
        )
    return value


AnyCurriculum = Annotated[
    AutoCurriculumConfig | NoCurriculumConfig | PhasesConfig | AdaptiveConfig,
    Field(discriminator="name"),
    BeforeValidator(_by_name),
]
