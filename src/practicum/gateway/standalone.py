"""`practicum gateway`: a gateway without a training run, which serves until a signal comes."""

import asyncio
import json
import os
import secrets
import signal
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from practicum.core.conversation import Endpoint, RolloutLimits
from practicum.core.errors import MissingExtra
from practicum.core.sample import Episode
from practicum.gateway.key_watch import ControlKey, KeySource, KeyWatch
from practicum.gateway.rollouts import OpenRollouts, RolloutController

if TYPE_CHECKING:
    from practicum.gateway.server.gateway_server import Gateway
    from practicum.gateway.server.gateway_settings import Grammars

CONTROL_SOCKET = "control.sock"
ROLLOUTS_FILE = "rollouts.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlan:
    """Settings of a standalone gateway."""

    host: str = "127.0.0.1"
    port: int = 8100
    names: tuple[str, ...] = ()
    control_key: ControlKey = field(default_factory=ControlKey)
    key_file: KeySource[str] | None = None
    """Where the control key is read again; None where it does not change."""
    ignore_unknown: bool = False
    called: str = ""
    """What the model may be called besides its own name, such as a run's."""
    open_count: int = 0
    """Rollouts to open at the start."""
    limits: RolloutLimits = field(default_factory=RolloutLimits)
    seed: int = field(default_factory=lambda: secrets.randbits(63))
    """Random unless given, or the same requests would get the same answers after each start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Addresses of a gateway that has started."""

    address: str
    control_socket: Path
    rollouts: tuple[tuple[str, Endpoint], ...]
    """Ids and endpoints of the rollouts opened at the start."""
    rollouts_file: Path
    """The same as JSON; it holds keys, so only its owner can read it."""


async def serve_rollouts(
    gateway: "Callable[[OpenRollouts, RolloutController, Path], Gateway]",
    controller: Callable[[OpenRollouts], RolloutController],
    plan: GatewayPlan,
    ready: Callable[[Serving], None],
    put_aside: Callable[[Episode, str], None] | None = None,
    say: Callable[[str], None] = print,
) -> None:
    """Serves until SIGINT or SIGTERM, and then closes every open rollout.

    SIGHUP reads the control key's file again, as does a change of it.

    Args:
        gateway: Makes the gateway, with its control socket in a folder.
        controller: Makes the controller of its rollouts.
        plan: Limits, and the number of rollouts to open at the start.
        ready: Called with the addresses once the gateway listens.
        put_aside: Takes the episodes that cannot be stored at the end, and why.
        say: Told what happens to the control key.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, stop.set)
    with tempfile.TemporaryDirectory(prefix="practicum-") as made:
        folder = Path(made)
        rollouts = OpenRollouts()
        control = controller(rollouts)
        opened_gateway = gateway(rollouts, control, folder)
        keys = KeyWatch(plan.key_file, plan.control_key.take, say)
        async with keys.under_way(), opened_gateway.serving() as address:
            opened = [control.open(plan.limits) for _ in range(plan.open_count)]
            endpoints = tuple((one.id, opened_gateway.endpoint(one)) for one in opened)
            _write_endpoints(folder / ROLLOUTS_FILE, endpoints)
            ready(
                Serving(
                    address=address,
                    control_socket=folder / CONTROL_SOCKET,
                    rollouts=endpoints,
                    rollouts_file=folder / ROLLOUTS_FILE,
                )
            )
            await stop.wait()
        control.close_all(put_aside)


def build_gateway(
    model: str,
    grammars: "Grammars | None",
    plan: GatewayPlan,
    rollouts: OpenRollouts,
    control: RolloutController,
    folder: Path,
) -> "Gateway":
    """A gateway for a model, with its control socket in a folder."""
    try:
        from practicum.gateway.server.gateway_server import Gateway
        from practicum.gateway.server.gateway_settings import GatewaySettings
    except ImportError as error:
        if (error.name or "").startswith("practicum"):
            raise
        raise MissingExtra.for_extra("gateway", "practicum gateway") from None
    settings = GatewaySettings(
        host=plan.host,
        port=plan.port,
        names=plan.names,
        control_socket=folder / CONTROL_SOCKET,
        control_key=plan.control_key,
        ignore_unknown=plan.ignore_unknown,
    )
    names = (plan.called, model) if plan.called else (model,)
    return Gateway(rollouts, settings, names, grammars=grammars, controller=control)


def _write_endpoints(path: Path, endpoints: tuple[tuple[str, Endpoint], ...]) -> None:
    listed = [
        {"id": name, "url": endpoint.url, "key": endpoint.key} for name, endpoint in endpoints
    ]
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump({"rollouts": listed}, file, indent=2)
