"""Policies trained on rewards that can be gamed are flagged, and those that learn are not.

A few runs of what benchmarks/reward_hacks.py does with many.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.mark import ParameterSet

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "reward_hacks.py"


@pytest.fixture(scope="module")
def hacks() -> Iterator[ModuleType]:
    """The benchmark under its own name: its configs name functions in it."""
    spec = importlib.util.spec_from_file_location("reward_hacks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reward_hacks"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["reward_hacks"]


def rarely(*kinds: str) -> list[ParameterSet]:
    return [pytest.param(kind, marks=pytest.mark.rare) for kind in kinds]


@pytest.mark.parametrize("kind", ["length", *rarely("repetition", "format", "early stop")])
def test_a_gamed_reward_is_flagged_by_its_own_sign(
    hacks: ModuleType, kind: str, tmp_path: Path
) -> None:
    found: dict[str, Any] = hacks.one_run(kind, 0, tmp_path)
    assert found["reward"][1] > found["reward"][0] + 0.5
    assert found["success"][1] < found["success"][0]
    assert kind in found["signs"]
    assert "reward" in found["signs"]


@pytest.mark.parametrize("kind", ["with form", *rarely("with efficiency", "normalised")])
def test_learning_the_task_is_no_sign(hacks: ModuleType, kind: str, tmp_path: Path) -> None:
    found: dict[str, Any] = hacks.one_run(kind, 0, tmp_path)
    assert found["success"][1] > 0.8 > 0.3 > found["success"][0]
    assert found["signs"] == []
    assert found["alarms"] == []
