"""Clients of `serving.py`: a process that asks a server as fast as it answers, until time is up.

Reads a job as JSON from standard input and prints what came of it. Needs nothing but Python.
"""

import asyncio
import json
import sys
import time
from typing import Any

from gateway_wire import CHAT, Connection, Json

__all__ = ["bodies"]

SYSTEM = (
    "You are a careful assistant. Answer in plain words, in a few sentences, and say so when you "
    "do not know. Never repeat the question. Units are metric, and money is in euros."
)
TOPICS = (
    "bread",
    "the moon",
    "bicycles",
    "a garden in spring",
    "tides",
    "writing letters",
    "old maps",
    "how a clock works",
)


def bodies(models: list[str], client: int, tokens: int, more: Json) -> Any:
    """The requests of one client, each with a seed of its own."""
    number = 0
    while True:
        topic = TOPICS[(client + number) % len(TOPICS)]
        messages = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": f"Tell me about {topic}. This is my question {number}."},
        ]
        yield {
            "model": models[(client + number) % len(models)],
            "messages": messages,
            "max_tokens": tokens,
            "temperature": 1.0,
            "seed": 1_000_000 * client + number,
            **more,
        }
        number += 1


async def ask_until(job: Json, client: int, until: float) -> list[Json]:
    """One request after another; what was under way at the end is waited for and counts."""
    found = []
    asked = bodies(job["models"], client, job["tokens"], job["more"])
    while time.perf_counter() < until:
        body = next(asked)
        began = time.perf_counter()
        try:
            async with await Connection.to(job["url"]) as connection:
                data = json.dumps(body).encode()
                status, answer = await connection.ask("POST", CHAT, job["key"], data)
        except (OSError, ValueError, AssertionError, asyncio.IncompleteReadError) as error:
            status, answer = 0, {"error": repr(error)}
        took = time.perf_counter() - began
        row: Json = {"status": status, "took_s": took, "at_s": time.perf_counter(), "error": ""}
        if status == 200:
            row["tokens"] = answer["usage"]["completion_tokens"]
            if job["keep"]:
                row |= {"seed": body["seed"], "answer": answer}
        else:
            row["error"] = str(answer)[:300]
        found.append(row)
    return found


async def main() -> None:
    job = json.loads(sys.stdin.read())
    began = time.perf_counter()
    until = began + job["seconds"]
    working = [ask_until(job, client, until) for client in range(job["clients"])]
    rows = [row for found in await asyncio.gather(*working) for row in found]
    ended = max((row["at_s"] for row in rows), default=began)
    print(json.dumps({"seconds": ended - began, "rows": rows}))


if __name__ == "__main__":
    asyncio.run(main())
