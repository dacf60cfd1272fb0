"""What a server is told, checked before it listens."""

from dataclasses import dataclass

from practicum.core.errors import UserError
from practicum.http.keys import is_loopback

__all__ = ["KEY_VARIABLE", "ServerSettings"]

KEY_VARIABLE = "PRACTICUM_ENV_KEY"
"""Environment variable that may hold the key: unlike a word of the command line, other users of the
machine cannot read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """How one environment is served."""

    key: str
    """What a client must show, except to the LifelongAgentBench routes."""
    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one."""
    names: tuple[str, ...] = ()
    """Names of this machine that clients use besides `host`."""
    max_episodes: int = 128
    """Episodes at once; the next one is refused until another ends."""
    idle_s: float = 600.0
    """An episode nobody has asked anything of for so long is closed: its client is gone."""
    step_timeout_s: float = 300.0
    """What one turn, one opening or one check may take before its episode counts as failed."""
    max_turns: int = 0
    """Turns after which an episode is over; 0 leaves that to the environment and the client."""
    max_body_bytes: int = 4 * 1024 * 1024
    """The longest request."""
    lifelong: bool = False
    """Whether the LifelongAgentBench routes are there. They have no key, so only on loopback."""
    factory_port: int = 8001
    """Where LifelongAgentBench looks for its chat history items; 0 serves none."""
    samples: int = 500
    """Tasks that LifelongAgentBench is offered."""

    def __post_init__(self) -> None:
        """Refuse what would be unsafe, before anything listens."""
        if self.lifelong and not is_loopback(self.host):
            raise UserError(
                f"--lifelong cannot be used with --host {self.host}: its client sends no key, so "
                "anyone who reaches that address could use it; leave --host away and reach the "
                "server through an SSH tunnel"
            )
