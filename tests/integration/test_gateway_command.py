"""`practicum gateway` as a user runs it: its address, its files, its control socket, its store."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from practicum.cli.gateway import chosen_model
from practicum.store.trace_store import SqliteTraceStore

START_S = 300


@contextmanager
def running(folder: Path, *words: str) -> Iterator[tuple[str, str]]:
    """The command under way: its line on standard output, and what it said beside."""
    with (folder / "said").open("w") as beside:
        process = subprocess.Popen(
            [sys.executable, "-m", "practicum.cli.main", "gateway", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=beside,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    (folder / "pid").write_text(str(process.pid))
    watch = threading.Timer(START_S, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        said = (folder / "said").read_text()
        for _ in range(100):
            if "control key" in said:
                break
            threading.Event().wait(0.05)
            said = (folder / "said").read_text()
        yield line, said
        process.send_signal(signal.SIGINT)
        assert process.wait(240) == 0
    finally:
        watch.cancel()
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def named(said: str, what: str) -> str:
    found = re.search(rf"{what}: (\S+)", said)
    assert found, said
    return found[1]


def test_a_model_is_served_controlled_and_its_rollouts_are_kept(tmp_path: Path) -> None:
    words = ("tiny", "--port", "0", "--store", "t.sqlite", "--key-file", "key", "--open", "2")
    with running(tmp_path, *words, "rollouts.max_tokens=6", "--max-turns", "2") as (base, said):
        key_file, places_file = tmp_path / "key", Path(named(said, "keys of these rollouts"))
        for file in (key_file, places_file):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        places: list[dict[str, Any]] = json.loads(places_file.read_text())["rollouts"]
        assert len(places) == 2
        assert base == places[0]["url"] + "/v1"
        assert not any(place["key"] in said for place in places)
        first = places[0]
        headers = {"Authorization": f"Bearer {first['key']}"}
        messages = [{"role": "user", "content": "hi"}]
        with httpx.Client(base_url=base, headers=headers, timeout=240) as agent:
            assert [m["id"] for m in agent.get("/models").json()["data"]] == ["tiny"]
            for status in (200, 200, 429):
                answer = agent.post("/chat/completions", json={"messages": messages})
                assert answer.status_code == status
        admin = httpx.Client(
            transport=httpx.HTTPTransport(uds=named(said, "control socket")),
            base_url="http://control",
            headers={"Authorization": f"Bearer {key_file.read_text().strip()}"},
        )
        with admin:
            name = first["id"]
            reward = admin.post(f"/rollouts/{name}/reward", json={"reward": 1.5})
            assert reward.json() == {"reward": 1.5}
            assert admin.delete(f"/rollouts/{name}").json()["turns"] == 2
            assert len(admin.get("/rollouts").json()["rollouts"]) == 1
        with httpx.Client(base_url=base, headers=headers) as agent:
            late = agent.post("/chat/completions", json={"messages": messages})
            assert late.status_code == 409
        second = places[1]
        headers = {"x-api-key": second["key"]}
        body = {"model": "x", "max_tokens": 4, "messages": messages}
        answer = httpx.post(f"{second['url']}/v1/messages", json=body, headers=headers, timeout=240)
        assert answer.json()["usage"]["output_tokens"] <= 4
    assert not places_file.exists()
    with SqliteTraceStore(tmp_path / "t.sqlite", read_only=True) as store:
        kept = list(store.episodes())
    assert [episode.score.value for episode in kept] == [1.5, None]
    assert [len(episode.trace.turns) for episode in kept] == [2, 1]
    assert all(episode.trace.has_logprobs for episode in kept)
    assert "2 rollouts are in t.sqlite" in (tmp_path / "said").read_text()


def test_the_control_key_is_replaced_while_it_serves_and_no_rollout_ends(tmp_path: Path) -> None:
    words = ("tiny", "--port", "0", "--key-file", "key")
    with running(tmp_path, *words, "rollouts.max_tokens=6") as (base, said):
        key_file, socket = tmp_path / "key", named(said, "control socket")
        places = json.loads(Path(named(said, "keys of these rollouts")).read_text())["rollouts"]

        def listed(key: str) -> int:
            transport = httpx.HTTPTransport(uds=socket)
            headers = {"Authorization": f"Bearer {key}"}
            with httpx.Client(transport=transport, headers=headers) as admin:
                return admin.get("http://control/rollouts").status_code

        before, after = key_file.read_text().strip(), "another-key-0123456789"
        assert (listed(before), listed(after)) == (200, 401)
        key_file.write_text(after)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGHUP)
        until = time.monotonic() + START_S
        while (listed(before), listed(after)) != (401, 200):
            assert time.monotonic() < until
        key_file.write_text("short")
        while "the keys stay as they were: the key in key" not in (tmp_path / "said").read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert (listed(before), listed(after)) == (401, 200)
        headers = {"Authorization": f"Bearer {places[0]['key']}"}
        with httpx.Client(base_url=base, headers=headers, timeout=240) as agent:
            assert agent.get("/models").status_code == 200


def test_mistakes_are_one_sentence(practicum: Any, tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "t.sqlite"
    for words, said in (
        (("no-such-model-at-all",), "no-such-model-at-all"),
        (("missing.yaml",), "missing.yaml"),
        (("tiny", "rollouts.max_tokens=many"), "max_tokens"),
        (("tiny", "--port", "0", "--store", nowhere), "folder"),
    ):
        answer = practicum("gateway", *words)
        assert answer.code == 2
        assert said in answer.sentence


@pytest.mark.parametrize(("words", "longest"), [([], 1024), (["rollouts.max_tokens=32"], 32)])
def test_a_model_by_its_name_may_answer_at_length(words: list[str], longest: int) -> None:
    _, _, rollouts = chosen_model("tiny", words)
    assert rollouts.max_tokens == longest


@pytest.mark.rare
def test_a_rollout_is_rewarded_from_the_command_line_and_a_shell_gets_its_lines(
    practicum: Any, tmp_path: Path
) -> None:
    words = ("tiny", "--port", "0", "--store", "t.sqlite", "--key-file", "key", "--export")
    with running(tmp_path, *words) as (line, said):
        (place,) = json.loads(Path(named(said, "keys of these rollouts")).read_text())["rollouts"]
        assert line == f"export OPENAI_BASE_URL={place['url']}/v1"
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        headers = {"Authorization": f"Bearer {place['key']}"}
        url = f"{place['url']}/v1/chat/completions"
        assert httpx.post(url, json=body, headers=headers, timeout=240).status_code == 200
        where = ("--socket", named(said, "control socket"), "--key-file", tmp_path / "key")
        assert practicum("gateway", "reward", "nobody", "1", *where).code == 2
        assert practicum("gateway", "reward", place["id"], "much", *where).code == 2
        answer = practicum("gateway", "reward", f"{place['id']}=-0.5", *where)
        assert (answer.code, answer.out) == (0, f"rollout {place['id']}: reward -0.5\n")
    with SqliteTraceStore(tmp_path / "t.sqlite", read_only=True) as store:
        assert [episode.score.value for episode in store.episodes()] == [-0.5]
