import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.unit.environments.serving.toy import ToyEnvironment, toy_server

from practicum.environments.serving.env_server import EnvironmentServer

FACTORY = "http://127.0.0.1:8001/api"


class Lifelong:
    """A client that speaks as LifelongAgentBench's does: no key, the whole session every time."""

    def __init__(self, server: EnvironmentServer, app: Any) -> None:
        self.server = server
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self.http = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8000", verify=False
        )

    async def post(self, path: str, status: int = 200, **body: Any) -> Any:
        answer = await self.http.post(f"/api/{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def session(self, path: str, session: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = (await self.post(path, session=session))["session"]
        return found

    async def say(self, session: dict[str, Any], word: str) -> dict[str, Any]:
        session["chat_history"]["value"].append({"role": "agent", "content": word})
        return await self.session("interact", session)


def fresh(index: int | str = "toy-0") -> dict[str, Any]:
    """A session as that client makes it."""
    return {
        "task_name": "os_interaction",
        "sample_index": index,
        "sample_status": "initial",
        "chat_history": {"value": []},
        "finish_reason": None,
        "task_output": None,
        "evaluation_record": {"outcome": "unset", "detail_dict": None},
    }


@pytest.fixture
async def client() -> AsyncIterator[Lifelong]:
    server = toy_server(lifelong=True)
    made = Lifelong(server, server.app(FACTORY))
    yield made
    await made.http.aclose()


@pytest.fixture
async def factory(client: Lifelong) -> AsyncIterator[Lifelong]:
    made = Lifelong(client.server, client.server.factory_app())
    yield made
    await made.http.aclose()


async def test_it_answers_a_ping_and_lists_its_samples(client: Lifelong) -> None:
    assert await client.post("ping") == {"response": "Hello, World!"}
    listed = (await client.post("get_sample_index_list"))["sample_index_list"]
    assert sorted(listed) == sorted(f"toy-{n}" for n in range(15))


async def test_a_whole_episode(client: Lifelong) -> None:
    session = await client.session("reset", fresh("toy-4"))
    assert session["sample_status"] == "running"
    assert session["chat_history"]["value"] == [
        {"role": "user", "content": "Say right."},
        {"role": "agent", "content": "OK."},
        {"role": "user", "content": "task 4"},
    ]
    session = await client.say(session, "more")
    assert session["chat_history"]["value"][-1] == {"role": "user", "content": "you said more"}
    session = await client.say(session, "right")
    assert (session["sample_status"], session["finish_reason"]) == ("completed", None)
    assert session["chat_history"]["value"][-1]["role"] == "agent"
    session = await client.session("complete", session)
    assert session["evaluation_record"] == {"outcome": "correct", "detail_dict": None}
    assert len(client.server.episodes) == 0


async def test_a_session_keeps_every_field_that_its_client_knows(client: Lifelong) -> None:
    assert set(await client.session("reset", fresh())) == set(fresh())


async def test_the_environments_own_ending_is_the_status(client: Lifelong) -> None:
    session = await client.say(await client.session("reset", fresh()), "misread")
    assert session["sample_status"] == "agent_validation_failed"
    assert session["finish_reason"] == "no action"
    session = await client.session("complete", session)
    assert session["evaluation_record"]["outcome"] == "incorrect"


async def test_the_limit_of_rounds_can_be_set_and_ends_the_episode(client: Lifelong) -> None:
    value = {"type": "int", "value": "2"}
    await client.post(
        "set_attribute",
        name="max_round",
        instance_factory_type="simple_immutable_type",
        instance_factory_parameter_dict=value,
    )
    asked = await client.post("get_attribute", name="max_round")
    assert asked["instance_factory_parameter_dict"] == value
    session = await client.session("reset", fresh())
    for _ in range(2):
        session = await client.say(session, "more")
        assert session["sample_status"] == "running"
    session = await client.say(session, "right")
    assert session["sample_status"] == "task_limit_reached"
    assert "2 rounds" in session["finish_reason"]
    session = await client.session("complete", session)
    assert session["evaluation_record"]["outcome"] == "incorrect"


async def test_an_agent_without_an_answer_is_checked_as_it_stands(client: Lifelong) -> None:
    session = await client.session("reset", fresh())
    session["sample_status"] = "agent_context_limit"
    session = await client.say(session, "")
    assert session["sample_status"] == "agent_context_limit"
    assert session["task_output"] == {}
    session = await client.session("complete", session)
    assert session["evaluation_record"]["outcome"] == "incorrect"


async def test_a_request_that_is_sent_again_is_carried_out_once(client: Lifelong) -> None:
    session = await client.session("reset", fresh())
    session["chat_history"]["value"].append({"role": "agent", "content": "more"})
    first, *again = await asyncio.gather(*(client.session("interact", session) for _ in range(3)))
    assert again == [first, first]
    assert client.server.episodes.get("lifelong/os_interaction/toy-0").turns == 1
    ended = await client.say(first, "right")
    verdicts = [await client.session("complete", ended) for _ in range(2)]
    assert [v["evaluation_record"]["outcome"] for v in verdicts] == ["correct", "correct"]


async def test_a_verdict_does_not_outlive_a_new_reset(client: Lifelong) -> None:
    session = await client.say(await client.session("reset", fresh()), "right")
    await client.session("complete", session)
    again = await client.session("reset", fresh())
    again = await client.say(again, "wrong")
    assert (await client.session("complete", again))["evaluation_record"]["outcome"] == "incorrect"
    forged = await client.session("complete", session)
    assert forged["evaluation_record"]["outcome"] == "unknown"


async def test_many_samples_are_under_way_at_once(client: Lifelong) -> None:
    sessions = [await client.session("reset", fresh(f"toy-{n}")) for n in range(10)]
    for n, session in enumerate(sessions):
        sessions[n] = await client.say(session, "right" if n % 2 else "wrong")
    done = [await client.session("complete", session) for session in sessions]
    verdicts = [session["evaluation_record"]["outcome"] for session in done]
    assert verdicts == ["incorrect", "correct"] * 5


async def test_a_second_reset_of_a_sample_begins_it_anew(client: Lifelong) -> None:
    first = await client.session("reset", fresh())
    await client.say(first, "more")
    second = await client.session("reset", fresh())
    assert len(second["chat_history"]["value"]) == 3
    assert len(client.server.episodes) == 1


async def test_a_failing_environment_is_an_environment_error_and_its_outcome_unknown(
    client: Lifelong,
) -> None:
    session = await client.say(await client.session("reset", fresh()), "boom")
    assert session["sample_status"] == "task_environment_error"
    assert "the toy broke" in session["finish_reason"]
    session = await client.session("complete", session)
    assert session["evaluation_record"]["outcome"] == "unknown"


async def test_a_sample_that_does_not_open_is_an_environment_error() -> None:
    server = toy_server(ToyEnvironment(fails_to_open=True), lifelong=True)
    client = Lifelong(server, server.app())
    session = await client.session("reset", fresh())
    assert session["sample_status"] == "task_environment_error"
    session = await client.session("complete", session)
    assert session["evaluation_record"]["outcome"] == "unknown"
    await client.http.aclose()


async def test_an_episode_lost_in_between_is_an_environment_error(client: Lifelong) -> None:
    session = await client.session("reset", fresh())
    await client.server.episodes.close_all()
    session = await client.say(session, "right")
    assert session["sample_status"] == "task_environment_error"


async def test_release_leaves_episodes_that_are_in_use(client: Lifelong) -> None:
    await client.session("reset", fresh("toy-1"))
    await client.session("reset", fresh("toy-2"))
    client.server.episodes.get("lifelong/os_interaction/toy-1").last_used -= 61
    await client.post("release")
    assert len(client.server.episodes) == 1


@pytest.mark.parametrize("name", ["__class__", "_episodes", "server_address", "", None])
async def test_attributes_beyond_the_list_cannot_be_had_or_set(
    name: str | None, client: Lifelong
) -> None:
    asked = await client.post("get_attribute", name=name)
    assert asked == {"instance_factory_type": None, "instance_factory_parameter_dict": None}
    refused = await client.post(
        "set_attribute",
        status=403,
        name=name,
        instance_factory_type="general",
        instance_factory_parameter_dict={"module": "os.system", "parameters": {"command": "id"}},
    )
    assert "cannot be set" in refused["error"]


async def test_the_attributes_its_client_needs_are_there(client: Lifelong) -> None:
    name = await client.post("get_attribute", name="task_name")
    assert name["instance_factory_type"] == "enum"
    assert name["instance_factory_parameter_dict"]["value"] == "os_interaction"
    factory = await client.post("get_attribute", name="chat_history_item_factory")
    assert factory["instance_factory_type"] == "general"
    parameters = factory["instance_factory_parameter_dict"]["parameters"]
    assert parameters == {"server_address": FACTORY, "request_timeout": 120}


@pytest.mark.parametrize(
    ("path", "change", "status"),
    [
        ("reset", {"task_name": "db_bench"}, 422),
        ("reset", {"sample_index": "toy-99"}, 404),
        ("reset", {"sample_status": "sleeping"}, 422),
        ("interact", {"sample_status": "running"}, 422),
        ("interact", {"chat_history": {"value": [{"role": "agent", "content": "x"}]}}, 409),
        ("complete", {"sample_status": "running"}, 409),
    ],
)
async def test_a_session_that_cannot_be_used_is_one_sentence(
    path: str, change: dict[str, Any], status: int, client: Lifelong
) -> None:
    answer = await client.post(path, status=status, session={**fresh(), **change})
    assert isinstance(answer["error"], str)


async def test_the_metric_counts_outcomes_statuses_skills_and_levels(client: Lifelong) -> None:
    def row(index: str, outcome: str, status: str = "completed") -> dict[str, Any]:
        record = {"outcome": outcome, "detail_dict": None}
        return {"sample_index": index, "sample_status": status, "evaluation_record": record}

    rows = [
        row("toy-0", "correct"),
        row("toy-1", "incorrect"),
        row("toy-2", "incorrect", "task_limit_reached"),
        row("toy-3", "unknown", "task_environment_error"),
    ]
    metric = (await client.post("calculate_metric", session_partial_list=rows))["metric"]
    assert metric["skill"]["count_dict"] == {"cat": 2, "ls": 4}
    assert metric["skill"]["correct_rate_dict"] == {"cat": 0.5, "ls": 0.25}
    assert metric["difficulty_level"]["correct_rate_dict"] == {"1": 0.5, "2": 0.0}
    assert metric["overall"]["basic"] == {"session_count": 4}
    assert metric["overall"]["evaluation_outcome"]["incorrect"] == 0.5
    assert metric["overall"]["sample_status"]["completed"] == 0.5
    assert sum(metric["overall"]["sample_status"].values()) == 1
    nothing = (await client.post("calculate_metric", session_partial_list=[]))["metric"]
    assert nothing["overall"] == {"basic": {"session_count": 0}}
    assert nothing["skill"]["correct_rate_dict"] == {"cat": -1, "ls": -1}


async def test_the_routes_are_not_there_unless_asked_for_and_nothing_else_is_open(
    client: Lifelong,
) -> None:
    plain = Lifelong(client.server, toy_server().app())
    await plain.post("ping", status=401)
    await plain.http.aclose()
    answer = await client.http.post("/reset", json={})
    assert answer.status_code == 401


async def test_the_factory_gives_the_opening_items(factory: Lifelong) -> None:
    assert await factory.post("ping") == {"response": "Hello, World!"}
    item = await factory.post("construct", chat_history_item_index=0, expected_role="user")
    assert item == {"chat_history_item": {"role": "user", "content": "Say right."}}
    every = await factory.post("get_chat_history_item_dict_deep_copy")
    assert every["chat_history_item_dict"]["value"]["1"] == {"role": "agent", "content": "OK."}
    await factory.post("construct", status=404, chat_history_item_index=0, expected_role="agent")
    await factory.post("construct", status=404, chat_history_item_index=5, expected_role=None)
    assert len(factory.server.episodes) == 0


async def test_items_set_on_the_factory_open_later_episodes(
    factory: Lifelong, client: Lifelong
) -> None:
    await factory.post("set", prompt_index=0, role="user", content="New rules.")
    await factory.post("set", prompt_index=2, role="user", content="An example.")
    session = await client.session("reset", fresh("toy-5"))
    told = [(item["role"], item["content"]) for item in session["chat_history"]["value"]]
    assert told == [
        ("user", "New rules."),
        ("agent", "OK."),
        ("user", "An example."),
        ("agent", "OK."),
        ("user", "task 5"),
    ]


@pytest.mark.parametrize(
    "item",
    [
        {"prompt_index": 0, "role": "agent", "content": "x"},
        {"prompt_index": 9, "role": "agent", "content": "x"},
        {"prompt_index": -1, "role": "agent", "content": "x"},
        {"prompt_index": 0, "role": "user", "content": 3},
        {"prompt_index": 0, "role": "system", "content": "x"},
    ],
)
async def test_an_item_that_would_break_histories_is_refused(
    item: dict[str, Any], factory: Lifelong
) -> None:
    await factory.post("set", status=422, **item)


async def test_attributes_of_the_factory_cannot_be_set(factory: Lifelong) -> None:
    await factory.post("set_attribute", status=403, name="x")
    asked = await factory.post("get_attribute", name="_chat_history_item_dict")
    assert asked["instance_factory_type"] is None
