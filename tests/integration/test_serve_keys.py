"""Keys of a server that runs: what hanging up costs, and key files that change meanwhile."""

import json
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.serve_site import ServedProcess, serve_process
from tests.unit.engine.adapters import write_adapter

CHAT = "/v1/chat/completions"
MAIN, LIMITED, SILENT, SOLVER, OTHER = (f"{name}-key-0123456789" for name in "mlsov")
LIMIT = 300
KEYS = f"""
keys:
  - {{name: main, key: {MAIN}}}
  - {{name: limited, key: {LIMITED}, tokens_per_minute: {LIMIT}}}
  - {{name: silent, key: {SILENT}, tokens_per_minute: {LIMIT}}}
  - {{name: solver, key: {SOLVER}, tokens_per_minute: 20}}
"""
GIVE_UP_S = 240


def body(**more: Any) -> dict[str, Any]:
    asked = [{"role": "user", "content": "Say something long."}]
    return {"messages": asked, "max_tokens": 400, "seed": 5, **more}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    folder = tmp_path_factory.mktemp("keys")
    write_adapter(folder / "a", 1)
    write_keys(folder, KEYS)
    words = ("a", "--keys", "keys.yaml", "--access-log", "log.jsonl", "--env", "math")
    with serve_process(folder, *words) as served:
        yield served


def write_keys(folder: Path, text: str) -> None:
    fresh = folder / "fresh.yaml"
    fresh.write_text(text)
    fresh.chmod(0o600)
    fresh.replace(folder / "keys.yaml")


def logged(site: ServedProcess, name: str, count: int) -> list[dict[str, Any]]:
    """The first so many lines of a key's in the access log, once they are there."""
    file = site.said.with_name("log.jsonl")
    until = time.monotonic() + GIVE_UP_S
    while True:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        found = [line for line in lines if line["key"] == name]
        if len(found) >= count:
            return found
        assert time.monotonic() < until, found
        time.sleep(0.02)


def wait_for(site: ServedProcess, sentence: str) -> None:
    until = time.monotonic() + GIVE_UP_S
    while sentence not in site.said.read_text():
        assert time.monotonic() < until, site.said.read_text()
        time.sleep(0.02)


def hang_up(client: httpx.Client, *, stream: bool) -> int:
    """Ask for many tokens and go away before they are there; the status."""
    if not stream:
        with suppress(httpx.ReadTimeout):
            return client.post(CHAT, json=body(max_tokens=3000), timeout=0.5).status_code
        return 0
    with client.stream("POST", CHAT, json=body(stream=True, max_tokens=3000)) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                break
        return answer.status_code


@pytest.mark.parametrize(("name", "key", "stream"), [("limited", LIMITED, True),
                                                     ("silent", SILENT, False)])  # fmt: skip
def test_a_limit_on_tokens_is_not_escaped_by_hanging_up(
    site: ServedProcess, name: str, key: str, stream: bool
) -> None:
    statuses = []
    for number in range(60):
        with site.client(key) as client:
            statuses.append(hang_up(client, stream=stream))
        lines = logged(site, name, number + 1)
        if statuses[-1] == 429:
            break
    assert statuses[-1] == 429
    assert len(statuses) > 1
    answered = lines[: len(statuses) - 1]
    assert all(line["prompt_tokens"] > 0 for line in answered)
    assert sum(line["prompt_tokens"] + line["completion_tokens"] for line in answered) >= LIMIT


def test_a_solved_problem_costs_tokens_of_the_limit(site: ServedProcess) -> None:
    statuses = []
    with site.client(SOLVER) as client:
        for _ in range(60):
            statuses.append(client.post("/solve", json={"problem": "3x + 7 = 16"}).status_code)
            if statuses[-1] == 429:
                break
    assert (statuses[0], statuses[-1]) == (200, 429)
    lines = logged(site, "solver", len(statuses))
    assert sum(line["completion_tokens"] for line in lines) >= 20


def test_keys_change_while_it_serves_and_nothing_under_way_ends(site: ServedProcess) -> None:
    folder = site.said.parent

    def whole_stream(number: int) -> str:
        with (
            site.client(MAIN) as client,
            client.stream("POST", CHAT, json=body(stream=True, seed=number)) as answer,
        ):
            begun.append(number)
            return list(filter(None, answer.iter_lines()))[-1]

    begun: list[int] = []
    with ThreadPoolExecutor(6) as pool:
        streams = [pool.submit(whole_stream, number) for number in range(6)]
        while len(begun) < 6 and not any(one.done() for one in streams):
            time.sleep(0.01)
        write_keys(folder, KEYS.replace(MAIN, OTHER))
        site.process.send_signal(signal.SIGHUP)
        assert [one.result() for one in streams] == ["data: [DONE]"] * 6
    wait_for(site, "keys.yaml was read again; changed: main")
    statuses = {key: ask(site, key) for key in (MAIN, OTHER)}
    assert statuses == {MAIN: 401, OTHER: 200}
    # One that cannot be used changes nothing, and says why.
    write_keys(folder, "keys: [")
    site.process.send_signal(signal.SIGHUP)
    wait_for(site, "the keys stay as they were: ")
    assert ask(site, OTHER) == 200
    # Without a signal, a key that is taken out stops working soon.
    write_keys(folder, KEYS)
    until = time.monotonic() + GIVE_UP_S
    while ask(site, OTHER) != 401:
        assert time.monotonic() < until
    assert ask(site, MAIN) == 200
    assert site.process.poll() is None


def ask(site: ServedProcess, key: str) -> int:
    with site.client(key) as client:
        return client.post(CHAT, json=body(max_tokens=2)).status_code


def test_a_server_without_a_key_file_outlives_the_signal(tmp_path: Path) -> None:
    write_adapter(tmp_path / "a", 1)
    with serve_process(tmp_path, "a") as served:
        served.process.send_signal(signal.SIGHUP)
        wait_for(served, "there is no key file to read again")
        assert ask(served, "any-key-0123456789") == 200
