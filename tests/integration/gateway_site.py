"""A gateway to attack: a sampler that says what it is told, behind real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.unit.gateway.pieces import SlowSampler, talk

from practicum.core.conversation import Endpoint, RolloutLimits
from practicum.core.sample import Episode
from practicum.gateway.key_watch import ControlKey
from practicum.gateway.rollouts import OpenRollouts, Rollout, RolloutController
from practicum.gateway.server.gateway_server import Gateway
from practicum.gateway.server.gateway_settings import GatewaySettings

CONTROL_KEY = "c" * 64
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "q"}], "max_tokens": 20}
DIALECTS = {
    "/v1/chat/completions": QUESTION,
    "/v1/responses": {"model": "m", "input": "q"},
    "/v1/messages": QUESTION,
}


def is_shaped(path: str, body: Any) -> bool:
    """Whether an error is as the path's dialect writes it."""
    said = body["error"]["message"]
    assert isinstance(said, str)
    assert "\n" not in said
    return (body.get("type") == "error") == path.endswith("/messages")


@dataclass
class Site:
    """A gateway under attack."""

    gateway: Gateway
    rollouts: OpenRollouts
    controller: RolloutController
    address: str
    control: Path
    samplers: list[SlowSampler]
    kept: list[Episode] = field(default_factory=list)

    def open(self, **limits: Any) -> tuple[Rollout, Endpoint]:
        rollout = self.controller.open(RolloutLimits(**limits))
        return rollout, self.gateway.endpoint(rollout)

    def socket(self, key: str = CONTROL_KEY) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(self.control)),
            base_url="http://control",
            headers={"Authorization": f"Bearer {key}"},
        )


@asynccontextmanager
async def site_with(folder: Path, pause_s: float = 0.0, **settings: Any) -> AsyncIterator[Site]:
    rollouts, kept, samplers = OpenRollouts(), list[Episode](), list[SlowSampler]()

    def converse(seed: int) -> Any:
        conversation, sampler = talk(lambda request: "an answer", pause_s=pause_s)
        samplers.append(sampler)
        return conversation

    controller = RolloutController(rollouts, converse, kept.append)
    control = folder / "control" / "s"
    chosen = GatewaySettings(
        control_socket=control, control_key=ControlKey(CONTROL_KEY), **settings
    )
    gateway = Gateway(rollouts, chosen, controller=controller)
    async with gateway.serving() as address:
        yield Site(gateway, rollouts, controller, address, control, samplers, kept)


async def post(url: str, key: str, body: Any = QUESTION, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=240) as client:
        given = {"Authorization": f"Bearer {key}", **headers}
        return await client.post(url, json=body, headers=given)
