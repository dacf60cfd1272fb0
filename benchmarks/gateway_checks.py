"""What `gateway.py` found: clients' tokens against stored traces, what falls short, and a table."""

import json
from pathlib import Path
from typing import Any

from gateway_wire import spread_ms

from practicum.core.trace import Trace
from practicum.store.trace_store import SqliteTraceStore

__all__ = ["compare_with_store", "problems_of", "show"]

STATUS = {
    "body of 10 MB": 413,
    "wrong key": 401,
    "no key": 401,
    "prompt too long": 400,
    "invalid JSON": 400,
    "unknown parameter": 400,
}


def compare_with_store(records: Path, store: Path) -> dict[str, Any]:
    """Every client's tokens against the trace of its rollout.

    A turn is lost when no sampled node follows the prompt that the client was told with the tokens
    that it was sent; tokens are mixed up when a trace holds sampled ones that its client was not
    sent. Also how much longer each turn took its client than it took the engine.
    """
    counts = {"compared_tokens": 0, "lost": 0, "mixed": 0, "branched": 0}
    beyond_engine: list[float] = []
    with SqliteTraceStore(store) as traces, records.open() as lines:
        for line in lines:
            record = json.loads(line)
            episode = traces.get(f"gateway/{record['rollout']}")
            kept = [] if episode is None else _turns_of(episode.trace)
            for turn in record["turns"]:
                sent = (tuple(turn["prompt"] or ()), tuple(turn["ids"] or ()))
                found = next((one for one in kept if one[:2] == sent), None)
                if found is None:
                    counts["lost"] += 1
                    continue
                kept.remove(found)
                counts["compared_tokens"] += len(sent[1])
                beyond_engine.append(turn["took_s"] - found[2])
            counts["mixed"] += len(kept)
            counts["branched"] += episode is not None and len(episode.trace.leaves()) > 1
    return {**counts, "beyond_engine_ms": spread_ms(beyond_engine)}


def _turns_of(trace: Trace) -> list[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """The prompt and the sampled tokens of every turn, and how long the engine took for it."""
    found = []
    for index, node in enumerate(trace.nodes):
        if node.sampled is not None:
            path = tuple(trace.token_ids(index))
            prompt = path[: -len(node.token_ids)]
            found.append((prompt, tuple(node.token_ids), node.duration_s))
    return found


def problems_of(found: dict[str, Any], grow_mb: float, bar_ms: float) -> list[str]:
    """What falls short, each in a few words."""
    load, problems = found["load"], []
    for name in ("lost", "mixed", "branched", "retokenised", "still_held", "rows_left"):
        if load[name]:
            problems.append(f"{name.replace('_', ' ')}: {load[name]}")
    problems += load["errors"]
    grown = load["memory"]["grown_mb"]
    if grown > grow_mb:
        problems.append(f"memory grew by {grown:.1f} MB after the first quarter")
    beyond = load["beyond_engine_ms"].get("p50", 0.0)
    if beyond > bar_ms:
        problems.append(f"half of the requests took {beyond:.1f} ms and more beyond the engine")
    for row in found["overhead"]:
        if row["at_once"] == 1 and row["overhead_ms"] > bar_ms:
            problems.append(f"overhead of one request is {row['overhead_ms']:.1f} ms")
    return problems + _trouble_problems(load["trouble"])


def _trouble_problems(trouble: dict[str, Any]) -> list[str]:
    problems = [
        f"{one['name']} at {one['path']}: {one['status']} {one['sentence']}"
        for one in trouble["refused"]
        if not one["shaped"] or one["status"] != STATUS[one["name"]]
    ]
    problems += [
        f"a killed client at {one['path']} left something"
        for one in trouble["killed"]
        if one["under_way"] or one["turns"] or not one["heard"]
    ]
    if trouble["killed_rows_left"]:
        problems.append("the engine still samples for a killed client")
    if trouble["refused_turns"]:
        problems.append("a request that was refused left a turn")
    problems += [
        f"a slow reader at {one['path']} kept its request from ending"
        for one in trouble["slow"]
        if one["under_way"] or not one["tokens"]
    ]
    names = trouble["other_names"]
    if any(one["status"] != 200 for one in names["answers"]) or names["looked_up"] != 404:
        problems.append(f"another model's name: {names}")
    return problems


def show(found: dict[str, Any]) -> None:
    """Tables."""
    load = found["load"]
    rows = [
        ("agents at once, seconds", f"{found['at_once']}, {found['seconds']:g}"),
        ("rollouts, requests, tokens", "{rollouts}, {requests}, {tokens}".format(**load)),
        ("requests/s, tokens/s", "{requests_per_s:.0f}, {tokens_per_s:.0f}".format(**load)),
        ("first event, ms", _spread_text(load["first_token_ms"])),
        ("whole request, ms", _spread_text(load["request_ms"])),
        ("of it beyond the engine, ms", _spread_text(load["beyond_engine_ms"])),
        ("tokens compared with the store", str(load["compared_tokens"])),
        ("lost, mixed, retokenised", "{lost}, {mixed}, {retokenised}".format(**load)),
        ("closed rollouts still held", str(load["still_held"])),
        ("memory, MB", _memory_text(load["memory"])),
        ("grown after the first quarter", _growth_text(load["memory"])),
    ]
    for name, value in rows:
        print(f"{name:32}  {value}")
    print("\nat once  streamed  requests  engine ms  gateway ms  overhead ms  added to a round")
    for row in found["overhead"]:
        print(
            f"{row['at_once']:7}  {'yes' if row['stream'] else 'no':>8}  {row['requests']:8}  "
            f"{row['engine_ms']:9.2f}  {row['gateway_ms']:10.2f}  {row['overhead_ms']:11.2f}  "
            f"{row['wall_ms']:16.2f}"
        )
    print("\nmisbehaving clients")
    for name, status in STATUS.items():
        seen = [one for one in load["trouble"]["refused"] if one["name"] == name]
        good = sum(one["shaped"] and one["status"] == status for one in seen)
        print(f"{name:32}  {status}, in the dialect's shape {good} of {len(seen)}")
    killed, slow = load["trouble"]["killed"], load["trouble"]["slow"]
    print(
        f"{'killed in mid-stream':32}  {sum(not one['under_way'] for one in killed)} of "
        f"{len(killed)} freed"
    )
    print(
        f"{'one byte a second':32}  {sum(not one['under_way'] for one in slow)} of {len(slow)} "
        "held nothing up"
    )
    print()
    print("\n".join(found["problems"]) or "nothing falls short")


def _spread_text(spread: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f}" for name, value in spread.items())


def _memory_text(memory: dict[str, Any]) -> str:
    return ", ".join(f"{100 * mark['part']:.0f} %: {mark['mb']:.0f}" for mark in memory["marks"])


def _growth_text(memory: dict[str, Any]) -> str:
    each = memory["grown_kb_per_rollout"]
    return f"{memory['grown_mb']:.1f} MB" + ("" if each is None else f", {each:.1f} KB a rollout")
