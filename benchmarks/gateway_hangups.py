"""Clients that hang up, keys that change and limits, for `gateway_hostile.py`: both servers.

A key with a limit on tokens asks for long answers and goes away before they are there, as often as
it is let, and is refused once it has used its limit. Meanwhile the key file is replaced and the
server told to read it again, and honest agents stream on.
"""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from pathlib import Path
from typing import Any

from gateway_wire import CHAT, Connection, Json, stream_turn

from practicum.store.trace_store import SqliteTraceStore

__all__ = [
    "ASKED",
    "attack_server",
    "hang_up_until_refused",
    "key_yaml",
    "reload_often",
    "start",
    "write_key",
]

LIMIT = 2000
"""Tokens of the key that hangs up: of its rollout, or a minute."""
ASKED = 400
"""Tokens that each of its answers may have; while one is under way it counts with these."""
MOST_HANG_UPS = 400
AT_ONCE = 4
"""Honest streams of the server."""
CHUNKS = 3
"""Reads of a stream, after which its client is gone."""
SILENT_S = 0.3
"""After which a client that does not stream is gone."""
RELOAD_S = 0.3
"""Between two changes of the key file."""


async def hang_up_until_refused(address: str, path: str, key: str) -> Json:
    """How often a key could hang up before it was refused, and with what."""
    seen: Counter[str] = Counter()
    for number in range(MOST_HANG_UPS):
        asked = [{"role": "user", "content": f"Go on and on, {number}."}]
        body: Json = {"messages": asked, "max_tokens": ASKED, "stream": number % 2 == 0}
        async with await Connection.to(address) as connection:
            sending = connection.send("POST", path + CHAT, key, json.dumps(body).encode())
            try:
                wait_s = None if body["stream"] else SILENT_S
                status, length = await asyncio.wait_for(sending, wait_s)
                if status == 200 and length is None:
                    stream = connection.stream()
                    for _ in range(CHUNKS):
                        await anext(stream, b"")
                kind = f"{'stream' if length is None else 'answer'}: {status}"
            except TimeoutError:
                status, kind = 0, "no answer awaited"
        seen[kind] += 1
        if status == 429:
            break
        await asyncio.sleep(0.05)  # the server hears of it, and gives back what is not used
    return {"ended": dict(sorted(seen.items())), "refused": status == 429}


async def reload_often(process: int, change: Any, is_over: asyncio.Event) -> int:
    """Replaces the key file and tells the server, again and again; how often."""
    times = 0
    while not is_over.is_set():
        change()
        os.kill(process, signal.SIGHUP)
        times += 1
        await asyncio.sleep(RELOAD_S)
    return times


def write_key(path: Path, text: str) -> None:
    """Another file in the place of the old one, for its owner alone."""
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.replace(path)


def start(words: list[str], marks: dict[str, str], env: Json) -> tuple[Any, dict[str, str]]:
    """`practicum ...` in a process of its own, and what it says after each mark."""
    program = str(Path(sys.executable).with_name("practicum"))
    process = subprocess.Popen(
        [program, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    assert process.stderr is not None
    found: dict[str, str] = {}
    for line in process.stderr:
        for name, mark in marks.items():
            if line.startswith(mark):
                found[name] = line.removeprefix(mark).split(";")[0].strip()
        if len(found) == len(marks):
            # It says a line for each change of its keys, and waits where nobody reads them.
            threading.Thread(target=deque, args=(process.stderr, 0), daemon=True).start()
            return process, found
    raise RuntimeError(f"practicum {words[0]} did not start")


def key_yaml(honest: str, passing: str) -> str:
    """Three keys, one of them with a limit, and one that changes each time."""
    rows = [
        {"name": "honest", "key": honest},
        {"name": "limited", "key": "limited-key-0123456789", "tokens_per_minute": LIMIT},
        {"name": "passing", "key": passing},
    ]
    return json.dumps({"keys": rows})  # JSON is YAML


def attack_server(model: str, folder: Path, tokens: int) -> Json:
    """`practicum serve` under hang-ups and reloads, and what honest streams lost of it."""
    keys, log, store = folder / "keys.yaml", folder / "log.jsonl", folder / "traffic.sqlite"
    honest, passing = "honest-key-0123456789", ["passing-key-0123456789"]
    write_key(keys, key_yaml(honest, passing[-1]))
    words = ["serve", model, "--port", "0", "--keys", keys, "--access-log", log]
    words += ["--record", store, "--consent", "assumed"]
    process, said = start([str(word) for word in words], {"address": "serving at "}, {})

    def change() -> None:
        passing.append(secrets.token_hex(16))
        write_key(keys, key_yaml(honest, passing[-1]))

    async def attack() -> Json:
        is_over, address = asyncio.Event(), said["address"]
        reloads = asyncio.create_task(reload_often(process.pid, change, is_over))
        streams = [
            asyncio.create_task(_stream_on(address, honest, tokens, is_over))
            for _ in range(AT_ONCE)
        ]
        found = await hang_up_until_refused(address, "", "limited-key-0123456789")
        is_over.set()
        found["reloads"] = await reloads
        found["turns"] = [turn for turns in await asyncio.gather(*streams) for turn in turns]
        found["old_key"], found["new_key"] = [
            await _status(address, key) for key in (passing[-2], passing[-1])
        ]
        return found

    try:
        found = asyncio.run(attack())
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    spent = [one for one in lines if one["key"] == "limited" and one["status"] != 429]
    found["charged"] = sum(one["prompt_tokens"] + one["completion_tokens"] for one in spent)
    turns = found.pop("turns")
    return {**found, "honest_turns": len(turns), "lost": _lost(turns, store)}


async def _stream_on(address: str, key: str, tokens: int, is_over: asyncio.Event) -> list[Json]:
    turns: list[Json] = []
    asked = {"max_tokens": tokens, "stream": True, "return_token_ids": True}
    while not turns or not is_over.is_set():
        body = {"messages": [{"role": "user", "content": f"Go on, {len(turns)}."}], **asked}
        async with await Connection.to(address) as connection:
            turns.append(await stream_turn(connection, CHAT, key, body))
    return turns


async def _status(address: str, key: str) -> int:
    """Once the last reload has been seen, which is a second later at most."""
    await asyncio.sleep(2.0)
    async with await Connection.to(address) as connection:
        return (await connection.ask("GET", "/v1/models", key, b""))[0]


def _lost(turns: list[Json], store: Path) -> int:
    """Streams that broke off, or were sent other tokens than were recorded of them."""
    with SqliteTraceStore(store, read_only=True) as traces:
        kept = Counter(
            tuple(node.token_ids)
            for episode in traces.query()
            for node in episode.trace.nodes
            if node.sampled is not None
        )
    sent = Counter(tuple(turn["ids"] or ()) for turn in turns if turn["ended"])
    return sum(not turn["ended"] for turn in turns) + (sent - kept).total()
