"""Policies that try to be paid for nothing, or to be masked; `benchmarks` has many more."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.machines import why_no_machine

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "office_attacks.py"
FEW = ("bare CR", "deep JSON", "flood of messages", "writers that go on", "planted programs")


def attacked(*words: str) -> subprocess.CompletedProcess[str]:
    if (reason := why_no_machine()) is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_no_attack_is_paid_or_masked_and_nobody_else_is_hurt() -> None:
    ran = attacked("--tasks", "3", "--attacks", *FEW)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5 attacks, 15 episodes; paid or masked: []; others hurt: []" in ran.stdout


@pytest.mark.rare
def test_no_attack_is_paid_or_masked_behind_an_environment_server() -> None:
    ran = attacked("--tasks", "2", "--server")
    assert ran.returncode == 0, ran.stdout + ran.stderr
