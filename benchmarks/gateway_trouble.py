"""Clients that misbehave while a gateway serves others; run by `gateway_clients.py`."""

import asyncio
import json
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gateway_wire import (
    ANTHROPIC,
    CHAT,
    RESPONSES,
    Connection,
    Control,
    Json,
    path_of,
    request_bytes,
)

__all__ = ["MARK", "killed", "other_names", "refused", "slow", "victim"]

MARK = "this client was killed"
"""In the prompts of killed clients, so that what they left can be looked for."""

KILLS = 4
"""Tries for each dialect: an answer may come to its end by itself before its client is killed."""

PROGRAM = str(Path(__file__).with_name("gateway_clients.py"))
PAUSE_S = 1.0
"""What a slow reader waits between two bytes."""

LONG_BODY = 10_000_000


def ordinary(path: str, said: str = "hello", max_tokens: int = 8) -> Json:
    """A request in the dialect of a path."""
    if path == RESPONSES:
        return {"model": "any", "input": said, "max_output_tokens": max_tokens}
    messages = [{"role": "user", "content": said}]
    return {"model": "any", "messages": messages, "max_tokens": max_tokens}


async def refused(job: Json) -> Json:
    """Requests that are wrong, in every dialect, streamed and not: status, shape and sentence."""
    control, found = Control(job), []
    place = await control.ask("POST", "/rollouts")
    for path in (CHAT, RESPONSES, ANTHROPIC):
        for stream in (False, True):
            for name, key, body in wrong_requests(path, place["key"], stream):
                async with await Connection.to(job["address"]) as connection:
                    status, said = await connection.ask("POST", path_of(place) + path, key, body)
                shaped = {
                    "shaped": is_error_of(path, said),
                    "sentence": said["error"]["message"],
                }
                found.append({"name": name, "path": path, "status": status, **shaped})
    closed = await control.ask("DELETE", f"/rollouts/{place['id']}")
    return {"answers": found, "turns": closed["turns"]}


def wrong_requests(path: str, key: str, stream: bool) -> list[tuple[str, str, bytes]]:
    """What is wrong, the key and the body."""

    def body(**more: Any) -> bytes:
        return json.dumps({**ordinary(path), "stream": stream, **more}).encode()

    long = {**ordinary(path, "x" * 5000), "stream": stream}
    wrong_key = f"{key[:-1]}{'0' if key[-1] != '0' else '1'}"
    return [
        ("body of 10 MB", key, body(user="x" * LONG_BODY)),
        ("wrong key", wrong_key, body()),
        ("no key", "", body()),
        ("prompt too long", key, json.dumps(long).encode()),
        ("invalid JSON", key, body()[:-1]),
        ("unknown parameter", key, body(no_such_parameter=1)),
    ]


def is_error_of(path: str, body: Any) -> bool:
    """Whether an error has the shape of a path's dialect, and is one sentence."""
    error = body.get("error", {})
    if path == ANTHROPIC:
        known = body.get("type") == "error" and {"type", "message"} <= set(error)
    else:
        known = "type" not in body and {"type", "message", "param", "code"} <= set(error)
    said = str(error.get("message", ""))
    return known and bool(said) and "\n" not in said and "Traceback" not in said


async def other_names(job: Json) -> Json:
    """Requests for a model that is not there: answered by the one that is, which says its name."""
    found = []
    control = Control(job)
    place = await control.ask("POST", "/rollouts")
    async with await Connection.to(job["address"]) as connection:
        for path in (CHAT, RESPONSES, ANTHROPIC):
            body = json.dumps({**ordinary(path), "model": "no-such-model"}).encode()
            status, said = await connection.ask("POST", path_of(place) + path, place["key"], body)
            found.append({"path": path, "status": status, "model": said["model"]})
        path = path_of(place) + "/v1/models/no-such-model"
        status, _ = await connection.ask("GET", path, place["key"], b"")
    await control.ask("DELETE", f"/rollouts/{place['id']}")
    return {"answers": found, "looked_up": status}


async def killed(job: Json) -> Json:
    """Clients that are killed in mid-stream; says what their rollouts still have under way."""
    found = []
    for path in (CHAT, RESPONSES, ANTHROPIC):
        for _ in range(KILLS):
            outcome = await _kill_one(Control(job), job["address"], path)
            if not outcome["turns"]:
                break
        found.append(outcome)
    return {"clients": found}


async def _kill_one(control: Control, address: Any, path: str) -> Json:
    place = await control.ask("POST", "/rollouts")
    body = {**ordinary(path, MARK, max_tokens=3500), "stream": True}
    task = {"do": "victim", "address": address, "path": path_of(place) + path}
    victim = await _start({**task, "key": place["key"], "body": body})
    assert victim.stdout is not None
    heard = await victim.stdout.readline()
    victim.send_signal(signal.SIGKILL)
    await victim.wait()
    left = await _under_way(control, place["id"], patience_s=10.0)
    closed = await control.ask("DELETE", f"/rollouts/{place['id']}")
    return {"path": path, "heard": len(heard), "under_way": left, "turns": closed["turns"]}


async def _start(task: Json) -> asyncio.subprocess.Process:
    """This program again, with one thing to do."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(task).encode() + b"\n")
    return process


async def victim(job: Json) -> Json:
    """Asks, says when the first event is there, and reads on until it is killed."""
    async with await Connection.to(job["address"]) as connection:
        await connection.send("POST", job["path"], job["key"], json.dumps(job["body"]).encode())
        async for part in connection.stream():
            print(len(part), flush=True)
            await asyncio.sleep(60)
    return {}


async def _under_way(control: Control, rollout: str, patience_s: float) -> int:
    """Requests of a rollout that are still under way when they are, or patience is, over."""
    until = time.monotonic() + patience_s
    while True:
        listed = (await control.ask("GET", "/rollouts"))["rollouts"]
        [count] = [int(one["under_way"]) for one in listed if one["id"] == rollout]
        if not count or time.monotonic() > until:
            return count
        await asyncio.sleep(0.02)


async def slow(job: Json) -> Json:
    """Clients that read a byte a second of a long answer, as long as the job says."""
    until = time.monotonic() + job["seconds"]

    async def read(path: str) -> Json:
        more = {"logprobs": True, "top_logprobs": 20} if path == CHAT else {}
        body = {**ordinary(path, "tell me all", max_tokens=300), "stream": True, **more}
        loop = asyncio.get_running_loop()
        control = Control(job)
        place = await control.ask("POST", "/rollouts")
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            raw.setblocking(False)
            parts = urlsplit(job["address"])
            await loop.sock_connect(raw, (parts.hostname, parts.port))
            sent = json.dumps(body).encode()
            asked = request_bytes("POST", path_of(place) + path, place["key"], sent)
            await loop.sock_sendall(raw, asked)
            seen = 0
            while time.monotonic() < until:
                seen += len(await loop.sock_recv(raw, 1))
                await asyncio.sleep(PAUSE_S)
            left = await _under_way(control, place["id"], patience_s=job["patience_s"])
            closed = await control.ask("DELETE", f"/rollouts/{place['id']}")
        return {"path": path, "read": seen, "under_way": left, "tokens": closed["tokens"]}

    return {"clients": await asyncio.gather(*map(read, (CHAT, RESPONSES, ANTHROPIC)))}
