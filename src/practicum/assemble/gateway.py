"""The policy behind a URL: a model, its gateway, and a store for what goes through it."""

import asyncio
import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.assemble.models import placement
from practicum.assemble.players import sampling_params
from practicum.core.config import ModelConfig, RolloutConfig
from practicum.core.conversing import Endpoint, RolloutLimits
from practicum.core.errors import MissingExtra, UserError
from practicum.core.sample import Episode
from practicum.core.sampling import SamplingParams
from practicum.core.task import Task
from practicum.gateway import CapturedConversation, OpenRollouts
from practicum.gateway.desk import RolloutDesk
from practicum.hardware import give_back_heap, use_one_heap
from practicum.store import SqliteTraceStore

if TYPE_CHECKING:
    from practicum.gateway.server import Gateway

__all__ = [
    "GatewayPlan",
    "Keeper",
    "ServedModel",
    "Serving",
    "build_gateway",
    "load_served",
    "serve_gateway",
]

CONTROL_SOCKET = "control.sock"
ROLLOUTS_FILE = "rollouts.json"
GIVING_BACK_S = 5.0
"""How often freed memory is given back, which takes a few milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A model ready to be served."""

    name: str
    sampler: Any
    codec: Any
    tokenizer: Any
    params: SamplingParams
    """What is sampled with where a request says nothing."""

    def converse(self, seed: int) -> CapturedConversation:
        """A new conversation with it."""
        return CapturedConversation(self.sampler, self.codec, self.params, seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """What a gateway that runs by itself is told."""

    host: str = "127.0.0.1"
    port: int = 8100
    names: tuple[str, ...] = ()
    control_key: str = ""
    store: Path | None = None
    """Where traces go when rollouts are closed; None keeps none."""
    open_count: int = 0
    """Rollouts that are opened at once."""
    limits: RolloutLimits = field(default_factory=RolloutLimits)
    seed: int = field(default_factory=lambda: secrets.randbits(63))
    """Another one each time unless given, or the same requests would get the same answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Where a gateway that has started is reached."""

    address: str
    control_socket: Path
    rollouts: tuple[tuple[str, Endpoint], ...]
    """Ids and addresses of the rollouts that were opened at once."""
    rollouts_file: Path
    """Holds the same, for programs; only its owner can read it."""


def load_served(model: ModelConfig, adapter: Path | None, rollouts: RolloutConfig) -> ServedModel:
    """A model, or a model with the adapter of a checkpoint folder."""
    from practicum.policy.torch_policy import load_adapted_sampler, load_for_policy

    use_one_heap()  # before any other thread has one
    dtype, device = placement(model)
    loaded = load_for_policy(model.name, dtype, device)
    return ServedModel(
        name=model.name,
        sampler=load_adapted_sampler(loaded, adapter),
        codec=loaded.codec,
        tokenizer=loaded.tokenizer,
        params=sampling_params(rollouts, rollouts.temperature),
    )


async def serve_gateway(
    served: ServedModel, plan: GatewayPlan, ready: Callable[[Serving], None]
) -> int:
    """Serve until a signal comes; says how many rollouts were kept.

    Args:
        served: The model.
        plan: How.
        ready: Told where the gateway is, once it listens.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    with ExitStack() as stack:
        kept = stack.enter_context(_keeping(plan.store))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="practicum-")))
        registry = OpenRollouts()
        desk = RolloutDesk(registry, served.converse, kept.add, model=served.name, seed=plan.seed)
        gateway = build_gateway(served, registry, desk, plan, folder)
        async with gateway.serving() as address:
            opened = [desk.open(plan.limits) for _ in range(plan.open_count)]
            places = tuple((rollout.id, gateway.endpoint(rollout)) for rollout in opened)
            _write_places(folder / ROLLOUTS_FILE, places)
            ready(
                Serving(
                    address=address,
                    control_socket=folder / CONTROL_SOCKET,
                    rollouts=places,
                    rollouts_file=folder / ROLLOUTS_FILE,
                )
            )
            await stop.wait()
        desk.close_all()
        return kept.count


def build_gateway(
    served: ServedModel, registry: OpenRollouts, desk: RolloutDesk, plan: GatewayPlan, folder: Path
) -> "Gateway":
    """The gateway of a model, with its control socket in a folder."""
    try:
        from practicum.gateway.server import Gateway, GatewaySettings
    except ImportError as error:
        if (error.name or "").startswith("practicum"):
            raise
        raise MissingExtra.for_extra("gateway", "practicum gateway") from None
    from practicum.policy.grammar import JsonGrammars

    settings: GatewaySettings = GatewaySettings(
        host=plan.host,
        port=plan.port,
        names=plan.names,
        control_socket=folder / CONTROL_SOCKET,
        control_key=plan.control_key,
    )
    grammars = JsonGrammars(served.tokenizer)
    return Gateway(registry, settings, (served.name,), grammars=grammars, desk=desk)


class Keeper:
    """Puts closed rollouts into a store, if there is one.

    What they leave free between kept pieces of memory is given back to the system now and then.
    """

    def __init__(self, store: SqliteTraceStore | None) -> None:
        self._store = store
        self._gave_back_at = time.monotonic()
        self.count = 0

    def add(self, episode: Episode) -> None:
        """Keep one; a rollout in which nothing was said is left out."""
        if time.monotonic() > self._gave_back_at + GIVING_BACK_S:
            self._gave_back_at = time.monotonic()
            give_back_heap()
        trace = episode.trace
        if self._store is None or not trace.nodes:
            return
        asked = next((m.content for m in trace.messages() if m.role == "user"), "")
        task = Task(id=trace.task_id, env=trace.env, split="train", instruction=asked)
        self._store.add_imported([episode], tasks=[task], purpose="gateway")
        self.count += 1


@contextmanager
def _keeping(path: Path | None) -> Iterator[Keeper]:
    if path is None:
        yield Keeper(None)
        return
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for the store; make it, or name another")
    with SqliteTraceStore(path) as store:
        yield Keeper(store)


def _write_places(path: Path, places: tuple[tuple[str, Endpoint], ...]) -> None:
    listed = [{"id": name, "url": place.url, "key": place.key} for name, place in places]
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"rollouts": listed}, file, indent=2)
