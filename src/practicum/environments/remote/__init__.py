"""Environments on a server: Practicum's own, with all evidence, or any that speaks OpenEnv."""

from practicum.environments.remote.environment import RemoteEnvironment
from practicum.environments.remote.options import RemoteOptions

__all__ = ["RemoteEnvironment", "RemoteOptions"]
