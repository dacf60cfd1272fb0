"""Environments by name, loaded only when one is asked for.

A package of your own adds an environment with an entry point:

```toml
[project.entry-points."practicum.environments"]
chores = "my_package.chores:ChoresEnvironment"
```

Without a package, the same text is a name: `env: my_package.chores:ChoresEnvironment`.
"""

import difflib
import importlib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ValidationError, create_model

from practicum.core.config.parse import explain
from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Environment

__all__ = [
    "EnvironmentClass",
    "build_environment",
    "build_level",
    "environment_class",
    "environment_names",
]

BUILT_IN = {
    "math": "practicum.environments.discrete.math:MathEnvironment",
    "remote": "practicum.environments.remote:RemoteEnvironment",
    "shell": "practicum.environments.shell.environment:ShellEnvironment",
    "tasks": "practicum.environments.tasks:TasksEnvironment",
}
ENTRY_POINTS = "practicum.environments"


class EnvironmentClass(Protocol):
    """What is registered: a class made from its checked options."""

    Options: ClassVar[type[BaseModel]]
    """Model of the options; `Stage` of `practicum.core.config` refuses unknown keys."""
    all_levels: ClassVar[tuple[int, ...]]
    """Levels its `level` option takes; `(1,)` for an environment without that option."""

    def __call__(self, options: Any) -> Environment:
        """The environment with these options."""
        ...


def environment_names() -> list[str]:
    """Every name that `build_environment` takes."""
    return sorted({*BUILT_IN, *_plugins()})


def environment_class(name: str) -> EnvironmentClass:
    """The class behind a name, or a `ConfigError` that says which names there are."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: EnvironmentClass = getattr(importlib.import_module(module), attribute)
        return built_in
    plugin = _plugins().get(name)
    if plugin is None and ":" in name:
        plugin = EntryPoint(name=name, value=name, group=ENTRY_POINTS)
    if plugin is None:
        raise ConfigError(_unknown(name))
    return _load(plugin)


def build_environment(name: str, options: Mapping[str, Any] | None = None) -> Environment:
    """An environment from its name and options.

    >>> build_environment("math", {"level": 2}).name
    'math'
    """
    kind = environment_class(name)
    whole = create_model("Env", env=(kind.Options, ...))
    try:
        checked = whole.model_validate({"env": dict(options or {})})
    except ValidationError as error:
        raise ConfigError(explain(error, whole)) from None
    return kind(getattr(checked, "env"))  # noqa: B009 - the field is made at run time


def build_level(name: str, level: int, options: Mapping[str, Any] | None = None) -> Environment:
    """An environment with only the tasks of one level, for one without levels simply itself.

    >>> next(build_level("math", 3).tasks("train", 0)).level
    3
    """
    has_levels = "level" in environment_class(name).Options.model_fields
    return build_environment(name, {**(options or {}), **({"level": level} if has_levels else {})})


def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _load(plugin: EntryPoint) -> EnvironmentClass:
    try:
        loaded: EnvironmentClass = plugin.load()
    except Exception as error:  # another package's import may fail in any way
        raise UserError(
            f"the environment {plugin.name!r} cannot be loaded from {plugin.value!r}: "
            f"{type(error).__name__}: {error}; mend or uninstall the package that brings it"
        ) from error
    missing = [name for name in ("Options", "all_levels") if not hasattr(loaded, name)]
    if missing:
        raise UserError(
            f"the environment {plugin.name!r} ({plugin.value}) has no {' and no '.join(missing)}; "
            "give its class both, as practicum.environments.registry.EnvironmentClass says"
        )
    return loaded


def _unknown(name: str) -> str:
    names = environment_names()
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"unknown environment {name!r}; {hint}known are {', '.join(names)}; "
        "for one of your own give module:Class"
    )
