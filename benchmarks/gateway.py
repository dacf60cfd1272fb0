"""The gateway under load: what it loses, what it holds, and what it costs over the engine.

    python benchmarks/gateway.py --rollouts 64 --seconds 60
    python benchmarks/gateway.py --rollouts 8 --seconds 5 --rounds 2 --json

The model and its gateway are in this process, the clients in others. So many agents at once open
rollouts, take several streamed turns with their whole conversation each time, and close them; then
every token that a client was sent is compared with the stored trace of its rollout. Meanwhile other
clients misbehave: they are killed in mid-stream, read a byte a second, send ten megabytes, a wrong
key, a prompt that does not fit, half a body.

How much longer a request takes its client than it takes the engine is measured twice. Under the
load, for every request: the client's time for it, less the engine's own time for that very request,
which its trace tells. And without it: the difference of the medians of the same requests, with the
same seeds, asked over HTTP and straight of the engine in this process; the two take turns, from an
empty cache each time. Beside that is the time that a request adds to a round of them: of many that
begin at the same moment each waits for the others' work too. Memory is this process's.

Exit status 1 where anything was lost or mixed up, a refusal was not answered as it should be, a
closed rollout is still held, memory grew by more than `--grow` MB after the first quarter, or the
median of what is beyond the engine, under load or of one request at a time, is above `--bar` ms.
"""

import argparse
import asyncio
import gc
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any
from weakref import WeakSet

import torch
from gateway_checks import compare_with_store, problems_of, show
from gateway_trouble import MARK

from practicum.assemble.build_gateway import load_served
from practicum.assemble.policies import PolicyHandle, SampledModel, json_grammars
from practicum.core.config.config_sections import ModelConfig, RolloutConfig
from practicum.core.conversation import RolloutLimits
from practicum.core.sample import Episode
from practicum.core.sampling import SamplingRequest
from practicum.core.trace import Message
from practicum.engine.compute_thread import pin_threads, run_attended
from practicum.engine.planning.machine import give_back_heap
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.requests import ChatRequest
from practicum.gateway.rollouts import OpenRollouts, Rollout, RolloutController
from practicum.gateway.server.gateway_settings import ControlKey
from practicum.gateway.standalone import GatewayPlan, build_gateway
from practicum.store.closed_rollouts import EpisodeKeeper
from practicum.store.trace_store import SqliteTraceStore

CLIENTS = str(Path(__file__).with_name("gateway_clients.py"))
LONGEST_LINE = 1 << 28

LIMITS = RolloutLimits()


def conversations(served: PolicyHandle) -> Callable[[int], CapturedConversation]:
    """Opens conversations with a model, from seeds."""
    model = served.model
    assert model is not None
    return lambda seed: CapturedConversation(model.sampler, model.codec, model.params, seed)


class WatchedController(RolloutController):
    """A controller that counts what is closed, and knows what is still held of it."""

    def __init__(self, rollouts: OpenRollouts, served: PolicyHandle, keeper: EpisodeKeeper) -> None:
        super().__init__(rollouts, conversations(served), keeper.add, model=served.name)
        self.held: WeakSet[CapturedConversation] = WeakSet()
        self.closed = 0
        self.retokenised = 0

    def open(self, limits: RolloutLimits, task_id: str = "") -> Rollout:
        """Note the conversation, without holding it."""
        rollout = super().open(limits, task_id)
        self.held.add(rollout.conversation)
        return rollout

    def close(self, rollout_id: str) -> Episode:
        """Count what was not recognised by its tokens."""
        rollout = self._rollouts.get(rollout_id)
        if rollout is not None:
            self.closed += 1
            self.retokenised += rollout.conversation.graph.retokenised
        return super().close(rollout_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A gateway that serves."""

    served: SampledModel
    gateway: Any
    controller: WatchedController
    address: str
    store: Path
    way: dict[str, str]
    """How clients reach it: the address, the control socket and its key."""


@asynccontextmanager
async def serving(model: str) -> AsyncIterator[Site]:
    """The model behind its gateway, as `practicum gateway` serves it."""
    served = load_served(ModelConfig(name=model, device="cpu"), None, RolloutConfig())
    with tempfile.TemporaryDirectory(prefix="practicum-") as name:
        folder, store = Path(name), Path(name) / "traces.sqlite"
        plan = GatewayPlan(port=0, control_key=ControlKey(secrets.token_hex(32)))
        with SqliteTraceStore(store) as traces:
            rollouts = OpenRollouts()
            controller = WatchedController(rollouts, served, EpisodeKeeper(traces, give_back_heap))
            assert served.model is not None
            grammars = json_grammars(served.model.tokenizer)
            gateway = build_gateway(
                served.name, grammars and grammars(), plan, rollouts, controller, folder
            )
            async with gateway.serving() as address:
                control = str(gateway.settings.control_socket)
                way = {
                    "address": address,
                    "control": control,
                    "control_key": plan.control_key.value,
                }
                yield Site(
                    served=served.model,
                    gateway=gateway,
                    controller=controller,
                    address=address,
                    store=store,
                    way=way,
                )


class Clients:
    """A process of clients that does one job after another."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, what: str, **job: Any) -> dict[str, Any]:
        """Send a job and wait for what came of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **job}).encode() + b"\n")
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the clients' process ended while it did {what!r}")
        return dict(json.loads(line))


@asynccontextmanager
async def clients() -> AsyncIterator[Clients]:
    """A new process of clients."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, CLIENTS, stdin=pipe, stdout=pipe, limit=LONGEST_LINE
    )
    try:
        yield Clients(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def resident_mb() -> float:
    """What this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(slots=True)
class Memory:
    """What the process held at parts of the time, and how many rollouts were closed by then."""

    controller: WatchedController
    seconds: float
    marks: list[dict[str, float]] = field(default_factory=list)

    async def watch(self) -> None:
        """Look at a quarter, at half and at the end."""
        began = time.monotonic()
        for part in (0.0, 0.25, 0.5, 0.75, 1.0):
            await asyncio.sleep(max(0.0, began + part * self.seconds - time.monotonic()))
            self.marks.append({"part": part, "mb": resident_mb(), "closed": self.controller.closed})

    def summary(self) -> dict[str, Any]:
        """And how much was added after the first quarter."""
        first, last = self.marks[1], self.marks[-1]
        grown, closed = last["mb"] - first["mb"], last["closed"] - first["closed"]
        per_rollout = 1024 * grown / closed if closed else None
        return {"marks": self.marks, "grown_mb": grown, "grown_kb_per_rollout": per_rollout}


async def under_load(site: Site, args: argparse.Namespace) -> dict[str, Any]:
    """Agents and troublemakers at the same time; then what was stored is compared."""
    records = site.store.with_name("records.jsonl")
    memory = Memory(site.controller, args.seconds)
    async with clients() as agents, clients() as others, clients() as slow_ones:
        job = {"rollouts": args.rollouts, "turns": args.turns, "max_tokens": args.max_tokens}
        loading = agents.do("load", **site.way, **job, seconds=args.seconds, records=str(records))
        reading = slow_ones.do("slow", **site.way, seconds=0.8 * args.seconds, patience_s=60)
        found, trouble, slow, _ = await asyncio.gather(
            loading, misbehaving(site, others), reading, memory.watch()
        )
    await _let_go(site)
    return {
        **found,
        "rollouts": site.controller.closed,
        "retokenised": site.controller.retokenised,
        "still_held": len(site.controller.held),
        "rows_left": len(rows_of(site.served.sampler)),
        **compare_with_store(records, site.store),
        "memory": memory.summary(),
        "trouble": {**trouble, "slow": slow["clients"]},
    }


async def _let_go(site: Site) -> None:
    """Wait until nothing of closed rollouts is held, within limits: connections have to end.

    The engine keeps its last step's rows until the next one, so it is given one.
    """
    params = replace(site.served.params, max_tokens=2)
    for _ in range(100):
        await site.served.sampler.sample(SamplingRequest(prompt_ids=(1, 2), params=params))
        gc.collect()
        if not site.controller.held:
            return
        await asyncio.sleep(0.1)


async def misbehaving(site: Site, others: Clients) -> dict[str, Any]:
    """Clients that do what they should not, one after another."""
    killed = await others.do("killed", **site.way)
    left = await rows_of_killed(site.served.sampler)
    refused = await others.do("refused", **site.way)
    return {
        "killed": killed["clients"],
        "killed_rows_left": left,
        "refused": refused["answers"],
        "refused_turns": refused["turns"],
        "other_names": await others.do("other_names", **site.way),
    }


async def rows_of_killed(engine: Any, patience_s: float = 10.0) -> int:
    """Rows of killed clients that are left; the step that is being computed may still hold some."""
    until = time.monotonic() + patience_s
    while True:
        left = sum(MARK.encode() in bytes_of(row.tokens) for row in rows_of(engine))
        if not left or time.monotonic() > until:
            return left
        await asyncio.sleep(0.05)


def rows_of(engine: Any) -> list[Any]:
    """Completions that the engine has under way or waiting."""
    return [*engine._active, *engine._waiting, *engine._arrived]


def bytes_of(tokens: list[int]) -> bytes:
    """The tiny model's tokens are bytes, but for the special ones."""
    return bytes(token for token in tokens if token < 256)


async def overhead(site: Site, at_once: int, stream: bool, args: argparse.Namespace) -> Any:
    """The same requests over HTTP and straight to the engine, which take turns."""
    scripts = [await script(site, number, stream, args) for number in range(at_once)]
    took: tuple[list[float], list[float]] = ([], [])
    walls = [0.0, 0.0]
    async with clients() as asking:
        for number in range(args.rounds + 1):
            sides = [_engine_side(site, scripts, stream), _http_side(site, scripts, asking)]
            for at in (0, 1) if number % 2 else (1, 0):
                site.served.sampler.forget()
                began = time.perf_counter()
                found = await sides[at]
                if number:  # the first round is to warm up
                    took[at].extend(found)
                    walls[at] += time.perf_counter() - began
    engine, http = median(took[0]), median(took[1])
    return {
        "at_once": at_once,
        "stream": stream,
        "requests": len(took[1]),
        "engine_ms": 1000 * engine,
        "gateway_ms": 1000 * http,
        "overhead_ms": 1000 * (http - engine),
        "wall_ms": 1000 * (walls[1] - walls[0]) / len(took[1]),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scripted:
    """One request of a conversation, for both sides."""

    body: dict[str, Any]
    engine: SamplingRequest
    tokens: int


async def script(site: Site, number: int, stream: bool, args: argparse.Namespace) -> list[Scripted]:
    """A conversation as it goes with given seeds."""
    model = site.served
    conversation = CapturedConversation(model.sampler, model.codec, model.params, number)
    params = replace(site.served.params, max_tokens=args.max_tokens)
    said = [Message(role="user", content=f"conversation {number}: {'say something. ' * 8}")]
    found = []
    for turn in range(args.turns):
        seed = 1000 * number + turn
        asked = ChatRequest(messages=tuple(said), params=params, seed=seed)
        answer = await conversation.respond(asked)
        body = {
            "model": "any",
            "messages": [{"role": m.role, "content": m.content} for m in said],
            "max_tokens": args.max_tokens,
            "seed": seed,
            "stream": stream,
            "return_token_ids": stream,
        }
        request = SamplingRequest(prompt_ids=answer.prompt_ids, params=replace(params, seed=seed))
        tokens = len(answer.completion.token_ids)
        found.append(Scripted(body=body, engine=request, tokens=tokens))
        said += [answer.message, Message(role="user", content="Go on.")]
    return found


async def _engine_side(site: Site, scripts: list[list[Scripted]], stream: bool) -> list[float]:
    heard: list[tuple[int, ...]] = []

    async def converse(requests: list[Scripted]) -> list[float]:
        took = []
        for scripted in requests:
            began = time.perf_counter()
            request = scripted.engine
            if stream:
                request = replace(request, on_tokens=heard.append)
            completion = await site.served.sampler.sample(request)
            took.append(time.perf_counter() - began)
            assert len(completion.token_ids) == scripted.tokens, "not the same work"
        return took

    return [took for times in await asyncio.gather(*map(converse, scripts)) for took in times]


async def _http_side(site: Site, scripts: list[list[Scripted]], asking: Clients) -> list[float]:
    opened = [site.controller.open(LIMITS) for _ in scripts]
    endpoints = [site.gateway.endpoint(rollout) for rollout in opened]
    found = await asking.do(
        "replay",
        address=site.address,
        places=[{"url": endpoint.url, "key": endpoint.key} for endpoint in endpoints],
        conversations=[[one.body for one in requests] for requests in scripts],
    )
    for rollout in opened:
        site.controller.close(rollout.id)
    for requests, times in zip(scripts, found["requests"], strict=True):
        for scripted, (_, tokens) in zip(requests, times, strict=True):
            assert tokens == scripted.tokens, "not the same work"
    return [took for times in found["requests"] for took, _ in times]


async def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Load, then overhead."""
    async with serving(args.model) as site:
        found: dict[str, Any] = {"at_once": args.rollouts, "seconds": args.seconds}
        found["load"] = await under_load(site, args)
        found["overhead"] = [
            await overhead(site, at_once, stream, args)
            for at_once in args.at_once
            for stream in (False, True)
        ]
    return {**found, "threads": torch.get_num_threads(), "processors": os.cpu_count()}


def arguments() -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="tiny", help="tiny is the one that is looked into")
    parser.add_argument("--rollouts", type=int, default=64, help="agents at once")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--turns", type=int, default=4, help="of a rollout, on average")
    parser.add_argument("--max-tokens", type=int, default=24, help="of a turn, on average")
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, 16], help="for the overhead")
    parser.add_argument("--rounds", type=int, default=20, help="for the overhead")
    parser.add_argument("--bar", type=float, default=5.0, help="overhead in ms")
    parser.add_argument("--grow", type=float, default=16.0, help="MB after the first quarter")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    """1 where something falls short."""
    args = arguments()
    pin_threads(args.threads)
    found = run_attended(measure(args))
    found["problems"] = problems_of(found, args.grow, args.bar)
    if args.json:
        print(json.dumps(found))
    else:
        show(found)
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
