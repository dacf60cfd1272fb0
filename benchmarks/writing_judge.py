"""How well a judge tells good texts from spoilt ones, and what its weight should be.

Each pair is a text that meets its brief and the same text padded, stuffed with keywords, replaced
by its brief, or with a fact that was made up. The measured score of the environment `writing` is
tried on the same pairs. A judge's weight follows from the lower bound of the 95 % interval of its
agreement: nothing at chance or below.

    python benchmarks/writing_judge.py
    python benchmarks/writing_judge.py --judge openai/MODEL --pairs 40
    python benchmarks/writing_judge.py --judge none
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from practicum.compat.art.rewards import ruler
from practicum.stats.intervals import wilson_interval
from practicum_envs.writing.planted_pairs import (
    FAULTS,
    PlantedPair,
    planted_pairs,
    weight_of_judge,
)
from practicum_envs.writing.text_score import score_text

NO_JUDGE = "none"
LOCAL = "local/"
RUBRIC = """\
- The text says every fact of the brief and makes up none.
- It is written in whole sentences for its readers, not in keywords, and not in the brief's words.
- It is as long as asked for, and every sentence is needed."""


def main() -> None:
    """Measure and print."""
    options = _options()
    pairs = planted_pairs(options.pairs, options.seed)
    right = {"measured score": [_measured(one) for one in pairs]}
    if options.judge != NO_JUDGE:
        right[options.judge] = asyncio.run(_judged(pairs, options.judge))
    found = {name: _agreement(pairs, said) for name, said in right.items()}
    if options.json:
        print(json.dumps({"pairs": len(pairs), "seed": options.seed, "agreement": found}))
        return
    _print(found, len(pairs))
    if options.judge != NO_JUDGE:
        _print_weight(options.judge, found[options.judge])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--judge", default="local/smollm2-135m", help="as ruler names it, or none")
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return parser.parse_args()


def _measured(pair: PlantedPair) -> bool:
    """Whether the environment's own score prefers the good text."""
    good, bad = (score_text(pair.brief, text, pair.outline) for text in (pair.good, pair.bad))
    return good.value > bad.value


async def _judged(pairs: Sequence[PlantedPair], judge: str) -> list[bool]:
    """Whether the judge does, for each pair."""
    said = []
    for pair in pairs:
        asked = "\n".join(pair.brief.lines())
        conversations = [
            [{"role": "user", "content": asked}, {"role": "assistant", "content": text}]
            for text in ("\n\n".join(pair.good), "\n\n".join(pair.bad))
        ]
        good, bad = await ruler(conversations, judge, rubric=RUBRIC)
        said.append(good.score > bad.score)
    return said


def _agreement(pairs: Sequence[PlantedPair], said: Sequence[bool]) -> dict[str, Any]:
    """Pairs in the right order, in all and by fault, with the interval and the weight."""
    every = Counter(pair.fault for pair in pairs)
    right = Counter(pair.fault for pair, is_right in zip(pairs, said, strict=True) if is_right)
    low, high = wilson_interval(sum(said) / len(said), len(said))
    return {
        "right": sum(said),
        "low": low,
        "high": high,
        "weight": weight_of_judge(low),
        "by_fault": {fault: [right[fault], every[fault]] for fault in FAULTS},
    }


def _print(found: dict[str, dict[str, Any]], count: int) -> None:
    table = Table(title=f"{count} planted pairs in the right order")
    for name in ("", "all", "95 % interval", *FAULTS):
        table.add_column(name)
    for name, one in found.items():
        interval = f"[{one['low']:.2f}, {one['high']:.2f}]"
        shares = [f"{right} of {every}" for right, every in one["by_fault"].values()]
        table.add_row(name, str(one["right"]), interval, *shares)
    Console(width=110).print(table)


def _print_weight(judge: str, found: dict[str, Any]) -> None:
    weight = found["weight"]
    print(f"The weight of {judge} is {weight:.2f}.")
    if not weight:
        print("Its agreement may be chance: leave it out.")
        return
    model = judge.removeprefix(LOCAL)
    print("In a config:")
    print(f"reward: {{components: [turns, {{name: judge, model: {model}, weight: {weight:.2f}}}]}}")


if __name__ == "__main__":
    main()
