"""A curriculum where four fifths of the tasks teach nothing: flat groups, and what is learned.

    python benchmarks/curriculum_mix.py --seeds 5

Ten levels of one-turn tasks: name the colour that was asked for. On four levels every answer
counts, on four none does, on two only the right one. The tiny model learns them with and without
`curriculum: adaptive`, all else alike; what counts is the share of groups whose scores are all
equal, and held-out success on the two levels that can be learned.
"""

import argparse
import json
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from report import print_table

import practicum as pr

__all__ = ["Colours", "measure"]

COLOURS = ("red", "green", "blue", "white")
ACTIONS = tuple(pr.ActionForm(name=name) for name in COLOURS)
SOLVED, LEARNABLE = range(1, 5), (5, 6)
LEVELS = tuple(range(1, 11))


class ColourSession:
    """One turn."""

    def __init__(self, task: pr.Task) -> None:
        self._task = task
        self._pay: tuple[float, ...] = ()

    def prompt(self) -> list[pr.Message]:
        """What is asked for."""
        return [pr.Message(role="user", content=str(self._task.data["asked"]))]

    def actions(self) -> tuple[pr.ActionForm, ...]:
        """All colours."""
        return ACTIONS

    async def act(self, text: str) -> pr.Observation:
        """Whether the answer counts."""
        counts = self._task.level in SOLVED or (
            self._task.level in LEARNABLE and text == self._task.data["answer"]
        )
        self._pay = (float(counts),)
        said = pr.Message(role="user", content="thanks")
        return pr.Observation(message=said, reward=self._pay[0], terminated=True)

    async def outcome(self) -> pr.Outcome:
        """Success is what was paid."""
        return pr.Outcome(success=self._pay == (1.0,), turn_rewards=self._pay)


class Colours:
    """Ten levels, of which two can be learned."""

    class Options(pr.ConfigModel):
        """Which levels."""

        level: int | list[int] = 5

    name: str = "colours"
    all_levels: ClassVar[tuple[int, ...]] = LEVELS

    def __init__(self, options: Options) -> None:
        level = options.level
        self._levels = [level] if isinstance(level, int) else level

    def tasks(self, split: pr.Split, seed: int) -> Iterator[pr.Task]:
        """Training tasks go on for ever; a held-out one has a number that none of them has."""
        rng = random.Random(f"{seed} {split} {self._levels}")
        for place in range(10**9 if split == "train" else 400):
            level, which = rng.choice(self._levels), rng.randrange(len(COLOURS))
            # On the second level that can be learned every name stands for the next one.
            answer = COLOURS[(which + (level == LEARNABLE[1])) % len(COLOURS)]
            yield pr.Task(
                id=f"{split}-{level}-{place}",
                env=self.name,
                split=split,
                level=level,
                instruction=f"level {level}: {COLOURS[which]}",
                data={"asked": f"{level} {COLOURS[which]}", "answer": answer},
            )

    @asynccontextmanager
    async def open(self, task: pr.Task) -> AsyncIterator[ColourSession]:
        """Start one episode."""
        yield ColourSession(task)

    def reference(self, task: pr.Task) -> Sequence[str]:
        """None: what is to be seen is practice."""
        return ()


def measure(seed: int, curriculum: str, steps: int, folder: Path) -> dict[str, Any]:
    """One run: its share of flat groups, and held-out success where it can be had."""
    run = pr.train(
        Colours,
        model="tiny",
        steps=steps,
        seed=seed,
        curriculum=curriculum,
        rollouts={"tasks_per_step": 10, "group_size": 8, "replace_flat_groups": 0.0},
        algorithm={"name": "grpo", "lr": 3e-4},
        eval={"n": 300, "before": False},
        runs_dir=str(folder),
        name=f"{curriculum}-{seed}",
        quiet=True,
        **{"env.level": list(LEVELS)},
    )
    rows = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    flat = [row["flat_share"] for row in rows if row.get("kind") == "step"]
    [report] = run.path.glob("evals/*.json")
    by_level = json.loads(report.read_text())["success_by_level"]
    learned = [by_level[str(level)]["value"] for level in LEARNABLE]
    return {"seed": seed, "flat": fmean(flat), "learned": fmean(learned)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=10, help="the first seed")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    seeds = range(args.first, args.first + args.seeds)
    with TemporaryDirectory() as folder:
        found = {
            kind: [measure(s, kind, args.steps, Path(folder)) for s in seeds]
            for kind in ("none", "adaptive")
        }
    if args.json:
        print(json.dumps(found))
        return
    lines = [["seed", "flat, even draws", "flat, adaptive", "success", "success, adaptive"]]
    for one, other in zip(found["none"], found["adaptive"], strict=True):
        numbers = (one["flat"], other["flat"], one["learned"], other["learned"])
        lines.append([str(one["seed"]), *(f"{number:.2f}" for number in numbers)])
    print_table(lines)


if __name__ == "__main__":
    main()
