"""What may be asked for by name."""

from typing import get_args

from practicum.core.config.algorithm import OFFLINE, AlgorithmName
from practicum.core.errors import ConfigError

__all__ = ["check_method", "learns_from_traces"]


def check_method(method: str) -> str:
    """A method's name as it is written in configs; `GRPO` is `grpo`."""
    name = method.lower()
    known = get_args(AlgorithmName)
    if name not in known:
        raise ConfigError(f"method {method!r} is not known; choose one of {', '.join(known)}")
    return name


def learns_from_traces(method: str) -> bool:
    """Whether a method learns from what was recorded rather than from episodes it makes."""
    return method in OFFLINE
