"""Peak memory of one update against its unique tokens: Practicum's tree and the padded batch.

    python benchmarks/memory.py --model qwen2.5-0.5b --tokens 4096 8192 32768 --ratio 4

A group of `--group` episodes has so many unique tokens, and its rows `--ratio` times as many; each
side learns from all of it at once, unless told how much to take at a time. On a CUDA device the
peak is what tensors took; on a CPU it is how far the process grew, each side in a process of its
own. The plan's estimate is beside it where `practicum.engine.planning` can be imported.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from cases import Case, arguments, model_config
from episodes import sizes_at_ratio
from race import race
from report import describe, show
from update import Work, padded_side, practicum_side

from practicum.engine.compute_thread import pin_threads

__all__ = ["measure"]

SIDES = {"practicum": practicum_side, "padded": padded_side}

UPDATE_PARTS = {
    "weights",
    "adapter",
    "gradients",
    "optimizer",
    "activations",
    "attention",
    "logits",
}
"""Parts of the plan that an update takes; a sampler's are not measured here."""


def measure(case: Case, ratio: float, tokens: list[int]) -> dict[str, Any]:
    """Every size on every side."""
    return {
        **describe(case),
        "ratio": ratio,
        "points": [_point(_sized(case, ratio, unique)) for unique in tokens],
    }


def _sized(case: Case, ratio: float, unique: int) -> Case:
    prompt, completion = sizes_at_ratio(unique, ratio, case.group)
    return dataclasses.replace(
        case,
        prompt=prompt,
        completion=completion,
        micro_batch_tokens=case.micro_batch_tokens or 1 << 40,
        repeats=1,
        separate=True,
    )


def _point(case: Case) -> dict[str, Any]:
    work = Work.of(case)
    peaks, left_out = _peaks_on_cuda(case, work) if case.uses_cuda else _peaks_of_children(case)
    return {
        **work.sizes(),
        "peak_bytes": peaks,
        "left_out": left_out,
        "planned_bytes": planned_bytes(case, work.sizes()["unique_tokens"]),
    }


def _peaks_on_cuda(case: Case, work: Work) -> tuple[dict[str, int], dict[str, str]]:
    builders = {name: partial(build, case, work) for name, build in SIDES.items()}
    found = race(builders, case)
    return found.peak_bytes, found.left_out


def _peaks_of_children(case: Case) -> tuple[dict[str, int], dict[str, str]]:
    peaks: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for name in SIDES:
        if name in case.without:
            continue
        job = json.dumps({"side": name, "case": dataclasses.asdict(case)})
        child = subprocess.run(
            [sys.executable, __file__, "--child", job], capture_output=True, text=True, check=False
        )
        if child.returncode == 0:
            peaks[name] = int(child.stdout)
        elif child.returncode < 0:
            left_out[name] = "does not fit"
        else:
            raise RuntimeError(child.stderr)
    return peaks, left_out


def grow_in_child(job: str) -> int:
    """Bytes by which this process has grown at its largest, in two updates."""
    asked = json.loads(job)
    case = Case(**{**asked["case"], "without": tuple(asked["case"]["without"])})
    pin_threads(case.threads)
    build, work = SIDES[asked["side"]], Work.of(case)
    small = dataclasses.replace(case, model="tiny", prompt=8, completion=4)
    build(small, Work.of(small)).run()  # loads the code, which is not what is asked for
    before = _status_bytes("VmRSS")
    side = build(case, work)
    for _ in range(2):
        side.run()
    return _status_bytes("VmHWM") - before


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    [kibibytes] = [int(line.split()[1]) for line in lines if line.startswith(f"{key}:")]
    return kibibytes << 10


def planned_bytes(case: Case, tokens: int) -> int | None:
    """What the plan expects of an update with so many tokens; None without its packages."""
    try:
        from practicum.core.config.run_config import RunConfig
        from practicum.engine.planning.memory import estimate_memory
        from practicum.engine.planning.model_shapes import ModelShape
    except ImportError:
        return None
    config = RunConfig.model_validate(
        {
            "env": {"name": "benchmark", "options": {"actions": "free"}},
            "lora": "full",
            "rollouts": {"group_size": case.group, "max_tokens": case.completion, "max_turns": 1},
            "algorithm": {"micro_batch_tokens": tokens},
        }
    )
    shape = ModelShape.from_config(model_config(case).to_dict())
    kind = "cuda" if case.uses_cuda else "cpu"
    parts = estimate_memory(shape, config, device=kind, dtype=case.dtype)
    return sum(part.bytes for part in parts if part.name in UPDATE_PARTS)


def main() -> None:
    parser = arguments(__doc__.split("\n")[0])
    parser.set_defaults(group=16)
    add = parser.add_argument
    add("--tokens", type=int, nargs="+", default=[1024, 2048, 4096], help="unique tokens")
    add("--ratio", type=float, default=4.0, help="row tokens for each unique token")
    add("--peer-batch", type=int, default=0, help="rows the padded batch learns at once; 0 for all")
    add("--micro-batch-tokens", type=int, default=0, help="Practicum's at once; 0 for all")
    add("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(grow_in_child(args.child))
        return
    pin_threads(args.threads)
    found = measure(Case.of(args), args.ratio, args.tokens)
    lines = [("unique tokens", "row tokens", *SIDES, "to practicum", "planned")]
    for point in found["points"]:
        peaks = point["peak_bytes"]
        both = len(peaks) == len(SIDES)
        lines.append(
            (
                str(point["unique_tokens"]),
                str(point["row_tokens"]),
                *(_bytes_text(peaks.get(name), point["left_out"].get(name, "")) for name in SIDES),
                f"{peaks['padded'] / peaks['practicum']:.2f} x" if both else "",
                _bytes_text(point["planned_bytes"], ""),
            )
        )
    show(found, args, lines)


def _bytes_text(size: int | None, otherwise: str) -> str:
    return otherwise if size is None else f"{size / 2**20:,.0f} MiB"


if __name__ == "__main__":
    main()
