"""How benchmarks say what they found: where it was measured, a table, or JSON."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from cases import Case

__all__ = ["describe", "print_table", "seconds_text", "show"]


def describe(case: Case) -> dict[str, Any]:
    """The command, the hardware and the versions that a number hangs on."""
    return {
        "command": " ".join(["python", *sys.argv]),
        "hardware": _hardware(case.device),
        "versions": {name: _version(name) for name in ("torch", "transformers", "trl")},
        "weights": "its own" if case.has_own_weights else "random",
        **asdict(case),
        "threads": torch.get_num_threads(),
    }


def _hardware(device: str) -> str:
    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name())
    processors = Path("/proc/cpuinfo")
    lines = processors.read_text().splitlines() if processors.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} processors"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def show(found: dict[str, Any], args: argparse.Namespace, lines: Sequence[Sequence[str]]) -> None:
    """Print JSON if that was asked for, else the description and a table of lines."""
    if args.json:
        print(json.dumps(found))
        return
    packages = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    print(found["command"])
    print(f"{found['hardware']}; {packages}")
    print(
        f"{found['model']} with {found['weights']} weights, {found['device']} {found['dtype']}, "
        f"{found['threads']} threads"
    )
    if "seconds" in found:
        how = "one side after the other" if found["separate"] else "in which the sides alternate"
        print(f"medians of {found['repeats']} rounds, {how}")
    print_table(lines)
    for name, reason in found.get("left_out", {}).items():
        print(f"{name} is left out: {reason}")


def print_table(lines: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need, the first to the left and the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    print()
    for line in lines:
        first, *rest = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join([first.strip().ljust(widths[0]), *rest]))
    print()


def seconds_text(seconds: float) -> str:
    """Seconds, or milliseconds where they are few.

    >>> seconds_text(0.01234), seconds_text(12.3)
    ('12.3 ms', '12.30 s')
    """
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"
