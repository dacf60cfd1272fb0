"""What a remote environment is told."""

from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from practicum.core.config.stage import Stage

__all__ = ["RemoteOptions"]


class RemoteOptions(Stage):
    """Options of the `remote` environment: `url` of a server that runs, or what to `serve`."""

    url: str = ""
    """Address of a server that runs already, such as http://127.0.0.1:8000."""
    key_file: str = ""
    """File with the server's key; else the variable PRACTICUM_ENV_KEY, else no key is sent."""
    serve: str = ""
    """Environment to serve: the server is started, watched and stopped with the run."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the environment that is served."""
    port: int = Field(default=0, ge=0, le=65535)
    """Where to serve it; 0 takes a free port."""
    max_episodes: int = Field(default=256, ge=1)
    """Episodes at once of the server that is started; more wait for their turn."""
    startup_timeout_s: float = Field(default=60.0, gt=0)
    """What the server may take to start."""
    max_restarts: int = Field(default=3, ge=0)
    """How often in a row a server that died is started again before the run ends."""
    open_timeout_s: float = Field(default=300.0, gt=0)
    """What an episode may take to open, waiting for a place included."""
    call_timeout_s: float = Field(default=330.0, gt=0)
    """What a turn may take; a server that is silent for longer has failed the episode."""
    give_up_s: float = Field(default=600.0, gt=0)
    """When no episode could be opened for so long, the run ends."""
    instruction: str = ""
    """Other OpenEnv servers: what the policy is told first, before the first observation."""
    action_field: str = ""
    """Other OpenEnv servers: where in an action the policy's text goes; found out where there is
    only one text in it."""
    observation_field: str = ""
    """Other OpenEnv servers: which part of an observation the policy sees; all of it, as JSON,
    unless told."""
    success_at: float = 1.0
    """Other OpenEnv servers: rewards of an episode that add up to this mean that it succeeded."""

    @field_validator("url")
    @classmethod
    def _usable_address(cls, value: str) -> str:
        if not value:
            return value
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
        except ValueError:
            usable = False
        if not usable:
            raise PydanticCustomError(
                "url", "an address begins with http:// or https://, as in http://127.0.0.1:8000"
            )
        if parts.username or parts.password:
            raise PydanticCustomError(
                "url",
                "a key in the address would be kept in the run's folder; put it into a file and "
                "name that with key_file",
            )
        return value.rstrip("/")

    @model_validator(mode="after")
    def _one_server(self) -> "RemoteOptions":
        if bool(self.url) == bool(self.serve):
            raise PydanticCustomError(
                "server",
                "say where the episodes live: url for a server that runs, or serve for an "
                "environment to be served, and not both",
            )
        if self.serve == "remote":
            raise PydanticCustomError("server", "serve cannot be remote itself; name another")
        return self
