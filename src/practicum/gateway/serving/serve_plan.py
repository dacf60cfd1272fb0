"""What a server is told, and what it is given once weights are loaded. Needs no extra."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.gateway.key_watch import KeySource
from practicum.gateway.server.gateway_settings import GatewaySettings, Grammars
from practicum.gateway.serving.key_limits import ApiKey
from practicum.gateway.serving.served_models import Load, ServedModel, ServedModels, WeightsSource
from practicum.gateway.serving.traffic_recorder import RecordingRules


@dataclass(frozen=True, slots=True, kw_only=True)
class ServePlan:
    """How models are served."""

    settings: GatewaySettings = field(default_factory=GatewaySettings)
    keys: tuple[ApiKey, ...] = ()
    key_file: KeySource[tuple[ApiKey, ...]] | None = None
    """Where the keys are read again; None where they do not change."""
    at_once: int = 64
    """Requests that are answered at the same time."""
    wait_s: float = 60.0
    """Seconds that a request may wait for its turn."""
    grace_s: int = 30
    """Seconds that requests under way have when the server is told to stop."""
    recording: RecordingRules = field(default_factory=RecordingRules)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest:
    """A problem for a model in an environment."""

    problem: str
    env: str
    """Empty for the model's own."""
    trace_id: str
    temperature: float = 0.0
    seed: int = 0
    on_sampled: Callable[[int], None] = lambda tokens: None
    """Called with how many tokens are new as they are sampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """The episode in which a problem was worked on, its task, and the solution in words."""

    episode: Episode
    task: Task
    solution: str


Solver = Callable[[ServedModel, SolveRequest], Awaitable[Solved]]
"""Plays one task; raises `UserError` for a problem or an environment that it does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModels:
    """What is served, once it is in memory."""

    models: ServedModels
    load: Load
    """Reads other weights for a model."""
    grammars: Grammars | None
    solver: Solver
    sources: Sequence[WeightsSource] = ()
    """Those of the models that may change."""
    tend: Callable[[], object] = lambda: None
    """Called every few seconds, in another thread."""
    stamps: dict[str, str] = field(default_factory=dict)
    """Of each source, from before its weights were read."""
