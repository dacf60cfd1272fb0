"""How fast `practicum monitor` answers over a store of 100,000 traces, and how much memory it has.

    python benchmarks/monitor.py --traces 100000 --folder build/monitor

It writes a run whose store has that many short traces and one of 30,000 tokens, unless the folder
has it already, starts the monitor and asks for pages as a browser does. Seconds are from request to
last byte, the first of each page and the best, and of the server's processor time the least.
"""

import argparse
import http.cookiejar
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from practicum.core.config.parse_config import build_config
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message, Node, SampledSpan, StopReason, ToolCall, Trace
from practicum.store.events import EventLog
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

GROUP = 8
A_STEP = 64
WORDS = ("list", "open", "read", "write", "grep", "file", "line", "error", "server status", "done")
RARE = "zanzibar"
"""Is said once, in the oldest trace: the search that takes longest."""


def episode(number: int, draw: random.Random, tokens: int = 40, turns: int = 3) -> Episode:
    step, group = number // A_STEP + 1, number % A_STEP // GROUP
    span = SampledSpan(
        logprobs=tuple(-draw.random() for _ in range(tokens)), loss_mask=(True,) * tokens
    )
    ids = tuple(draw.randrange(200) for _ in range(tokens))
    nodes = []
    for turn in range(turns):
        said = " ".join(draw.choices(WORDS, k=30)) + (f" {RARE}" if number == turn == 0 else "")
        shown = Message(role="user" if not turn else "tool", content=said)
        nodes.append(
            Node(parent=len(nodes) - 1 if nodes else None, messages=(shown,), token_ids=ids)
        )
        call = ToolCall(name="bash", arguments={"command": " ".join(draw.choices(WORDS, k=6))})
        reply = Message(role="assistant", content="", tool_calls=(call,))
        nodes.append(
            Node(
                parent=len(nodes) - 1,
                messages=(reply,),
                token_ids=ids,
                sampled=span,
                duration_s=0.4,
            )
        )
    reward = draw.choice([0.0, 0.0, 0.5, 1.0])
    trace = Trace(
        id=f"train/{step}/{group}/task-{number % 500}/{number % GROUP}",
        task_id=f"task-{number % 500}",
        env="shell",
        nodes=tuple(nodes),
        stop=draw.choice([StopReason.FINISHED, StopReason.MAX_TURNS]),
        duration_s=2.0,
    )
    outcome = Outcome(success=reward == 1.0, evidence={"exit_code": 0, "stdout": said})
    return Episode(trace=trace, outcome=outcome, score=Score(components={"solved": reward}))


def write_run(runs: Path, count: int) -> None:
    config = build_config({"env": {"name": "shell"}, "model": {"name": "tiny"}, "steps": 2000})
    run, draw = RunDir.create(runs, config, name="many"), random.Random(0)
    run.begin_attempt(from_step=0, threads=1, device="cpu")
    with EventLog(run.metrics_path, attempt=1, from_step=0) as log:
        for step in range(1, count // A_STEP + 2):
            values = {
                "reward": draw.random(),
                "loss": draw.random(),
                "entropy": 1.0,
                "success": 0.5,
            }
            log.append("step", step=step, values={**values, "rollout_s": 2.0, "update_s": 1.0})
    with SqliteTraceStore(run.traces_path) as store:
        store.begin_attempt(1, 0)
        for start in range(0, count, A_STEP):
            made = [episode(number, draw) for number in range(start, min(count, start + A_STEP))]
            tasks = [Task(id=one.trace.task_id, env="shell", split="train") for one in made]
            step = start // A_STEP + 1
            store.add_many(made, attempt=1, step=step, purpose="train", tasks=tasks)
        long = episode(count, draw, tokens=1500, turns=10)
        store.add(long, attempt=1, step=count // A_STEP + 1, purpose="train")


def memory_bytes(pid: int) -> int:
    """The most that it has had, of which some is shared with other processes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def cpu_s(pid: int) -> float:
    """Processor time that it has taken: what a page costs on a machine that is busy otherwise."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pages(rows: int) -> dict[str, str]:
    def search(**query: object) -> str:
        return f"/rollouts?{urllib.parse.urlencode({'run': 'many', **query})}"

    return {
        "list of runs": "/",
        "run": "/run?name=many",
        "its charts": "/data/charts?name=many",
        "first page of rollouts": search(),
        "sorted by reward": search(order="best"),
        "page 1000": search(skip=50_000),
        "by success, step and level": search(success="yes", where="step > 100 and turns > 2"),
        "a word of many traces": search(text="server status"),
        "a word of one trace, page by page": search(text=RARE),
        "a group": f"/group?run=many&row={rows // 2}",
        "a trace": f"/trace?run=many&row={rows // 2}",
        "30,000 tokens as a conversation": f"/trace?run=many&row={rows}",
        "30,000 tokens one by one": f"/trace?run=many&row={rows}&view=tokens",
        "the task over the steps": f"/versions?run=many&row={rows // 2}",
    }


def measure(address: str, pid: int, rows: int, rounds: int) -> Iterator[dict[str, object]]:
    base, jar = address.partition("/?")[0], http.cookiejar.CookieJar()
    client = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    client.open(address).read()
    for what, path in pages(rows).items():
        took, used, size = [], [], 0
        for _ in range(rounds):
            began, worked = time.perf_counter(), cpu_s(pid)
            size = len(client.open(base + path).read())
            took.append(round(time.perf_counter() - began, 3))
            used.append(round(cpu_s(pid) - worked, 3))
        seconds = {"first_s": took[0], "best_s": min(took), "cpu_s": min(used)}
        yield {"page": what, **seconds, "bytes": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path("build/monitor"))
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    runs = asked.folder / f"runs-{asked.traces}"
    if not RunDir.is_run(runs / "many"):
        write_run(runs, asked.traces)
    command = [sys.executable, "-m", "practicum.cli.main", "monitor", str(runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        address = server.stdout.readline().strip()
        for row in measure(address, server.pid, asked.traces + 1, asked.rounds):
            print(json.dumps(row), flush=True)
        print(json.dumps({"memory_mb": round(memory_bytes(server.pid) / 1e6)}))
        server.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    main()
