import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.unit.environments.serving.toy import KEY, ToyEnvironment, toy_server

from practicum.environments.serving.env_server import EnvironmentServer
from practicum.environments.serving.openenv import OpenEnvRoutes, TaskPages, _Connection


@asynccontextmanager
async def client_of(server: EnvironmentServer) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(server.app(), raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {KEY}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", headers=headers, verify=False
    ) as client:
        yield client


async def post(client: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_an_episode_over_http_is_told_by_its_id() -> None:
    environment = ToyEnvironment()
    async with client_of(toy_server(environment)) as client:
        opened = await post(client, "/reset", task_id="toy-3")
        assert (opened["reward"], opened["done"]) == (None, False)
        mine = opened["observation"]["episode_id"]
        other = (await post(client, "/reset", episode_id="other"))["observation"]["episode_id"]
        assert other == "other"
        seen = await post(client, "/step", episode_id=mine, action={"text": "more"})
        assert (seen["reward"], seen["done"]) == (None, False)
        assert seen["observation"]["messages"] == [{"role": "user", "content": "you said more"}]
        state = (await client.get("/state", params={"episode_id": mine})).json()
        assert state == {
            "episode_id": mine,
            "step_count": 1,
            "task_id": "toy-3",
            "is_over": False,
        }
        outcome = await post(client, "/outcome", episode_id=mine)
        assert outcome["success"] is False
        assert environment.open_now == 1
        assert await post(client, "/close", episode_id="other") == {"closed": "other"}
        assert environment.open_now == 0


@pytest.mark.parametrize(("word", "reward"), [("right", 1.0), ("wrong", 0.0)])
async def test_the_last_turn_pays_for_the_episode_where_turns_are_not_paid(
    word: str, reward: float
) -> None:
    async with client_of(toy_server()) as client:
        await post(client, "/reset", episode_id="e")
        seen = await post(client, "/step", episode_id="e", action={"text": word})
        assert (seen["reward"], seen["done"]) == (reward, True)
        assert seen["observation"]["paid"] is None
        assert seen["observation"]["outcome"]["success"] is (word == "right")


async def test_an_outcome_that_cannot_be_said_pays_nothing() -> None:
    async with client_of(toy_server()) as client:
        await post(client, "/reset", episode_id="e")
        await post(client, "/step", episode_id="e", action={"text": "unclear"})
        seen = await post(client, "/step", episode_id="e", action={"text": "right"})
        assert (seen["reward"], seen["done"]) == (None, True)


async def test_turns_that_are_paid_keep_their_pay() -> None:
    async with client_of(toy_server(ToyEnvironment(pays=0.25))) as client:
        await post(client, "/reset", episode_id="e")
        seen = await post(client, "/step", episode_id="e", action={"text": "right"})
        assert (seen["reward"], seen["observation"]["paid"]) == (0.25, 0.25)


async def test_tasks_are_listed_found_and_their_references_given() -> None:
    async with client_of(toy_server()) as client:
        listed = (await client.get("/tasks", params={"split": "heldout", "count": 3})).json()
        assert [task["id"] for task in listed["tasks"]] == ["toy-10", "toy-11", "toy-12"]
        found = await post(client, "/tasks/find", text="toy-11")
        assert found["task"]["instruction"] == "task 11"
        turns = await post(client, "/tasks/reference", task=listed["tasks"][0])
        assert turns == {"turns": ["more", "right"]}


async def test_what_openenv_asks_about_a_server_is_answered() -> None:
    async with client_of(toy_server()) as client:
        assert (await client.get("/health")).json() == {"status": "healthy"}
        assert (await client.get("/metadata")).json()["name"] == "toy"
        schema = (await client.get("/schema")).json()
        assert set(schema) == {"action", "observation", "state"}
        own = (await client.get("/practicum")).json()
        assert (own["protocol"], own["env"], own["session_kind"]) == (1, "toy", "discrete")


@pytest.mark.parametrize(
    ("path", "content", "status"),
    [
        ("/step", b"{}", 422),
        ("/step", b'{"action": {"text": "x"}}', 422),
        ("/step", b'{"episode_id": "gone", "action": {"text": "x"}}', 404),
        ("/reset", b"[1]", 422),
        ("/reset", b"{not json", 422),
        ("/reset", b'{"task": {"id": "toy-1"}}', 422),
        ("/reset", b"[" * 100_000, 422),
        ("/nothing", b"{}", 404),
    ],
)
async def test_a_mistake_is_one_object_with_one_sentence(
    path: str, content: bytes, status: int
) -> None:
    async with client_of(toy_server()) as client:
        answer = await client.post(
            path, content=content, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == status
        assert isinstance(answer.json()["error"], str)
        assert "Traceback" not in answer.text


async def test_a_body_that_a_web_form_could_send_is_refused() -> None:
    async with client_of(toy_server()) as client:
        answer = await client.post("/reset", content=b"{}", headers={"Content-Type": "text/plain"})
        assert answer.status_code == 422


async def test_a_full_server_says_so() -> None:
    async with client_of(toy_server(max_episodes=1)) as client:
        await post(client, "/reset")
        answer = await client.post("/reset", json={})
        assert answer.status_code == 429
        assert "--max-episodes" in answer.json()["error"]


async def test_a_broken_environment_is_no_result() -> None:
    async with client_of(toy_server()) as client:
        await post(client, "/reset", episode_id="e")
        answer = await client.post("/step", json={"episode_id": "e", "action": {"text": "boom"}})
        assert answer.status_code == 502
        assert "reward" not in answer.json()


@pytest.fixture
def line() -> tuple[_Connection, ToyEnvironment]:
    environment = ToyEnvironment()
    episodes = toy_server(environment).episodes
    return _Connection(OpenEnvRoutes(episodes, TaskPages(environment), "1"), episodes), environment


async def say(line: _Connection, kind: str, **data: Any) -> dict[str, Any]:
    answer = await line.answer(json.dumps({"type": kind, "data": data}))
    assert answer is not None
    return answer


async def test_an_episode_over_a_socket_belongs_to_its_connection(
    line: tuple[_Connection, ToyEnvironment],
) -> None:
    socket, environment = line
    opened = await say(socket, "reset", task_id="toy-2")
    assert (opened["type"], opened["data"]["done"]) == ("observation", False)
    assert (await say(socket, "state"))["data"]["task_id"] == "toy-2"
    await say(socket, "reset", task_id="toy-3")
    assert environment.open_now == 1, "the first episode was closed"
    seen = await say(socket, "step", text="right")
    assert (seen["data"]["reward"], seen["data"]["done"]) == (1.0, True)
    assert (await say(socket, "outcome"))["data"]["success"] is True
    assert await socket.answer('{"type": "close"}') is None
    await socket.close_episode()
    assert environment.open_now == 0


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ("{", "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ('{"type": "step", "data": 3}', "VALIDATION_ERROR"),
        ('{"type": "dance"}', "UNKNOWN_TYPE"),
        ('{"type": "step", "data": {"text": "x"}}', "SESSION_ERROR"),
        ('{"type": "reset", "data": {"task_id": "none"}}', "SESSION_ERROR"),
    ],
)
async def test_a_mistake_over_a_socket_is_an_error_message(
    raw: str, code: str, line: tuple[_Connection, ToyEnvironment]
) -> None:
    answer: Any = await line[0].answer(raw)
    assert (answer["type"], answer["data"]["code"]) == ("error", code)


async def test_a_state_before_the_first_episode_is_empty(
    line: tuple[_Connection, ToyEnvironment],
) -> None:
    assert (await say(line[0], "state"))["data"] == {"episode_id": None, "step_count": 0}
