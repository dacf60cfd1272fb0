"""How many threads a run computes with."""

import pytest

from practicum.core.config.config_sections import HardwareConfig
from practicum.core.config.run_config import RunConfig
from practicum.engine.planning.machine import detect_machine, plan_threads, thread_count


@pytest.mark.parametrize(
    ("threads", "variable", "count"), [(3, "7", 3), (0, "7", 7), (0, "", None), (0, "4,2", None)]
)
def test_the_config_decides_then_openmps_variable_then_the_machine(
    monkeypatch: pytest.MonkeyPatch, threads: int, variable: str, count: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    config = RunConfig(hardware=HardwareConfig(threads=threads))
    assert thread_count(config) == (count or plan_threads(detect_machine()))


def test_processes_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    here = plan_threads(detect_machine())
    assert thread_count(RunConfig(hardware=HardwareConfig(processes=here))) == 1
    assert thread_count(RunConfig(hardware=HardwareConfig(processes=10 * here))) == 1
    assert thread_count(RunConfig(hardware=HardwareConfig(processes=4, threads=3))) == 3
