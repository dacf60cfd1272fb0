"""`GatewaySettings`: address, limits and timeouts of a gateway; and its grammar compiler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from practicum.core.sampling import CallsForm, ThoughtForm, TokenGrammar
from practicum.gateway.key_watch import ControlKey


class Grammars(Protocol):
    """Compiles grammars over the model's tokens; called from several threads."""

    def of(
        self,
        schema: Mapping[str, Any] | None,
        thought: ThoughtForm | None,
        calls: CallsForm | None = None,
    ) -> TokenGrammar:
        """A grammar for JSON of a schema, after thinking; None allows any JSON object.

        With `calls`, a turn may call tools instead.
        """
        ...

    def choices(
        self, texts: Sequence[str], thought: ThoughtForm | None, calls: CallsForm | None = None
    ) -> TokenGrammar:
        """A grammar for one of several texts, after thinking; or for calls."""
        ...

    def calls(self, form: CallsForm, thought: ThoughtForm | None) -> TokenGrammar:
        """A grammar for a turn that calls tools, after thinking."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Address, limits and timeouts of a gateway."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free one."""
    names: tuple[str, ...] = ()
    """Names of this machine that a Host header may have besides `host`."""
    max_body_bytes: int = 4 * 1024 * 1024
    body_timeout_s: float = 60.0
    """For a request's body to arrive."""
    queue_timeout_s: float = 600.0
    """For a request to wait while its rollout has as many in progress as it may."""
    request_timeout_s: float = 3600.0
    """For one answer to be sampled."""
    write_timeout_s: float = 120.0
    """For a client to read a write."""
    ignore_unknown: bool = False
    """Whether parameters that nobody here knows are ignored, and counted, in place of refused."""
    max_choices: int = 16
    """The largest `n`."""
    control_socket: Path | None = None
    """The socket to open, reward and close rollouts from outside; None for none."""
    control_key: ControlKey = field(default_factory=ControlKey)
    """The key that the control socket needs."""
