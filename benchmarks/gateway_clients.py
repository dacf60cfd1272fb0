"""The clients of `gateway.py`, in processes of their own.

Reads jobs as lines of JSON and answers each with a line.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gateway_trouble import killed, other_names, refused, slow, victim
from gateway_wire import CHAT, Connection, Control, Json, path_of, spread_ms, stream_turn

WORDS = ("go on", "and then?", "why is that", "look again", "say it shorter")
MOST_ERRORS = 20


async def load(job: Json) -> Json:
    """Agents that open rollouts, talk and close them until the time is over."""
    until = time.monotonic() + job["seconds"]
    done: list[Json] = []
    errors: list[str] = []

    async def agent(number: int, records: Any) -> None:
        rollout = 0
        async with await Connection.to(job["address"]) as connection:
            while time.monotonic() < until and len(errors) < MOST_ERRORS:
                name, rollout = f"agent {number}, rollout {rollout}", rollout + 1
                try:
                    record = await _rollout(connection, name, job)
                except RuntimeError as error:
                    errors.append(str(error))
                    continue
                records.write(json.dumps(record) + "\n")
                done.extend(
                    {"first_s": t["first_s"], "took_s": t["took_s"], "tokens": len(t["ids"])}
                    for t in record["turns"]
                )

    began = time.monotonic()
    with Path(job["records"]).open("w") as records:
        await asyncio.gather(*(agent(number, records) for number in range(job["rollouts"])))
    took = time.monotonic() - began
    tokens = sum(turn["tokens"] for turn in done)
    return {
        "errors": errors,
        "requests": len(done),
        "tokens": tokens,
        "requests_per_s": len(done) / took,
        "tokens_per_s": tokens / took,
        "first_token_ms": spread_ms([turn["first_s"] for turn in done]),
        "request_ms": spread_ms([turn["took_s"] for turn in done]),
    }


async def _rollout(connection: Connection, name: str, job: Json) -> Json:
    """Several turns, each with all that was said before, as agents do."""
    dice, control = random.Random(name), Control(job)
    place = await control.ask("POST", "/rollouts")
    messages = [{"role": "system", "content": name}, {"role": "user", "content": "begin"}]
    turns = []
    for _ in range(dice.randint(2, 2 * job["turns"] - 2)):
        body = {
            "model": "any",
            "messages": messages,
            "max_tokens": dice.randint(1, 2 * job["max_tokens"] - 1),
            "stream": True,
            "return_token_ids": True,
        }
        turn = await stream_turn(connection, path_of(place) + CHAT, place["key"], body)
        if not turn["ended"]:
            raise RuntimeError(f"{name}: a stream broke off")
        messages = [
            *messages,
            {"role": "assistant", "content": turn["content"]},
            {"role": "user", "content": dice.choice(WORDS)},
        ]
        turns.append(turn)
    await control.ask("DELETE", f"/rollouts/{place['id']}")
    return {"rollout": place["id"], "turns": turns}


async def replay(job: Json) -> Json:
    """Conversations side by side, each a list of requests; gives how long each request took."""

    async def converse(bodies: list[Json], place: Json) -> list[list[float]]:
        path, took = path_of(place) + CHAT, []
        async with await Connection.to(job["address"]) as connection:
            await connection.ask("GET", "/health", "", b"")
            for body in bodies:
                began = time.perf_counter()
                if body["stream"]:
                    found = await stream_turn(connection, path, place["key"], body)
                    tokens = len(found["ids"])
                else:
                    sent = json.dumps(body).encode()
                    _, answer = await connection.ask("POST", path, place["key"], sent)
                    tokens = answer["usage"]["completion_tokens"]
                took.append([time.perf_counter() - began, tokens])
        return took

    pairs = zip(job["conversations"], job["places"], strict=True)
    return {"requests": await asyncio.gather(*(converse(*pair) for pair in pairs))}


JOBS: dict[str, Callable[[Json], Awaitable[Json]]] = {
    "load": load,
    "replay": replay,
    "refused": refused,
    "other_names": other_names,
    "killed": killed,
    "slow": slow,
    "victim": victim,
}


def main() -> None:
    """Jobs, until there are no more."""
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(asyncio.run(JOBS[job["do"]](job))), flush=True)


if __name__ == "__main__":
    main()
