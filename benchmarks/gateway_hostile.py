"""A gateway under hostile requests: what it holds of them, and whether anybody else notices.

    python benchmarks/gateway_hostile.py --requests 200 --streams 16
    python benchmarks/gateway_hostile.py --requests 24 --streams 4 --tokens 60 --json

The gateway is `practicum gateway` in a process of its own. Honest agents stream one turn after the
other, each in its rollout, for as long as the hostile requests last; these have a key too, and come
many at a time: prompts of 4 MB, counts of their tokens, schemas of 1 MB and many of 0.1 MB,
20,000 tools, a million brackets. Another rollout, which may sample 2,000 tokens, hangs up on every
answer; the control key is replaced several times a second; and another process asks for `/health`.
Then `practicum serve` has the same of hang-ups, changing keys and honest streams.

Exit status 1 where a hostile request got anything but an answer or a refusal, a stream lost a token
(each is compared with its stored trace), hanging up escaped a limit, a key that was replaced still
worked or its successor did not, `/health` took longer than `--bar` ms, or the gateway's memory grew
by more than `--grow` MB.
"""

import argparse
import asyncio
import json
import multiprocessing
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gateway_checks import compare_with_store
from gateway_hangups import (
    ASKED,
    LIMIT,
    attack_server,
    hang_up_until_refused,
    reload_often,
    start,
    write_key,
)
from gateway_wire import ANTHROPIC, CHAT, Connection, Json, path_of, spread_ms, stream_turn

AT_ONCE = 20
"""Hostile requests under way at the same time."""

PAUSE_S = 0.02
"""Between two looks at `/health`."""

SAID: Json = {"role": "user", "content": "Go on."}


def hostile_requests(count: int) -> list[tuple[str, str, bytes]]:
    """What each is, its path and its body; no two of a kind are alike."""
    kinds = [_long_prompt, _long_count, _large_schema, _many_schemas, _many_tools, _brackets]
    return [kinds[number % len(kinds)](number) for number in range(count)]


def _long_prompt(number: int) -> tuple[str, str, bytes]:
    said = {"role": "user", "content": f"{number} " + "word " * 800_000}
    return "prompt of 4 MB", CHAT, json.dumps({"messages": [said], "max_tokens": 4}).encode()


def _long_count(number: int) -> tuple[str, str, bytes]:
    said = {"role": "user", "content": f"{number} " + "count " * 600_000}
    body = {"messages": [said], "model": "m"}
    return "count of 4 MB", f"{ANTHROPIC}/count_tokens", json.dumps(body).encode()


def _schema(text: str) -> Json:
    form = {"name": "x", "schema": {"type": "object", "properties": {"a": {"const": text}}}}
    asked = {"messages": [SAID], "max_tokens": 4}
    return {**asked, "response_format": {"type": "json_schema", "json_schema": form}}


def _large_schema(number: int) -> tuple[str, str, bytes]:
    return "schema of 1 MB", CHAT, json.dumps(_schema(f"{number}" + "x" * 900_000)).encode()


def _many_schemas(number: int) -> tuple[str, str, bytes]:
    return "schema of 0.1 MB", CHAT, json.dumps(_schema(f"{number}" + "x" * 100_000)).encode()


def _many_tools(number: int) -> tuple[str, str, bytes]:
    tools = [
        {"type": "function", "function": {"name": f"t{number}_{i}", "parameters": {}}}
        for i in range(20_000)
    ]
    body = {"messages": [SAID], "max_tokens": 4, "tools": tools, "tool_choice": "required"}
    return "20,000 tools", CHAT, json.dumps(body).encode()


def _brackets(number: int) -> tuple[str, str, bytes]:
    values = b"[]," * 1_000_000
    return "a million lists", CHAT, b'{"x%d": [%s[]]}' % (number, values)


async def be_hostile(
    address: str, place: Json, requests: list[tuple[str, str, bytes]]
) -> Counter[str]:
    """Sends them all, some at a time; what each kind was answered with."""
    seen: Counter[str] = Counter()
    waiting = requests[::-1]

    async def one_after_the_other() -> None:
        while waiting:
            name, path, body = waiting.pop()
            try:
                async with await Connection.to(address) as connection:
                    asking = connection.ask("POST", path_of(place) + path, place["key"], body)
                    status, _ = await asyncio.wait_for(asking, 300)
            except (OSError, asyncio.IncompleteReadError) as error:
                status = type(error).__name__
            seen[f"{name}: {status}"] += 1

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return seen


async def stream_on(address: str, place: Json, tokens: int, is_over: asyncio.Event) -> Json:
    """One agent: turns until the hostile requests are over; what it was sent of each."""
    turns: list[Json] = []
    asked = {"max_tokens": tokens, "stream": True, "return_token_ids": True}
    while not turns or not is_over.is_set():
        body = {"messages": [{"role": "user", "content": f"Go on, {len(turns)}."}], **asked}
        async with await Connection.to(address) as connection:
            turns.append(await stream_turn(connection, path_of(place) + CHAT, place["key"], body))
    return {"rollout": place["id"], "turns": turns}


def watch_health(address: str, found: Any, is_over: Any) -> None:
    """In a process of its own: how long `/health` takes."""

    async def look() -> list[float]:
        taken = []
        async with await Connection.to(address) as connection:
            while not is_over.is_set():
                began = time.perf_counter()
                status, _ = await connection.ask("GET", "/health", "", b"")
                taken.append(time.perf_counter() - began)
                assert status == 200
                await asyncio.sleep(PAUSE_S)
        return taken

    found.put(asyncio.run(look()))


def memory_mb(process: int, name: str) -> float:
    """`VmRSS`, or `VmHWM` for the most there was."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


class ControlSocket:
    """Opens rollouts, by a key that is replaced all the while."""

    def __init__(self, socket: str, key_file: Path) -> None:
        self._socket, self._file = socket, key_file
        self.keys = [key_file.read_text().strip()]

    def change_key(self) -> None:
        """Another key in the file."""
        self.keys.append(secrets.token_hex(16))
        write_key(self._file, self.keys[-1])

    async def ask(self, method: str, path: str, body: Json, key: str = "") -> tuple[int, Any]:
        """Status and answer; with the newest key unless one is given."""
        async with await Connection.to(self._socket) as connection:
            text = json.dumps(body).encode()
            return await connection.ask(method, path, key or self.keys[-1], text)


async def charged(control: ControlSocket, rollout: str) -> Json:
    """After all reloads: which keys open the socket, and what the rollout has used."""
    await asyncio.sleep(2.0)  # the last change is seen within a second
    old, _ = await control.ask("GET", "/rollouts", {}, control.keys[-2])
    new, listed = await control.ask("GET", "/rollouts", {})
    used = [one["tokens"] for one in listed.get("rollouts", []) if one["id"] == rollout]
    return {"old_key": old, "new_key": new, "charged": sum(used)}


async def measure(
    process: subprocess.Popen[str], rollouts: list[Json], control: ControlSocket, options: Any
) -> Json:
    """All at once, and `/health` meanwhile."""
    address = rollouts[0]["url"].split("/rollouts")[0]
    *honest, attacked = rollouts
    requests = hostile_requests(options.requests)  # before anybody waits for this process
    found, stop = multiprocessing.Queue(), multiprocessing.Event()
    async with await Connection.to(address) as connection:  # the first request loads what is lazy
        path = path_of(attacked) + CHAT
        body = json.dumps(_schema("x")).encode()
        await connection.ask("POST", path, attacked["key"], body)
    _, limited = await control.ask("POST", "/rollouts", {"max_tokens": LIMIT})
    before = memory_mb(process.pid, "VmRSS")
    watching = multiprocessing.Process(target=watch_health, args=(address, found, stop))
    watching.start()
    is_over = asyncio.Event()
    streams = [
        asyncio.create_task(stream_on(address, place, options.tokens, is_over)) for place in honest
    ]
    await asyncio.sleep(1.0)
    began = time.perf_counter()
    reloads = asyncio.create_task(reload_often(process.pid, control.change_key, is_over))
    seen, gone = await asyncio.gather(
        be_hostile(address, attacked, requests),
        hang_up_until_refused(address, path_of(limited), limited["key"]),
    )
    took_s = time.perf_counter() - began
    is_over.set()
    records = await asyncio.gather(*streams)
    gone |= {"reloads": await reloads, **await charged(control, limited["id"])}
    stop.set()
    health = found.get(timeout=30)
    watching.join()
    return {
        "answers": dict(sorted(seen.items())),
        "took_s": took_s,
        "hang_ups": gone,
        "records": records,
        "health_ms": {**spread_ms(health), "worst": 1e3 * max(health), "looks": len(health)},
        "before_mb": before,
        "after_mb": memory_mb(process.pid, "VmRSS"),
        "most_mb": memory_mb(process.pid, "VmHWM"),
    }


def serve(model: str, count: int, folder: Path) -> tuple[Any, list[Json], ControlSocket]:
    """`practicum gateway`, the rollouts that it opened, and its control socket."""
    key_file = folder / "key"
    write_key(key_file, "k" * 64)
    words = ["gateway", model, "--port", "0", "--open", str(count), "--key-file", str(key_file)]
    marks = {"rollouts": "keys of these rollouts: ", "socket": "control socket: "}
    process, said = start([*words, "--store", str(folder / "traces.sqlite")], marks, {})
    rollouts = json.loads(Path(said["rollouts"]).read_text())["rollouts"]
    return process, rollouts, ControlSocket(said["socket"], key_file)


def problems_of(found: Json, options: Any) -> list[str]:
    """What falls short."""
    answered = {"200", "400", "413", "429", "503"}
    problems = [f"answered {one}" for one in found["answers"] if one.split(": ")[1] not in answered]
    if found["lost"] or found["mixed"]:
        problems.append(f"{found['lost']} turns lost, {found['mixed']} mixed up")
    for name in ("hang_ups", "server"):
        gone = found[name]
        if not gone["refused"] or gone["charged"] < LIMIT - ASKED:
            problems.append(f"{name}: {gone['charged']} tokens charged, refused {gone['refused']}")
        if (gone["old_key"], gone["new_key"]) != (401, 200):
            problems.append(f"{name}: old key {gone['old_key']}, new key {gone['new_key']}")
        if gone.get("lost"):
            problems.append(f"{name}: {gone['lost']} honest turns lost")
    if found["health_ms"]["worst"] > options.bar:
        worst = found["health_ms"]["worst"]
        problems.append(f"/health took {worst:.0f} ms, above {options.bar:g}")
    if found["most_mb"] - found["before_mb"] > options.grow:
        grown = found["most_mb"] - found["before_mb"]
        problems.append(f"memory grew by {grown:.0f} MB, above {options.grow:g}")
    return problems


def main() -> int:
    """Serve, attack, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=200, help="of an honest turn")
    parser.add_argument("--bar", type=float, default=100.0, help="most ms for /health")
    parser.add_argument("--grow", type=float, default=600.0, help="most MB of growth")
    parser.add_argument("--json", action="store_true")
    options, _ = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="practicum-") as folder:
        store, records = Path(folder) / "traces.sqlite", Path(folder) / "records.jsonl"
        process, rollouts, control = serve(options.model, options.streams + 1, Path(folder))
        try:
            found = asyncio.run(measure(process, rollouts, control, options))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        records.write_text("".join(json.dumps(one) + "\n" for one in found.pop("records")))
        found |= compare_with_store(records, store)
        found["server"] = attack_server(options.model, Path(folder), options.tokens)
    found["problems"] = problems_of(found, options)
    if options.json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name:>18}: {value}")
    return bool(found["problems"])


if __name__ == "__main__":
    sys.exit(main())
