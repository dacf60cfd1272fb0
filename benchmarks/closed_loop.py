"""The loop closed over production, from a served model to a better one, and the ways it may not go.

    python benchmarks/closed_loop.py                          the tiny model, 3 seeds, minutes
    python benchmarks/closed_loop.py --model smollm2-135m --level 1 2 --seeds 1
    python benchmarks/closed_loop.py --feedback attacked lies one-by-one

A model that imitation has not finished is published and used on training tasks. People's feedback
is computed from what really came of each task: thumbs up where it was solved, down where it was
not. Then `practicum.learn` goes on from the served adapter, three times for each seed:

    right       the feedback as it is               should be better, and promoted
    wrong       thumbs the wrong way round          should be worse, and not be promoted
    chance      thumbs thrown by a coin             should not be promoted

They come from 20 clients, each with a key of its own. A client that lies has asked
and judged a thousand times (`--lies`), each time the wrong way round:

    attacked    19 clients as it is, and the lies   should be promoted all the same
    lies        the lies alone                      should not be promoted, whatever is measured
    one-by-one  as attacked, each lie under a name of its own: what comes of it where nobody knows
                whose the labels are

and at the end the served model is rolled back to its first version, to the same bytes.
"""

import argparse
import asyncio
import hashlib
import json
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import practicum as pr
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import load_policy, record_episodes
from practicum.core.config.config_sections import ModelConfig
from practicum.core.config.parse_config import build_config
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.evaluation.report import format_interval
from practicum.store.served_versions import ServedVersions
from practicum.store.trace_store import SqliteTraceStore
from practicum.workflows.feedback_loop import Learned

Feedback = Literal["right", "wrong", "chance", "attacked", "lies", "one-by-one"]
FEEDBACK: tuple[Feedback, ...] = ("right", "wrong", "chance")
UNDER_ATTACK: tuple[Feedback, ...] = ("attacked", "lies", "one-by-one")
CLIENTS = 20

IMITATION = ("steps=5", "algorithm.updates=4", "algorithm.lr=2e-3", "data.n=400")
"""A tiny model that is not finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCase:
    """A served model, and how much it is used."""

    model: str = "tiny"
    level: tuple[int, ...] = (1,)
    tasks: int = 200
    answers: int = 4
    """Answers to each task."""
    lies: int = 1000
    """Answers to the client that lies, where there is one."""
    imitation: tuple[str, ...] = IMITATION
    """How the model is made that is served first: not finished."""
    n: int = 200
    """Held-out tasks."""
    options: tuple[str, ...] = ()
    """Config values of learning."""

    @property
    def env(self) -> dict[str, Any]:
        """The environment's config."""
        return {"name": "math", "level": list(self.level)}


def make_served(case: LoopCase, folder: Path, seed: int) -> ServedVersions:
    """A model that imitation has not finished, published."""
    config = build_words(case, folder, seed)
    run = pr.train(
        case.env,
        name="imitation",
        quiet=True,
        **{"model": case.model, "runs_dir": str(folder / "runs"), "seed": seed, **config},
    )
    served = pr.served_model(folder / "served" / "math")
    served.publish(run.path)
    return served


def build_words(case: LoopCase, folder: Path, seed: int) -> dict[str, Any]:
    """The imitation's options as keys and values."""
    values: dict[str, Any] = {"algorithm": "sft", "data": "reference", "eval.n": case.n}
    for word in case.imitation:
        key, _, value = word.partition("=")
        values[key] = json.loads(value)
    return values


def record_traffic(
    case: LoopCase, served: ServedVersions, store: Path, seed: int, *, lies: bool = False
) -> list[Episode]:
    """The served model at work on training tasks, as a server would record it.

    With `lies` for the client that lies: as many answers as it wants, in other episodes.
    """
    version = served.current
    tasks = -(-case.lies // case.answers) if lies else case.tasks
    config = build_config(
        {"env": case.env, "eval": {"n": tasks, "k": case.answers, "seed": seed + 1 + lies}}
    )
    model = ModelConfig(name=version.base)
    handle = load_policy(model, version.path, config.rollouts, temperature=1.0)
    environment = open_environment(config.env)
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made) / "played.sqlite"
        played = asyncio.run(
            record_episodes(handle, environment, config, scratch, lambda episode: None)
        )
        tasks = {}
        with SqliteTraceStore(scratch, read_only=True) as source:
            for episode in played:
                tasks[episode.trace.task_id] = source.task("math", episode.trace.task_id)
    with SqliteTraceStore(store) as kept:
        found = [task for task in tasks.values() if task is not None]
        who = "liar" if lies else "honest"
        named = [replace(e, trace=replace(e.trace, id=f"{who}/{e.trace.id}")) for e in played]
        kept.add_many(named, attempt=1, step=0, purpose="traffic", tasks=found)
    return named


def give_feedback(
    source: Path,
    store: Path,
    episodes: Sequence[Episode],
    kind: Feedback,
    seed: int,
    lied_about: Sequence[Episode] = (),
) -> None:
    """A copy of the traffic with thumbs, by the server's clients in turn."""
    dice = random.Random(seed)
    store.write_bytes(source.read_bytes())
    honest = CLIENTS - 1 if lied_about else CLIENTS
    with SqliteTraceStore(store) as kept:
        for number, episode in enumerate(() if kind == "lies" else episodes):
            thumb = _thumb(episode, kind, dice)
            kept.add_label(_label(episode, f"client-{number % honest}", thumb))
        for number, episode in enumerate(lied_about):
            liar = f"liar-{number}" if kind == "one-by-one" else "liar"
            kept.add_label(_label(episode, liar, _thumb(episode, "wrong", dice)))


def _label(episode: Episode, client: str, thumb: bool) -> Label:
    return Label(
        episode_id=episode.trace.id,
        value=float(thumb),
        author=f"feedback/{client}",
        created_at=time.time(),
    )


def _thumb(episode: Episode, kind: Feedback, dice: random.Random) -> bool:
    solved = bool(episode.outcome and episode.outcome.success)
    if kind == "chance":
        return dice.random() < 0.5
    return solved if kind != "wrong" else not solved


def close_the_loop(
    case: LoopCase, folder: Path, seed: int, kinds: Sequence[Feedback] = FEEDBACK
) -> dict[Feedback, Learned]:
    """Serve, use, learn from each kind of feedback, and roll back."""
    served = make_served(case, folder, seed)
    first = weights_sha256(served)
    traffic = folder / "traffic.sqlite"
    episodes = record_traffic(case, served, traffic, seed)
    lied_about: list[Episode] = []
    if set(kinds) & set(UNDER_ATTACK):
        lied_about = record_traffic(case, served, traffic, seed, lies=True)[: case.lies]
    found: dict[Feedback, Learned] = {}
    for kind in kinds:
        lies = lied_about if kind in UNDER_ATTACK else []
        store = folder / f"{kind}.sqlite"
        give_feedback(traffic, store, episodes, kind, seed, lies)
        found[kind] = pr.learn(
            store,
            served.path,
            n=case.n,
            name=kind,
            words=[f"runs_dir={folder / 'runs'}", f"seed={seed}", *case.options],
        )
        if found[kind].promoted is not None:  # each is compared with what was served first
            assert weights_sha256(served) != first
            served.rollback("the next kind of feedback")
        assert weights_sha256(served) == first
    return found


def weights_sha256(served: ServedVersions) -> str:
    """Of the bytes that a server would read now."""
    weights = (served.path / "current" / "adapter_model.safetensors").read_bytes()
    return hashlib.sha256(weights).hexdigest()


def print_rows(seed: int, found: dict[Feedback, Learned]) -> None:
    """A row of the table for each kind of feedback."""
    for kind, learned in found.items():
        measured = learned.measured
        assert measured.before is not None
        assert measured.after is not None
        version = learned.promoted.version if learned.promoted else "no"
        print(
            f"| {seed} | {kind} | {learned.traffic.good} / {learned.traffic.bad} | "
            f"{learned.traffic.keys} | "
            f"{format_interval(measured.before.success, digits=2)} | "
            f"{format_interval(measured.after.success, digits=2)} | "
            f"{format_interval(measured.difference, signed=True, digits=2)} | {version} |",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--model", default="tiny")
    asked.add_argument("--level", type=int, nargs="+", default=[1])
    asked.add_argument("--seeds", type=int, default=3)
    asked.add_argument("--first-seed", type=int, default=0)
    asked.add_argument("--tasks", type=int, default=200)
    asked.add_argument("--answers", type=int, default=4)
    asked.add_argument("--n", type=int, default=200)
    asked.add_argument("--imitation", nargs="+", default=list(IMITATION))
    asked.add_argument("--lies", type=int, default=1000)
    asked.add_argument(
        "--feedback", nargs="+", default=list(FEEDBACK), choices=[*FEEDBACK, *UNDER_ATTACK]
    )
    asked.add_argument("options", nargs="*", help="config values of learning, key=value")
    given = asked.parse_args()
    case = LoopCase(
        model=given.model,
        level=tuple(given.level),
        tasks=given.tasks,
        answers=given.answers,
        lies=given.lies,
        imitation=tuple(given.imitation),
        n=given.n,
        options=tuple(given.options),
    )
    print("| seed | feedback | good / bad | keys | served | learned | difference | promoted |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            print_rows(seed, close_the_loop(case, Path(folder), seed, given.feedback))


if __name__ == "__main__":
    main()
