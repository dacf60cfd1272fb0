"""Policies that try to hide their failures, on a few tasks; `benchmarks` has the same on 50."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.machines import why_no_machine

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "hidden_failures.py"


@pytest.mark.slow
def test_no_trick_makes_a_failure_anything_but_a_failure() -> None:
    if (reason := why_no_machine()) is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")
    ran = subprocess.run(
        [sys.executable, str(SCRIPT), "--tasks", "2"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("success 0.0 masked 0 of 2") == 7
