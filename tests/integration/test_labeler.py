"""The labeler over generated traces with known truth, at a smaller size than the benchmark's."""

import json
import runpy
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "labeler.py"
SEEDS = 4
SLACK = 0.02
"""What four seeds may fall short of the claim by; twenty, in the benchmark, may not at all."""


def test_fifty_labels_chosen_by_uncertainty_are_worth_a_hundred_chosen_by_chance(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--seeds", str(SEEDS), "--pool", "500", "--heldout", "400"]
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *sizes, "--json"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(BENCHMARK), run_name="__main__")
    found = json.loads(capsys.readouterr().out)
    ways = {way: figures["accuracy"] for way, figures in found["ways"].items()}
    assert found["gain"]["value"] == pytest.approx(ways["50 uncertain"] - ways["100 random"])
    assert found["holds"] == (found["gain"]["value"] >= 0)
    assert found["gain"]["value"] >= -SLACK
    assert ways["50 uncertain"] > ways["50 random"] + 0.02
    assert ways["200 random"] > ways["100 random"]
