"""What `gateway.py` found: clients' tokens against stored traces, what falls short, and a table."""

import json
from pathlib import Path
from typing import Any

from practicum.core.trace import Trace
from practicum.store import SqliteTraceStore

__all__ = ["compare_with_store", "problems_of", "show"]

STATUS = {
    "body of 10 MB": 413,
    "wrong key": 401,
    "no key": 401,
    "prompt too long": 400,
    "invalid JSON": 400,
    "unknown parameter": 400,
}


def compare_with_store(records: Path, store: Path) -> dict[str, int]:
    """Every client's tokens against the trace of its rollout.

    A turn is lost when no sampled node follows the prompt that the client was told with the tokens
    that it was sent; tokens are mixed up when a trace holds sampled ones that its client was not
    sent.
    """
    counts = {"compared_tokens": 0, "lost": 0, "mixed": 0, "branched": 0}
    with SqliteTraceStore(store) as traces, records.open() as lines:
        for line in lines:
            record = json.loads(line)
            episode = traces.get(f"gateway/{record['rollout']}")
            sent = [
                (tuple(turn["prompt"] or ()), tuple(turn["ids"] or ())) for turn in record["turns"]
            ]
            kept = [] if episode is None else _turns_of(episode.trace)
            for turn in sent:
                if turn in kept:
                    kept.remove(turn)
                    counts["compared_tokens"] += len(turn[1])
                else:
                    counts["lost"] += 1
            counts["mixed"] += len(kept)
            counts["branched"] += episode is not None and len(episode.trace.leaves()) > 1
    return counts


def _turns_of(trace: Trace) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The prompt and the sampled tokens of every turn."""
    found = []
    for index, node in enumerate(trace.nodes):
        if node.sampled is not None:
            path = tuple(trace.token_ids(index))
            found.append((path[: -len(node.token_ids)], tuple(node.token_ids)))
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
    for row in found["overhead"]:
        # Of many at once each waits for the others' work too; what counts is what one adds to it.
        took = row["overhead_ms"] if row["at_once"] == 1 else row["wall_ms"]
        if took > bar_ms:
            problems.append(f"overhead with {row['at_once']} at once is {took:.1f} ms")
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
    return ", ".join(f"{name} {value:.0f}" for name, value in spread.items())


def _memory_text(memory: dict[str, Any]) -> str:
    return ", ".join(f"{100 * mark['part']:.0f} %: {mark['mb']:.0f}" for mark in memory["marks"])


def _growth_text(memory: dict[str, Any]) -> str:
    each = memory["grown_kb_per_rollout"]
    return f"{memory['grown_mb']:.1f} MB" + ("" if each is None else f", {each:.1f} KB a rollout")
