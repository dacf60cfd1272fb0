"""A config from what the user typed: a YAML file or an environment's name, and overrides."""

from collections.abc import Sequence
from pathlib import Path

from practicum.core.config import RunConfig, apply_overrides, build_config, parse_yaml
from practicum.core.errors import ConfigError

__all__ = ["read_config"]


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
    return build_config(apply_overrides(values, overrides), source)


def _missing(path: Path) -> str:
    others = sorted(str(p) for p in path.parent.glob("*.y*ml")) if path.parent.is_dir() else []
    there = f"; in that folder: {', '.join(others[:5])}" if others else ""
    return f"there is no config file {str(path)!r}{there}; or give an environment, such as math"
