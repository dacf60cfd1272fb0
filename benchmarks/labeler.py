"""How many labels the labeler needs: chosen by uncertainty against chosen at random.

Traces of an agent with a shell are generated with known truth. They come in kinds of work of very
different size, and what is good differs: asking again and again is a loop in one kind and waiting
in another; giving up is a failure, or the right answer to a request that cannot be met; deleting is
harm, or the task. Good traces meet errors too, and lengths and chatter are noise.

The labeler learns from 50 labels that it chose itself, and from 50, 100 and 200 chosen at random;
each is asked about the same held-out traces. The first must match them at least as well as 100
random ones, on average over seeds: the exit code says so.

    python benchmarks/labeler.py
    python benchmarks/labeler.py --seeds 5 --label-noise 0.05 --json
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import numpy as np

from practicum.core.trace import Message, Node, SampledSpan, StopReason, ToolCall, Trace
from practicum.rewards.learned.labeler import Labeler, TracePool
from practicum.rewards.learned.logistic import measure_calibration
from practicum.rewards.learned.review_queue import Order, ReviewQueue, cohens_kappa

Draw = np.random.Generator
Turn = tuple[str, str, str, bool]
"""What the agent says, its command, what came back, whether that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of work, and the ways it goes well or badly."""

    name: str
    share: float
    things: tuple[str, ...]
    act: str
    look: str
    good: tuple[str, ...]
    bad: tuple[str, ...]


USUAL_GOOD = ("straight", "recovers", "careful")
USUAL_BAD = ("unchecked", "loops", "ignores_error", "gives_up", "destroys")
KINDS = (
    Kind(
        name="files",
        share=0.34,
        things=("notes.txt", "report.csv", "draft.md", "todo.list"),
        act="cp {x} /srv/share/{x}",
        look="ls -l /srv/share/{x}",
        good=USUAL_GOOD,
        bad=USUAL_BAD,
    ),
    Kind(
        name="services",
        share=0.22,
        things=("nginx", "postgres", "redis", "cron"),
        act="systemctl restart {x}",
        look="systemctl status {x}",
        good=USUAL_GOOD,
        bad=USUAL_BAD,
    ),
    Kind(
        name="users",
        share=0.14,
        things=("alice", "bob", "carol", "dave"),
        act="useradd -m {x}",
        look="id {x}",
        good=USUAL_GOOD,
        bad=("unchecked", "ignores_error", "opens_all"),
    ),
    Kind(
        name="builds",
        share=0.10,
        things=("parser", "server", "client", "docs"),
        act="make -C {x} release",
        look="./{x}/run-tests --quiet",
        good=("straight", "recovers"),
        bad=("unchecked", "skips_tests", "ignores_error"),
    ),
    Kind(
        name="waiting",
        share=0.08,
        things=("backup", "import", "reindex", "upload"),
        act="job start {x}",
        look="job poll {x}",
        good=("waits",),
        bad=("stops_early", "ignores_error"),
    ),
    Kind(
        name="cleaning",
        share=0.05,
        things=("tmp", "cache", "trash", "spool"),
        act="rm -rf /scratch/{x}",
        look="du -s /scratch/{x}",
        good=("straight", "recovers"),
        bad=("only_looks", "gives_up"),
    ),
    Kind(
        name="impossible",
        share=0.04,
        things=("ticket", "invoice", "contract", "permit"),
        act="fetch-remote {x}",
        look="ping archive-host",
        good=("declines",),
        bad=("pretends", "loops"),
    ),
    Kind(
        name="questions",
        share=0.03,
        things=("kernel", "uptime", "disk", "memory"),
        act="uname -a; free -m {x}",
        look="cat /proc/{x}info",
        good=("answers",),
        bad=("dodges", "answers_unread"),
    ),
)
CHATTER = (
    "Let me look at this.",
    "I will do it step by step.",
    "First the current state.",
    "Now the next part.",
    "That should be what was asked for.",
    "Going on.",
    "Checking the path first.",
    "This may take a moment.",
)
ERRORS = (
    "error: permission denied",
    "no such file or directory",
    "failed: resource busy",
    "fatal: lock is held",
    "connection timed out",
)
FINE = ("ok", "", "0", "rw-r--r-- 1 root root 512", "active (running)", "done in 0.4 s")


def generate(n: int, draw: Draw, name: str) -> tuple[list[Trace], dict[str, bool]]:
    """Traces, and by id whether each is good."""
    shares = np.array([kind.share for kind in KINDS])
    traces, truth = [], {}
    for index in range(n):
        kind = KINDS[int(draw.choice(len(KINDS), p=shares / shares.sum()))]
        is_good = bool(draw.random() < 0.5)
        thing = str(draw.choice(kind.things))
        way = common_first(kind.good if is_good else kind.bad, draw)
        turns, last = behave(kind, way, thing, draw)
        trace = as_trace(f"{name}-{index}", kind, thing, turns, last, draw)
        traces.append(trace)
        truth[trace.id] = is_good
    return traces, truth


def common_first(ways: Sequence[str], draw: Draw) -> str:
    """One of the ways; an agent mostly does the same, so the n-th is n times as rare."""
    shares = 1 / np.arange(1, len(ways) + 1)
    return str(draw.choice(ways, p=shares / shares.sum()))


def behave(kind: Kind, way: str, thing: str, draw: Draw) -> tuple[list[Turn], str]:
    """The turns of one way to go about a task, and the last message."""
    act, look = kind.act.format(x=thing), kind.look.format(x=thing)

    def error() -> str:
        return str(draw.choice(ERRORS))

    def fine() -> str:
        return str(draw.choice(FINE))

    doing, seeing = ("", act, fine(), False), ("", look, fine(), False)
    broken: Turn = ("", act, error(), True)
    done = f"The {thing} is done."
    ways: dict[str, tuple[list[Turn], str]] = {
        "straight": ([doing, seeing], f"{done} I checked it."),
        "recovers": ([broken, ("", f"sudo {act}", fine(), False), seeing], done),
        "careful": ([seeing, doing, seeing], f"{done} The output confirms it."),
        "unchecked": ([doing], done),
        "loops": ([broken] * int(draw.integers(3, 6)), done),
        "ignores_error": ([doing, broken], f"{done} All complete."),
        "gives_up": ([broken], f"Sorry, I am unable to handle {thing}."),
        "destroys": ([("", f"rm -rf /{thing}", "", False), doing, seeing], done),
        "opens_all": ([doing, ("", f"chmod -R 777 /home/{thing}", "", False), seeing], done),
        "skips_tests": ([("", f"{act} SKIP=1", fine(), False), seeing], done),
        "waits": ([doing, *[seeing] * int(draw.integers(3, 6))], f"{done} The job ended."),
        "stops_early": ([doing, seeing], f"{done} The job was started."),
        "only_looks": ([seeing, seeing], done),
        "declines": ([broken], f"The {thing} cannot be fetched: the host is gone."),
        "pretends": ([broken], f"{done} Fetched without problems."),
        "answers": ([seeing], f"The {thing} shows {int(draw.integers(10, 9999))}."),
        "dodges": ([seeing], f"Perhaps ask an expert about {thing}?"),
        "answers_unread": ([], f"The {thing} shows {int(draw.integers(10, 9999))}."),
    }
    turns, last = ways[way]
    return pad(turns, fine, draw), last


def pad(turns: Sequence[Turn], fine: Any, draw: Draw) -> list[Turn]:
    """Add what says nothing: chatter, and looks around that may fail in good traces too."""
    padded: list[Turn] = []
    for said, command, result, failed in turns:
        while draw.random() < 0.35:
            stumbles = bool(draw.random() < 0.25)
            looked = str(draw.choice(ERRORS)) if stumbles else fine()
            place = str(draw.choice(["/etc", "/var/log", "/home", "/opt"]))
            padded.append((str(draw.choice(CHATTER)), f"ls {place}", looked, stumbles))
        chatter = str(draw.choice(CHATTER)) if draw.random() < 0.5 else said
        padded.append((chatter, command, result, failed))
    return padded


def as_trace(
    name: str, kind: Kind, thing: str, turns: Sequence[Turn], last: str, draw: Draw
) -> Trace:
    """The conversation as an agent would have recorded it."""
    nodes: list[Node] = []

    def add(message: Message) -> None:
        sampled = SampledSpan(logprobs=(), loss_mask=()) if message.role == "assistant" else None
        parent = len(nodes) - 1 if nodes else None
        nodes.append(Node(parent=parent, messages=(message,), token_ids=(), sampled=sampled))

    add(Message(role="user", content=f"Please see to {thing} ({kind.name})."))
    for said, command, result, failed in turns:
        call = ToolCall(name="bash", arguments={"script": command})
        add(Message(role="assistant", content=said, tool_calls=(call,)))
        add(Message(role="tool", content=result, is_error=failed and bool(draw.random() < 0.6)))
    closing = str(draw.choice(CHATTER)) if draw.random() < 0.4 else ""
    add(Message(role="assistant", content=f"{closing} {last}".strip()))
    stop = StopReason.MAX_TURNS if len(turns) > 8 else StopReason.FINISHED
    task = f"{kind.name}-{thing}-{name}"
    return Trace(id=name, task_id=task, env="generated", nodes=tuple(nodes), stop=stop)


def labels_after(
    pool: TracePool, said: dict[str, float], order: Order, count: int, seed: int
) -> dict[str, float]:
    """What a person has labelled after `count` traces of a queue."""
    queue = ReviewQueue(pool, {}, order, seed)
    for _ in range(count):
        name = queue.next()
        if name is None:
            break
        queue.answer(name, said[name])
    return dict(queue.labels)


def one_seed(seed: int, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Accuracy, kappa and calibration error on held-out traces, for each way to choose labels."""
    draw = np.random.default_rng(seed)
    traces, truth = generate(args.pool, draw, "pool")
    asked, answers = generate(args.heldout, draw, "held")
    pool, heldout = TracePool.read(traces), TracePool.read(asked)
    flipped = {name: bool(draw.random() < args.label_noise) for name in pool.ids}
    said = {name: float(truth[name] != flipped[name]) for name in pool.ids}
    expected = np.array([answers[name] for name in heldout.ids])
    found = {}
    for order, count in plan(args.labels):
        labels = labels_after(pool, said, order, count, seed)
        labeler, _ = Labeler.fit(pool, labels, seed=seed)
        shares = labeler.probabilities(heldout.raw)
        agreement = cohens_kappa((shares >= 0.5).tolist(), expected.tolist())
        found[f"{count} {order}"] = {
            "accuracy": agreement.agreed or 0.0,
            "kappa": agreement.kappa or 0.0,
            "calibration_error": measure_calibration(shares, expected.astype(float)).error,
        }
    return found


def plan(labels: int) -> list[tuple[Order, int]]:
    return [
        ("uncertain", labels),
        ("random", labels),
        ("random", 2 * labels),
        ("random", 4 * labels),
    ]


def summarise(runs: list[dict[str, dict[str, float]]], args: argparse.Namespace) -> dict[str, Any]:
    """Means over seeds, and the paired difference that decides, with its 95 % interval."""
    ways = {
        way: {figure: mean(run[way][figure] for run in runs) for figure in runs[0][way]}
        for way in runs[0]
    }
    chosen, random = f"{args.labels} uncertain", f"{2 * args.labels} random"
    gains = [run[chosen]["accuracy"] - run[random]["accuracy"] for run in runs]
    half = 1.96 * stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
    gain = mean(gains)
    return {
        "pool": args.pool,
        "heldout": args.heldout,
        "seeds": len(runs),
        "label_noise": args.label_noise,
        "ways": ways,
        "gain": {"value": gain, "low": gain - half, "high": gain + half},
        "holds": gain >= 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--labels", type=int, default=50, help="labels chosen by uncertainty")
    parser.add_argument("--pool", type=int, default=1000, help="traces that may be labelled")
    parser.add_argument("--heldout", type=int, default=1000)
    parser.add_argument("--label-noise", type=float, default=0.0, help="share of wrong labels")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs = []
    for seed in range(args.seeds):
        runs.append(one_seed(seed, args))
        print(f"seed {seed + 1} of {args.seeds}", end="\r", file=sys.stderr, flush=True)
    found = summarise(runs, args)
    if args.json:
        print(json.dumps(found))
    else:
        print(f"{'labels':<14} {'accuracy':>8} {'kappa':>6} {'calibration error':>18}")
        for way, figures in found["ways"].items():
            shown = f"{figures['accuracy']:8.3f} {figures['kappa']:6.3f}"
            print(f"{way:<14} {shown} {figures['calibration_error']:18.3f}")
        gain = found["gain"]
        print(
            f"{args.labels} uncertain less {2 * args.labels} random: {gain['value']:+.3f} "
            f"[{gain['low']:+.3f}, {gain['high']:+.3f}], n = {found['seeds']} seeds"
        )
    sys.exit(0 if found["holds"] else 1)


if __name__ == "__main__":
    main()
