"""`practicum serve` as a user runs it: models by name, keys, swaps, `/solve`, records, the end."""

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.serve_site import ServedProcess, promote, publish, serve_process
from tests.unit.engine.adapters import write_adapter

from practicum.core.interfaces import Sampler
from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.store.trace_store import SqliteTraceStore

openai = pytest.importorskip("openai", reason="needs the openai package; pip install openai")

MAIN, LIMITED, NARROW = "main-key-0123456789", "limited-key-0123456", "narrow-key-0123456789"
SELDOM = "seldom-key-0123456789"
KEYS = f"""
keys:
  - {{name: main, key: {MAIN}}}
  - {{name: limited, key: {LIMITED}, requests_per_minute: 2}}
  - {{name: narrow, key: {NARROW}, models: [b]}}
  - {{name: seldom, key: {SELDOM}, requests_per_minute: 1}}
"""
SECRET_WORDS = "purple elephants"
ASK: Any = [{"role": "user", "content": f"Say {SECRET_WORDS}."}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
        },
    },
}


@dataclass(frozen=True)
class Site:
    served: ServedProcess
    folder: Path
    weights: dict[str, Path]
    """Adapters by the fingerprints of their weights."""

    def sdk(self, key: str = MAIN) -> Any:
        return openai.OpenAI(base_url=f"{self.served.url}/v1", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    weights = publish(folder / "served" / "main", [1, 2])
    for name, seed in (("b", 3), ("c", 4)):
        weights[write_adapter(folder / name, seed)] = folder / name
    keys = folder / "keys.yaml"
    keys.write_text(KEYS)
    keys.chmod(0o600)
    words = ("served/main", "b", "third=c", "--keys", "keys.yaml", "--env", "math")
    more = ("--record", "t.sqlite", "--access-log", "log.jsonl", "--max-tokens", "12")
    with serve_process(folder, *words, *more) as served:
        yield Site(served, folder, weights)


def test_models_have_names_and_unknown_ones_are_refused_with_them(site: Site) -> None:
    with site.sdk() as client:
        assert [model.id for model in client.models.list()] == ["main", "b", "third", "tiny"]
        with pytest.raises(openai.NotFoundError, match="main, b, third, tiny") as refused:
            client.chat.completions.create(model="nope", messages=ASK)
        assert refused.value.code == "model_not_found"
    body = {"model": "nope", "max_tokens": 4, "messages": ASK}
    with site.served.client() as plain:
        said = plain.post("/v1/messages", json=body, headers={"x-api-key": MAIN})
    assert said.status_code == 404
    assert said.json()["error"]["type"] == "not_found_error"
    assert "third" in said.json()["error"]["message"]


def test_the_openai_sdk_chats_streams_and_calls_tools(site: Site) -> None:
    with site.sdk() as client:
        whole = client.chat.completions.create(model="b", messages=ASK, max_tokens=6)
        assert whole.model == "b"
        assert whole.usage.completion_tokens <= 6
        assert site.weights[whole.system_fingerprint].name == "b"
        stream = client.chat.completions.create(model="third", messages=ASK, stream=True)
        chunks = list(stream)
        assert {site.weights[chunk.system_fingerprint].name for chunk in chunks} == {"c"}
        assert chunks[-1].choices[0].finish_reason in ("stop", "length")
        called = client.chat.completions.create(
            model="main", messages=ASK, tools=[TOOL], tool_choice="required", max_tokens=100
        )
        choice = called.choices[0]
        if choice.finish_reason == "tool_calls":
            [call] = choice.message.tool_calls
            assert call.function.name == "add"
            assert isinstance(json.loads(call.function.arguments)["a"], int)
        else:  # a random model writes a number without end
            assert choice.finish_reason == "length"


def test_a_later_response_goes_on_from_an_earlier_one_of_the_same_key(site: Site) -> None:
    with site.sdk() as client:
        first = client.responses.create(model="b", input="hello")
        second = client.responses.create(model="third", input="and?", previous_response_id=first.id)
        assert second.usage.input_tokens > first.usage.input_tokens
    with site.sdk(NARROW) as other, pytest.raises(openai.APIStatusError):
        other.responses.create(model="b", input="and?", previous_response_id=first.id)


def test_keys_are_asked_for_limited_and_kept_to_their_models(site: Site) -> None:
    with site.sdk("wrong-key-0123456789") as client, pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(model="b", messages=ASK)
    with site.sdk(NARROW) as client:
        assert [model.id for model in client.models.list()] == ["b"]
        with pytest.raises(openai.PermissionDeniedError, match="may use b"):
            client.chat.completions.create(model="main", messages=ASK)
    with site.sdk(LIMITED) as client:
        for _ in range(2):
            client.chat.completions.create(model="b", messages=ASK, max_tokens=2)
        with pytest.raises(openai.RateLimitError, match="2 requests a minute") as refused:
            client.chat.completions.create(model="b", messages=ASK)
        assert 1 <= int(refused.value.response.headers["retry-after"]) <= 60
    with site.served.client() as plain:
        assert plain.get("/health").json() == {"status": "ok"}
        assert plain.get("/ready").status_code == 200
        assert plain.get("/metrics").status_code == 401
        solve = plain.post("/solve", json={"problem": "3x + 7 = 16"})
        assert solve.status_code == 401


def alone(folders: dict[str, Path]) -> dict[str, Sampler]:
    return {
        fingerprint: load_adapted_sampler(load_for_policy("tiny", "float32", "cpu"), folder)
        for fingerprint, folder in folders.items()
    }


def test_answers_during_swaps_are_each_from_one_adapter(site: Site) -> None:
    answers: list[dict[str, Any]] = []
    is_over = threading.Event()

    def ask(number: int) -> None:
        with site.served.client(MAIN) as client:
            seed = 1000 * number
            while not is_over.is_set():
                seed += 1
                body = {
                    "model": ("main", "b", "third", "main")[number % 4],
                    "messages": [{"role": "user", "content": f"{number % 2} and so on"}],
                    "seed": seed,
                    "max_tokens": 24,
                    "logprobs": True,
                    "return_token_ids": True,
                }
                answer = client.post("/v1/chat/completions", json=body)
                assert answer.status_code == 200, answer.text
                answers.append({**answer.json(), "seed": seed})

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    folder = site.folder / "served" / "main"
    for version in (2, 1, 2):
        before = site.served.said.read_text().count("main is now")
        promote(folder, version)
        for _ in range(6000):
            if site.served.said.read_text().count("main is now") > before:
                break
            time.sleep(0.05)
        asked = len(answers)
        for _ in range(6000):  # until every thread has asked it too
            if len(answers) > asked + 2 * len(threads):
                break
            time.sleep(0.05)
    is_over.set()
    for thread in threads:
        thread.join()
    promote(folder, 1)
    assert {answer["system_fingerprint"] for answer in answers} == set(site.weights)
    samplers = alone(site.weights)
    apart = 0
    for answer in answers:
        choice = answer["choices"][0]
        request = SamplingRequest(
            prompt_ids=tuple(answer["prompt_token_ids"]),
            params=SamplingParams(seed=answer["seed"], max_tokens=24),
        )
        expected = asyncio.run(samplers[answer["system_fingerprint"]].sample(request))
        pairs = list(zip(choice["token_ids"], expected.token_ids, strict=False))
        same = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
        apart += same < len(pairs)
        logprobs = [one["logprob"] for one in choice["logprobs"]["content"]]
        assert logprobs[:same] == pytest.approx(list(expected.logprobs[:same]), abs=1e-4)
    # A draw that falls between two tokens may take the other one for a last bit's difference.
    assert apart <= max(1, len(answers) // 50)


def test_a_problem_is_played_in_its_environment(site: Site) -> None:
    with site.served.client(MAIN) as client:
        said = client.post("/solve", json={"problem": "3x + 7 = 16", "model": "b", "env": "math"})
        solved = said.json()
        assert said.status_code == 200
        assert len(solved["actions"]) == len(solved["rewards"]) > 0
        assert solved["reward"] == pytest.approx(sum(solved["rewards"]))
        assert solved["success"] in (True, False)
        assert site.weights[solved["system_fingerprint"]].name == "b"
        for body, word in (
            ({"problem": "3x +"}, "not an equation"),
            ({"problem": "x = 1", "env": "shell"}, "environments: math"),
            ({"problem": "x = 1", "model": "nope"}, "there is no model"),
            ({"problem": ""}, "1 to 20000 characters"),
            ({}, "problem is missing"),
        ):
            refused = client.post("/solve", json=body)
            assert refused.status_code in (400, 404)
            assert word in refused.json()["error"]["message"]


def test_a_problem_may_stand_in_the_query_as_fastapi_reads_one(site: Site) -> None:
    asked = {"problem": "Solve for x: 3x + 7 = 16", "env": "math", "seed": 1, "temperature": 0.5}
    with site.served.client(MAIN) as client:
        in_query = client.post("/solve", params=asked)
        in_body = client.post("/solve", json={**asked, "model": "main"})
        mixed = client.post("/solve", params={"model": "main"}, json=asked)
        assert in_query.status_code == in_body.status_code == mixed.status_code == 200
        actions = in_body.json()["actions"]
        assert in_query.json()["actions"] == mixed.json()["actions"] == actions
        for params, body, word in (
            ({"problem": "x = 1"}, {"problem": "x = 2"}, "problem is given twice"),
            ({"problem": "x = 1", "trace": "1"}, None, "trace"),
            ({"problem": "x = 1", "seed": "one"}, None, "seed"),
            ({"problem": "x = 1", "temperature": "nan"}, None, "temperature"),
            ({"model": "main"}, None, "problem is missing"),
        ):
            refused = client.post("/solve", params=params, json=body)
            assert refused.status_code == 400
            assert word in refused.json()["error"]["message"]
        assert client.post("/solve").status_code == 415


def test_traffic_is_recorded_with_consent_and_labelled_by_feedback(site: Site) -> None:
    agree = {"x-practicum-record": "yes"}
    body = {"model": "b", "messages": ASK, "max_tokens": 4}
    with site.served.client(MAIN) as client:
        unasked = client.post("/v1/chat/completions", json=body)
        silent, told = unasked.json()["id"], unasked.headers["x-practicum-recorded"]
        assert told == "no; send x-practicum-record: yes to agree"
        for headers, said in (({}, told), (agree, "yes")):
            answer = client.post(
                "/v1/chat/completions", json={**body, "stream": True}, headers=headers
            )
            assert answer.headers["x-practicum-recorded"] == said
        kept = client.post("/v1/chat/completions", json=body, headers=agree).json()["id"]
        solved = client.post("/solve", json={"problem": "x = 1"}, headers=agree).json()
        assert solved["recorded"] is True
        better = {"id": kept, "correction": "Purple!", "comment": "more cheer"}
        assert client.post("/feedback", json=better).status_code == 200
        thumbs = {"id": solved["trace_id"], "thumbs": "up"}
        assert client.post("/feedback", json=thumbs).json()["value"] == 1.0
        assert client.post("/feedback", json={"id": silent, "thumbs": "up"}).status_code == 404
        assert client.post("/feedback", json={"id": kept}).status_code == 400
    # Another tenant's key, who may have seen the id, has no say; and feedback is a request.
    with site.served.client(NARROW) as other:
        for name in (kept, solved["trace_id"]):
            refused = other.post("/feedback", json={"id": name, "thumbs": "down"})
            assert refused.status_code == 403
            assert "given to another key" in refused.json()["error"]["message"]
    with site.served.client(SELDOM) as seldom:
        answers = [seldom.post("/feedback", json={"id": kept, "thumbs": "down"}) for _ in "12"]
        assert [one.status_code for one in answers] == [403, 429]
    with SqliteTraceStore(site.folder / "t.sqlite", read_only=True) as store:
        assert {label.author for label in store.labels()} == {"feedback/main"}
        labels = {label.episode_id: label for label in store.labels()}
        conversation = store.get(f"traffic/{kept.removeprefix('chatcmpl-')}")
        episode = store.get(solved["trace_id"])
        assert store.count_where("purpose = traffic") == store.count()
        assert store.get(f"traffic/{silent.removeprefix('chatcmpl-')}") is None
    assert conversation is not None
    assert conversation.trace.has_logprobs
    assert conversation.trace.fingerprints <= set(site.weights)
    assert labels[conversation.trace.id].correction == "Purple!"
    assert episode is not None
    assert episode.trace.env == "math"
    assert episode.score.value is not None


def test_metrics_and_log_count_requests_and_hold_nothing_that_was_said(site: Site) -> None:
    with site.served.client(MAIN) as client:
        client.post("/v1/chat/completions", json={"model": "b", "messages": ASK})
        text = client.get("/metrics").text
    assert 'practicum_requests_total{route="/v1/chat/completions",model="b",status="200"}' in text
    assert 'practicum_tokens_total{model="b",kind="completion"}' in text
    lines = [json.loads(line) for line in (site.folder / "log.jsonl").read_text().splitlines()]
    last = lines[-1]
    assert (last["key"], last["model"], last["status"]) == ("main", "b", 200)
    assert last["completion_tokens"] > 0
    for place in ("log.jsonl", "said"):
        said = (site.folder / place).read_text()
        assert SECRET_WORDS not in said
        assert MAIN not in said


def test_a_page_of_another_site_is_refused_and_one_of_our_own_is_not(site: Site) -> None:
    body = {"model": "b", "messages": ASK, "max_tokens": 2}
    with site.served.client(MAIN) as client:
        for origin, status in ((site.served.url, 200), ("http://evil.example", 403)):
            said = client.post("/v1/chat/completions", json=body, headers={"origin": origin})
            assert said.status_code == status
        cross = client.post("/solve", json=body, headers={"sec-fetch-site": "cross-site"})
        assert cross.status_code == 403


def test_what_is_under_way_is_finished_and_the_exit_code_is_0(tmp_path: Path) -> None:
    write_adapter(tmp_path / "a", 1)
    with serve_process(tmp_path, "a", "--at-once", "1") as served:
        body = {"model": "a", "messages": ASK, "stream": True, "max_tokens": 400, "seed": 5}
        with served.client() as client:
            with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                lines = answer.iter_lines()
                assert next(lines).startswith("data: ")
                served.process.send_signal(signal.SIGTERM)
                rest = [line for line in lines if line.startswith("data: ")]
            assert rest[-1] == "data: [DONE]"
        assert served.process.wait(240) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{served.url}/health")
    assert served.said.read_text().splitlines()[-1] == "stopped"


class TestMistakes:
    """Each is one sentence and exit code 2."""

    def test_the_port_is_taken(self, practicum: Any, tmp_path: Path) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            answer = practicum("serve", "tiny", "--port", port)
        assert answer.code == 2
        assert f"port {port} cannot be listened on" in answer.sentence

    def test_two_of_one_name_and_adapters_of_different_bases(
        self, practicum: Any, tmp_path: Path
    ) -> None:
        for place in ("x/a", "y/a", "other"):
            write_adapter(tmp_path / place, 1)
        config = tmp_path / "other" / "adapter_config.json"
        changed = {**json.loads(config.read_text()), "base_model_name_or_path": "smollm2-135m"}
        config.write_text(json.dumps(changed))
        twice = practicum("serve", tmp_path / "x/a", tmp_path / "y/a")
        assert twice.code == 2
        assert "would both be called 'a'" in twice.sentence
        bases = practicum("serve", tmp_path / "x/a", tmp_path / "other")
        assert bases.code == 2
        assert "one server has one base model" in bases.sentence

    def test_damaged_weights_and_empty_folders(self, practicum: Any, tmp_path: Path) -> None:
        write_adapter(tmp_path / "a", 1)
        (tmp_path / "a" / "adapter_model.safetensors").write_bytes(b"broken")
        damaged = practicum("serve", tmp_path / "a", "--port", "0")
        assert damaged.code != 0
        assert "cannot be read" in damaged.sentence
        (tmp_path / "served" / "n" / "versions").mkdir(parents=True)
        empty = practicum("serve", tmp_path / "served" / "n")
        assert empty.code == 2
        assert "has no version that is served" in empty.sentence
        missing = practicum("serve", "no-such-model-at-all", "--port", "0")
        assert missing.code == 2
        assert "no-such-model-at-all" in missing.sentence

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("keys: []", "keys"),
            ("keys: [{name: a, key: short}]", "at least 16 characters"),
            ("keys: [{name: a, kee: 0123456789abcdef}]", "key"),
            (
                "keys: [{name: a, key: 0123456789abcdef0}, {name: a, key: 1123456789abcdef0}]",
                "same name",
            ),
            ("keys: [{name: a, key: 0123456789abcdef0, models: [b]}]", "not served"),
        ],
    )
    def test_key_files(self, text: str, said: str, practicum: Any, tmp_path: Path) -> None:
        keys = tmp_path / "keys.yaml"
        keys.write_text(text)
        open_to_all = practicum("serve", "tiny", "--keys", keys)
        assert "open to other users" in open_to_all.sentence
        keys.chmod(0o600)
        answer = practicum("serve", "tiny", "--keys", keys)
        assert answer.code == 2
        assert said in answer.sentence

    def test_other_machines_need_keys_and_records_a_folder(
        self, practicum: Any, tmp_path: Path
    ) -> None:
        exposed = practicum("serve", "tiny", "--host", "0.0.0.0")
        assert exposed.code == 2
        assert "--keys FILE" in exposed.sentence
        nowhere = practicum(
            "serve", "tiny", "--port", "0", "--record", tmp_path / "none" / "t.sqlite"
        )
        assert nowhere.code == 2
        assert "there is no folder" in nowhere.sentence
