"""The benchmark of sandboxes runs, at its smallest. Nothing here is timed."""

import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from practicum.sandboxes.bubblewrap.rootfs import cached_root

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sandbox.py"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
def test_every_side_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = "--machine" if cached_root() is not None else "--no-machine"
    sizes = ["--rounds", "2", "--episodes", "2", machine, "--no-podman", "--json"]
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *sizes])
    runpy.run_path(str(BENCHMARK), run_name="__main__")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    sides = ["subprocess", "bubblewrap code", "bubblewrap machine"]
    assert [row["side"] for row in found["rows"]] == (
        sides if machine == "--machine" else sides[:2]
    )
    assert all(row["start_p95_ms"] >= row["start_ms"] > 0 for row in found["rows"])
    assert all(row["episodes_per_s"] > 0 and row["command_ms"] > 0 for row in found["rows"])
    assert found["left_out"] == {"podman": "not asked for"}
