"""What a gateway is told, and what it is given."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from practicum.core.sampling import TokenGrammar
from practicum.core.turn_forms import CallsForm, ThoughtForm

__all__ = ["GatewaySettings", "Grammars"]


class Grammars(Protocol):
    """Compiles what turns are held to for the model's tokens."""

    def of(self, schema: Mapping[str, Any] | None, thought: ThoughtForm | None) -> TokenGrammar:
        """A grammar of what the schema allows, after a thought; None allows any JSON object."""
        ...

    def calls(self, form: CallsForm, thought: ThoughtForm | None) -> TokenGrammar:
        """A grammar of a turn that calls tools, after a thought."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """How a gateway serves."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    names: tuple[str, ...] = ()
    """Names of this machine that clients use besides `host`."""
    max_body_bytes: int = 4 * 1024 * 1024
    """The longest request."""
    body_timeout_s: float = 60.0
    """What a request may take to arrive."""
    request_timeout_s: float = 3600.0
    """What one answer may take."""
    write_timeout_s: float = 120.0
    """How long a client may leave what it is sent unread."""
    max_choices: int = 16
    """The largest `n`."""
    control_socket: Path | None = None
    """Where rollouts are opened, rewarded and closed from outside; None where only this process
    does so."""
    control_key: str = ""
    """What the control socket asks for besides being the same user."""
