"""A config from what the user typed: a YAML file or an environment's name, and overrides."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from practicum.core.config import RunConfig, apply_overrides, build_config, parse_yaml
from practicum.core.errors import ConfigError

__all__ = ["read_config"]

PROFILES = ("cpu", "gpu", "ryzen")
"""Profiles that fill in settings."""


def read_config(source: str, overrides: Sequence[str]) -> RunConfig:
    """The checked config of `source` with `key=value` words put in."""
    path = Path(source)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        try:
            values = parse_yaml(path.read_text(encoding="utf-8"), source)
        except FileNotFoundError:
            raise ConfigError(_missing(path)) from None
        except (IsADirectoryError, UnicodeDecodeError, PermissionError) as error:
            raise ConfigError(
                f"{source} cannot be read as a config ({error.__class__.__name__}); "
                "give a YAML text file or an environment's name"
            ) from None
    else:
        values = {"env": source}
    given = apply_overrides(values, overrides)
    return build_config(apply_overrides(given, _profile_settings(given)), source)


def _profile_settings(given: Mapping[str, Any]) -> list[str]:
    """What the config's hardware profile fills in: settings the config itself does not have."""
    hardware = given.get("hardware")
    name = hardware.get("profile", "auto") if isinstance(hardware, Mapping) else "auto"
    if name not in PROFILES:  # `auto`, or a mistake that checking the config will name
        return []
    from practicum.hardware import detect_machine, suggest_profile

    profile = suggest_profile(name, detect_machine())
    return [s.setting for s in profile.suggestions if not _has(given, s.setting.split("=")[0])]


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
    return f"there is no config file {str(path)!r}{there}; or give an environment, such as math"
