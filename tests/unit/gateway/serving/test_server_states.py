"""What a server says before its models are loaded, and of what it records."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from practicum.core.sampling import SamplingParams
from practicum.engine.policy import load_for_policy
from practicum.engine.sampling.scripted_sampler import ScriptedSampler
from practicum.gateway.server.gateway_settings import GatewaySettings
from practicum.gateway.serving.key_limits import KeyRing, RequestQueue
from practicum.gateway.serving.served_models import ServedModel, ServedModels
from practicum.gateway.serving.serving_metrics import ServingMetrics
from practicum.gateway.serving.serving_routes import ServingParts, ServingRoutes, serving_app
from practicum.gateway.serving.traffic_recorder import RecordingRules, TrafficRecorder
from practicum.traces.traffic import TrafficStore

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
AGREE = {"x-practicum-record": "yes"}


@asynccontextmanager
async def app(
    store: Path | None = None, **rules: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, ServingParts, Callable[[], None]]]:
    """A client, the parts, and what ends the loading."""
    metrics, recorder = ServingMetrics(), None
    if store is not None:
        recorder = TrafficRecorder(
            lambda: TrafficStore(store), RecordingRules(**rules), metrics, lambda said: None
        )
    parts = ServingParts(
        keys=KeyRing(()), queue=RequestQueue(4, 60.0), metrics=metrics, recorder=recorder
    )
    routes = ServingRoutes(GatewaySettings(), parts)

    def load() -> None:
        codec: Any = load_for_policy("tiny", "float32", "cpu").codec
        sampler = ScriptedSampler(["a", "b", "c", "d", "e"])
        model = ServedModel(name="m", sampler=sampler, codec=codec, params=SamplingParams())
        solver: Any = None
        routes.load(ServedModels([model]), None, solver)

    transport = httpx.ASGITransport(app=serving_app(routes, GatewaySettings(), parts, None))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client, parts, load
    if recorder is not None:
        await recorder.close()


async def test_while_it_loads_a_server_says_so_and_not_that_it_has_no_models() -> None:
    async with app() as (client, parts, load):
        for path in ("/v1/models", "/v1/models/m"):
            for headers, shape in (({}, "code"), ({"anthropic-version": "2023-06-01"}, "type")):
                loading = await client.get(path, headers=headers)
                assert loading.status_code == 503
                assert loading.headers["retry-after"] == "2"
                assert "still being loaded" in loading.json()["error"]["message"]
                assert shape in loading.json() | loading.json()["error"]
        asked = await client.post("/v1/chat/completions", json=ASK)
        assert asked.status_code == 503
        assert (await client.get("/ready")).status_code == 503
        assert (await client.get("/health")).json() == {"status": "loading"}
        load()
        listed = (await client.get("/v1/models")).json()["data"]
        assert [one["id"] for one in listed] == ["m"]
        assert (await client.get("/v1/models/m")).status_code == 200
        assert (await client.get("/v1/models/n")).status_code == 404
        assert (await client.get("/health")).json() == {"status": "ok"}
        parts.is_stopping = True
        assert (await client.get("/health")).json() == {"status": "stopping"}


@pytest.mark.parametrize(
    ("consent", "headers", "told"),
    [
        ("required", {}, "no; send x-practicum-record: yes to agree"),
        ("required", AGREE, "yes"),
        ("assumed", {}, "yes"),
        ("assumed", {"x-practicum-record": "no"}, "no; send x-practicum-record: yes to agree"),
    ],
)
async def test_an_answer_says_whether_it_may_be_recorded_and_feedback_how_to_agree(
    consent: str, headers: dict[str, str], told: str, tmp_path: Path
) -> None:
    async with app(tmp_path / "t.sqlite", consent=consent) as (client, _, load):
        load()
        answer = await client.post("/v1/chat/completions", json=ASK, headers=headers)
        assert answer.headers["x-practicum-recorded"] == told
        thumbs = {"id": answer.json()["id"], "thumbs": "up"}
        said = await client.post("/feedback", json=thumbs)
        assert said.status_code == (200 if told == "yes" else 404)
        if told != "yes":
            assert "with the header x-practicum-record: yes to agree" in said.text


async def test_a_server_that_records_nothing_says_nothing_of_it() -> None:
    async with app() as (client, _, load):
        load()
        answer = await client.post("/v1/chat/completions", json=ASK, headers=AGREE)
        assert "x-practicum-recorded" not in answer.headers
        refused = await client.post("/feedback", json={"id": answer.json()["id"], "thumbs": "up"})
        assert "started without --record" in refused.text
