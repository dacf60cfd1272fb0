"""From YAML text and `key=value` overrides to a checked `RunConfig`; errors are one sentence."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError, create_model

from practicum.core.config.algorithm_config import (
    AlgorithmConfig,
    algorithm_plugins,
)
from practicum.core.config.run_config import SHORTHANDS, RunConfig
from practicum.core.errors import ConfigError, nearest
from practicum.core.user_code import unnamed_code

C = TypeVar("C", bound=AlgorithmConfig)

RESUMABLE_KEYS = frozenset(
    {"steps", "runs_dir", "on_collapse", "hardware.profile", "hardware.processes"}
)
"""Keys a resumed run may change: they do not alter any step already done."""


MOST_CHARACTERS = 200_000
"""Of a config file; PyYAML reads some 100,000 in a second."""
MOST_VALUES = 20_000
"""Values of a config when each alias is written out: a few lines of aliases can make billions."""
DEEPEST = 40
"""Lists and sections inside each other."""
LONGEST_NUMBER = 400
"""Characters of a number; more are no setting, and printing them may fail."""


class _StrictLoader(yaml.SafeLoader):
    """`SafeLoader` within bounds; of duplicate keys YAML would silently keep the last."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_CHARACTERS:
            raise ConfigError(
                f"it has more than {MOST_CHARACTERS:,} characters, which no config has; put data "
                "into a file of its own"
            )
        super().__init__(text)
        self._values = self._depth = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        is_alias = self.check_event(yaml.AliasEvent)
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        before, line = self._values, event.start_mark.line + 1
        self._depth += 1
        if self._depth > DEEPEST:
            raise ConfigError(f"line {line}: it is nested more than {DEEPEST} deep; write it flat")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and id(node) not in self._sizes:
            raise ConfigError(f"line {line}: an alias stands inside what it names; write it out")
        self._values += self._sizes[id(node)] if is_alias else 1
        if self._values > MOST_VALUES:
            raise ConfigError(
                f"line {line}: it has more than {MOST_VALUES:,} values with its aliases written "
                "out; put data into a file of its own"
            )
        self._sizes.setdefault(id(node), self._values - before)
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        node = super().compose_scalar_node(anchor)
        if node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER:
            line = node.start_mark.line + 1
            raise ConfigError(
                f"line {line}: a number of {len(node.value):,} characters; shorten it"
            )
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError(
                    f"line {key_node.start_mark.line + 1}: {key!r} is not a key; "
                    "keys are words, written as `key: value`"
                )
            if key in seen:
                raise ConfigError(
                    f"line {key_node.start_mark.line + 1}: the key {key!r} is given twice; "
                    "keep one of them"
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, source: str) -> dict[str, Any]:
    r"""A config file's text as nested dictionaries.

    >>> parse_yaml("{env: math, steps: 3}", "run.yaml")
    {'env': 'math', 'steps': 3}
    """
    try:
        value = yaml.load(text, Loader=_StrictLoader)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise ConfigError(f"{source}{where}: not valid YAML: {problem}") from None
    except ValueError as error:
        # PyYAML lets the plain error through for what looks like a date and is none: 2024-13-45.
        raise ConfigError(f"{source}: not valid YAML: {error}; put such text in quotes") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: expected `key: value` lines, found {type(value).__name__}")
    return value


def apply_overrides(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """Values with `dotted.path=value` words of the command line put in.

    >>> apply_overrides({"env": "math"}, ["env.level=2", "algorithm.lr=1e-5"])
    {'env': {'name': 'math', 'level': 2}, 'algorithm': {'lr': '1e-5'}}
    >>> apply_overrides({"stages": [{"steps": 20}, {"steps": 30}]}, ["stages.0.steps=10"])
    {'stages': [{'steps': 10}, {'steps': 30}]}
    """
    result: dict[str, Any] = _copy(values)
    # `model=tiny` stands for a whole section: it comes first, or it would undo `model.device=cpu`.
    for word in sorted(overrides, key=lambda word: "." in word.partition("=")[0]):
        path, equals, text = word.partition("=")
        if not equals or not path:
            raise ConfigError(
                f"{word!r} is not an override; overrides are written key=value, such as steps=12"
            )
        try:
            value = yaml.load(text, Loader=_StrictLoader) if text else ""
        except ConfigError as error:
            raise ConfigError(f"{word!r}: {error}") from None
        except (yaml.YAMLError, ValueError):
            raise ConfigError(f"{word!r}: the value after = is not valid YAML") from None
        _set(result, path.split("."), value)
    return result


def _copy(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {key: _copy(value) for key, value in values.items()}
    return [_copy(value) for value in values] if isinstance(values, list) else values


def _set(values: dict[str, Any], path: list[str], value: Any) -> None:
    at: Any = values
    for depth, word in enumerate(path[:-1]):
        key = _key_in(at, path, depth)
        inner = at[key] if isinstance(at, list) else at.get(key, {})
        if isinstance(inner, str) and (depth == 0 or isinstance(at, dict)) and word in SHORTHANDS:
            inner = {SHORTHANDS[word]: inner}
        if not isinstance(inner, dict | list):
            dotted = ".".join(path[: depth + 1])
            raise ConfigError(f"{dotted!r} holds {inner!r}, so {'.'.join(path)!r} cannot be set")
        at[key] = inner
        at = inner
    at[_key_in(at, path, len(path) - 1)] = value


def _key_in(at: dict[str, Any] | list[Any], path: list[str], depth: int) -> Any:
    """A key of a section, or the place in a list that a number names, counted from 0."""
    word = path[depth]
    if isinstance(at, dict):
        return word
    if word.isdecimal() and int(word) < len(at):
        return int(word)
    dotted = ".".join(path[:depth])
    places = f"one of 0 to {len(at) - 1}" if at else "nothing: the list is empty"
    raise ConfigError(
        f"{'.'.join(path)!r} cannot be set: {dotted!r} is a list, and {word!r} is none of its "
        f"places; write {places}, such as {dotted}.0"
    )


def build_config(values: Mapping[str, Any], source: str = "config") -> RunConfig:
    """A checked `RunConfig`, or a `ConfigError` that names the key, the value and what is allowed.

    >>> build_config({"env": "math", "algorithm": {"lr": "1e-5"}}).algorithm.lr
    1e-05
    """
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError(f"{source}: {explain(error, RunConfig)}") from None


def check_own_options(options: type[C], name: str, given: Mapping[str, Any]) -> C:
    """The options of an algorithm of the user's own, with the defaults of its class.

    Args:
        options: The model of its options.
        name: As the config names the algorithm.
        given: What the config says beside the name.
    """
    named: Any = (str, name)
    model = create_model("Options", __base__=options, name=named)
    whole = create_model("Config", algorithm=(model, ...))
    try:
        checked = whole.model_validate({"algorithm": dict(given)})
    except ValidationError as error:
        raise ConfigError(explain(error, whole)) from None
    found: C = dict(checked)["algorithm"]
    return found


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake of a validation error as one sentence."""
    first = error.errors()[0]
    path, owner = _place(first["loc"], model)
    dotted, kind = ".".join(path), first["type"]
    if kind == "extra_forbidden":
        said = _unknown_key(path, owner)
        if not (known := _of_another_system(error, model, dotted)):
            return said
        is_near = owner is not None and issubclass(owner, AlgorithmConfig)
        return f"{said if is_near else f'unknown key {dotted!r}'}; here {'; '.join(known)}"
    if kind == "missing":
        return f"the key {dotted!r} is missing; add `{dotted}: ...`"
    if kind in ("model_type", "model_attributes_type"):
        return f"{dotted} = {first['input']!r} cannot be used: write `key: value` lines under it"
    if kind == "union_tag_invalid":
        tag, known = first["ctx"]["tag"], first["ctx"]["expected_tags"]
        names = [name.strip(" '") for name in known.split(",")]
        if dotted.endswith("algorithm"):
            names += algorithm_plugins()
        said = f"{dotted}.name = {tag!r} cannot be used: choose one of {', '.join(names)}"
        hint = nearest(tag.lower(), names)
        if dotted.endswith("algorithm"):
            own = f"for one of your own write {dotted}=FILE.py:Class"
            hint = unnamed_code(tag, "class") or f"{hint}{own}"
        return f"{said}; {hint}".rstrip("; ")
    problem = first["msg"][0].lower() + first["msg"][1:]
    if not path:
        return problem
    said = f"{dotted} = {first['input']!r} cannot be used: {problem}"
    return f"{said}; {_to_type(first, dotted, owner)}".rstrip("; ")


CODE_KEYS = ("agent.name", "reward.name")
"""Keys whose value may be a function of the user's too."""


def _to_type(error: Any, dotted: str, owner: type[BaseModel] | None) -> str:
    """What could be given in place of a refused value; empty where that is not known."""
    key, given = dotted.removesuffix(".name"), str(error["input"])
    if error["type"] == "literal_error":
        hint = nearest(given, re.findall(r"'([^']+)'", error["ctx"]["expected"]), 0.6)
        own = f"{hint}for a function of your own write {key}=FILE.py:NAME"
        return (unnamed_code(given, "function") or own) if dotted in CODE_KEYS else hint
    field = owner.model_fields.get(dotted.rpartition(".")[2]) if owner else None
    is_told = "url" not in error  # a sentence of our own, which says what to do
    if field is None or is_told or not field.default or not isinstance(field.default, int | float):
        return ""
    return f"write, for instance, {dotted}={str(field.default).lower()}"


def _of_another_system(error: ValidationError, model: type[BaseModel], first: str) -> list[str]:
    """What all unknown keys are here, where the first is known from another system."""
    from practicum.core.other_words import key_hints  # a long table, and seldom asked

    found: list[str] = []
    for one in error.errors():
        if one["type"] == "extra_forbidden":
            found += key_hints(".".join(_place(one["loc"], model)[0]), one["input"])
    return found if any(hint.startswith(first) for hint in found) else []


def _unknown_key(path: list[str], owner: type[BaseModel] | None) -> str:
    allowed = sorted(owner.model_fields) if owner else []
    sections = owner.model_fields.items() if owner and len(path) == 1 else ()
    has = {n for n, f in sections for m in _models_in(f.annotation) if path[0] in m.model_fields}
    inside = [repr(f"{name}.{path[0]}") for name in sorted(has - {"stages"})]
    hint = nearest(path[-1], allowed, prefix="".join(f"{part}." for part in path[:-1])).rstrip()
    hint = f"did you mean {' or '.join(inside)}?" if inside else hint
    if owner and issubclass(owner, AlgorithmConfig):
        method = owner.model_fields["name"].default
        said = f"{'.'.join(path)} is not an option of {method}, which takes: {', '.join(allowed)}"
        return f"{said}; {hint}" if hint else said
    listing = f"allowed here: {', '.join(allowed) or 'nothing, there are no options'}"
    return f"unknown key {'.'.join(path)!r}; " + (f"{hint} ({listing})" if hint else listing)


def _place(
    location: tuple[int | str, ...], model: type[BaseModel]
) -> tuple[list[str], type[BaseModel] | None]:
    """The config path of a validation error, and the model that owns its last key."""
    path: list[str] = []
    owner, inside = None, [model]
    for part in location:
        if len(inside) > 1:  # pydantic inserts the union member's tag, which is no key
            inside = [m for m in inside if m.model_fields["name"].default == part]
            continue
        path.append(str(part))
        if isinstance(part, str):
            owner = inside[0] if inside else None
            field = owner.model_fields.get(part) if owner else None
            inside = _models_in(field.annotation) if field else []
    return path, owner


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def changed_keys(before: RunConfig, after: RunConfig) -> list[str]:
    """Dotted keys that differ and that a resumed run may not change, with both values.

    >>> a = build_config({"env": "math"}); b = build_config({"env": "math", "seed": 1})
    >>> changed_keys(a, b)
    ['seed (0 -> 1)']
    """
    old, new = _flatten(before.model_dump()), _flatten(after.model_dump())
    return [
        f"{key} ({old.get(key)!r} -> {new.get(key)!r})"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and key not in RESUMABLE_KEYS
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
