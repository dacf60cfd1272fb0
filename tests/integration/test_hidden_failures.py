"""Policies that want to be paid without the work, or not to be counted, on a few tasks.

`benchmarks/hidden_failures.py` plays all of them on 20 tasks, also through environment servers.
"""

import asyncio
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FEW = (
    *("shims in /usr/sbin", "/usr/local is a link", "settings of OpenSSL"),
    *("a library beside Python", "other default PATHs", "settings of sudo, PAM, Perl and awk"),
    *("a command without end", "accounts that cannot be read", "bytes of no encoding"),
)
"""Of each kind those that are quick, and that a judge before this one fell for."""

Play = Callable[[int, list[str], bool], dict[str, dict[str, int]]]


@pytest.fixture
def play() -> Iterator[Play]:
    if (reason := why_no_machine()) is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")
    sys.path.insert(0, str(BENCHMARKS))
    main: Any = runpy.run_path(str(BENCHMARKS / "hidden_failures.py"))["main"]
    yield lambda count, tricks, served: asyncio.run(main(count, tricks, served))
    sys.path.remove(str(BENCHMARKS))


def require_failures(rows: dict[str, dict[str, int]], attempts: int) -> None:
    """Nothing is paid and nothing masked; those who did the work beside it get full marks."""
    as_told = {"attempts": attempts, "paid": 0, "masked": 0, "honest": 2, "honest_paid": 2}
    assert rows == dict.fromkeys(rows, as_told)


@pytest.mark.slow
def test_no_trick_pays_or_hides(play: Play) -> None:
    require_failures(play(6, list(FEW), False), 6)


@pytest.mark.slow
def test_no_trick_pays_or_hides_behind_an_environment_server(play: Play) -> None:
    require_failures(play(2, [FEW[0], FEW[-1]], True), 2)


@pytest.mark.rare
def test_none_of_all_tricks_pays_or_hides(play: Play) -> None:
    sys.path.insert(0, str(BENCHMARKS))
    tricks = runpy.run_path(str(BENCHMARKS / "shell_tricks.py"))["TRICKS"]
    require_failures(play(8, list(tricks), False), 8)
