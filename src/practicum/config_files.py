"""Config files and `key=value` words, as a user gives them, to a checked `RunConfig`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.core.config.config_sections import WarmStartConfig
from practicum.core.config.foreign_config import in_our_keys, is_foreign
from practicum.core.config.parse_config import (
    MOST_CHARACTERS,
    apply_overrides,
    build_config,
    changed_keys,
    parse_yaml,
)
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import ConfigError, UserError
from practicum.core.trusted_code import FOLDER, is_in_trusted_folder, remember, trust_file
from practicum.core.user_code import consents_to, make_importable, names_code, unnamed_code
from practicum.shipped_configs import find_config
from practicum.store.forking import find_resumed
from practicum.store.run_dir import RUNS, RunDir
from practicum.store.study_dir import StudyDir

if TYPE_CHECKING:
    from practicum.engine.planning.machine import Machine
    from practicum.engine.planning.profiles import Profile

PROFILES = ("auto", "cpu", "gpu", "ryzen")
"""Hardware profiles that fill in settings."""
PLACES = frozenset({"data", "imports", "labeler", "path", "repo", "source", "start", "workdir"})
"""Keys whose values are places; other values are taken for one if they look like a path."""


def config_file(source: str) -> dict[str, Any]:
    """The values in a YAML file; paths in it are looked for beside it first."""
    path = find_config(source)
    if python := unnamed_code(source, "class"):
        raise ConfigError(python)
    if path.suffix in (".jsonl", ".parquet", ".sqlite", ".db") and path.is_file():
        raise ConfigError(
            f"{source} holds data and is no config; learn from it with: "
            f"practicum train algorithm=sft data={source}, or give a YAML file or an environment"
        )
    try:
        with path.open(encoding="utf-8") as file:
            values = parse_yaml(file.read(MOST_CHARACTERS + 1), source)
    except FileNotFoundError:
        raise ConfigError(_missing(path)) from None
    except (IsADirectoryError, UnicodeDecodeError, PermissionError) as error:
        raise ConfigError(
            f"{source} cannot be read as a config ({error.__class__.__name__}); "
            "give a YAML text file or an environment's name"
        ) from None
    if is_foreign(values):
        values, lines = in_our_keys(values)
        for line in lines:
            print(f"practicum: {path.name}: {line}", file=sys.stderr)
    make_importable(path.parent.resolve())
    found = {key: _beside(key, value, path.parent) for key, value in values.items()}
    if is_in_trusted_folder(path):  # then it is the user's own, and so are its commands
        remember(consents_to(found))
    return found


def consents_of(word: str) -> list[tuple[str, str]]:
    """The consents to what a word names: a Python file, a config, a run, a folder, a function."""
    path = Path(word).expanduser()
    kind = RunDir if RunDir.is_run(path) else StudyDir if StudyDir.is_study(path) else None
    if path.is_dir() and kind is None:
        return [(FOLDER, str(path.resolve()))]
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        return trust_file(path)
    config = kind(path).config().model_dump() if kind else None
    values = config or (config_file(word) if path.is_file() else word)
    if found := list(consents_to(values)):
        return found
    raise UserError(
        f"{word} names no code of its own, so there is nothing to trust"
        if path.exists()
        else f"there is no file or folder {word!r} to trust; give a Python file, a config, a run, "
        "a folder of your own or module:NAME"
    )


def _beside(key: str, value: Any, folder: Path) -> Any:
    """The value with paths to what lies beside the config; others are from the current folder."""
    if isinstance(value, Mapping):
        return {inner: _beside(inner, one, folder) for inner, one in value.items()}
    if isinstance(value, list):
        return [_beside(key, one, folder) for one in value]
    if not isinstance(value, str) or key == "runs_dir" or "\n" in value:
        return value
    is_code = names_code(value) and value.rpartition(":")[0].endswith(".py")
    place, colon, name = value.rpartition(":") if is_code else (value, "", "")
    path = Path(place)
    looks_so = key in PLACES or len(path.parts) > 1 or bool(path.suffix)
    if not looks_so or path.is_absolute() or not _exists(folder / path):
        return value
    return f"{folder / path}{colon}{name}"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long to be a name, or no name at all
        return False


def read_config(source: str, overrides: Sequence[str]) -> RunConfig:
    """The checked config of a YAML file or an environment's name, with `key=value` words put in.

    `source` may be such a word too, where a run learns from recorded examples alone.
    """
    path = Path(source)
    is_file = path.suffix in (".yaml", ".yml") or path.is_file()
    if "=" in source and not is_file:  # no environment is named: the first word is one of the rest
        given = apply_overrides({}, [source, *overrides])
    else:
        words = [f"env={source}", *overrides] if source.lstrip().startswith("[") else overrides
        given = apply_overrides(config_file(source) if is_file else {"env": source}, words)
    return build_config(apply_overrides(given, _profile_settings(given)), source)


def resumed_config(
    resume: str | Path, words: Sequence[str], name: str | None = None, *, makes: bool = True
) -> tuple[RunConfig, RunDir]:
    """A run and its own config; a config file or overrides given besides must not change it.

    A checkpoint, such as `runs/a/step_10`, goes on as a new run; a plan needs no folder of it.
    """
    run = (found := find_resumed(resume, RUNS, name)).run
    if makes and found.fork is None:
        with run.hold():  # whoever else trains it is told of now, and not once a model is loaded
            pass
    saved = run.config()
    if words and "=" not in words[0]:
        config = _as_settled(read_config(words[0], words[1:]), saved)
    else:
        config = build_config(apply_overrides(saved.model_dump(), words), str(resume))
    changed = changed_keys(saved, config)
    if changed:
        raise ConfigError(
            f"{run.path} was made with another config; these keys differ: {', '.join(changed)}; "
            f"resume without them (practicum train --resume {run.path}), or start another run"
        )
    if (steps := sum(stage.steps for stage in config.all_stages)) < found.done:
        raise ConfigError(
            f"steps={steps} is less than the {found.done} that {run.path} has done; "
            f"give {found.done} or more"
        )
    return config, found.open() if makes else run


def _as_settled(config: RunConfig, saved: RunConfig) -> RunConfig:
    """The config with what the run has decided for itself, where the config leaves that open."""
    decided: dict[str, Any] = {}
    if config.warm_start == WarmStartConfig():
        decided["warm_start"] = saved.warm_start
    if "n" not in config.eval.model_fields_set:
        decided["eval"] = config.eval.model_copy(update={"n": saved.eval.n})
    return config.model_copy(update=decided)


def _profile_settings(given: Mapping[str, Any]) -> list[str]:
    """What the config's hardware profile fills in: settings the config itself does not have."""
    hardware = given.get("hardware")
    name = hardware.get("profile", "none") if isinstance(hardware, Mapping) else "none"
    if name not in PROFILES:  # `none`, or a mistake that checking the config will name
        return []
    _, profile = profile_here(name)
    return [s.setting for s in profile.suggestions if not _has(given, s.setting.split("=")[0])]


def profile_here(name: str) -> "tuple[Machine, Profile]":
    """This machine, and what a hardware profile suggests for it."""
    from practicum.engine.planning.machine import detect_machine
    from practicum.engine.planning.profiles import suggest_profile

    machine = detect_machine()
    return machine, suggest_profile(name, machine)


def _has(given: Mapping[str, Any], dotted: str) -> bool:
    """Whether a key is given. A preset's one word gives all its fields, a name's only the name."""
    at: Any = given
    for key in dotted.split("."):
        if not isinstance(at, Mapping):
            return key == "name" or dotted.startswith("lora.")
        if key not in at:
            return False
        at = at[key]
    return True


def _missing(path: Path) -> str:
    others = sorted(str(p) for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
    there = f"; in that folder: {', '.join(others[:5])}" if others else ""
    from practicum.core.other_words import find_config_row

    row = find_config_row(str(path))
    there = f"; here it is {row.ours}" if row else there
    return f"there is no config file {str(path)!r}{there}; or give an environment, such as math"
