import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.store import durable
from practicum.store.durable import FAILPOINTS, VARIABLE, DurableStep, durable_step, failpoint

HIT_THREE_TIMES = """
from practicum.store.durable import failpoint
for number in range(1, 4):
    failpoint("traces.commit.before")
    print(number, flush=True)
"""


def run_with(setting: str | None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE}
    if setting is not None:
        environment[VARIABLE] = setting
    return subprocess.run(
        [sys.executable, "-c", HIT_THREE_TIMES],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_durable_step_has_a_failpoint_on_both_sides() -> None:
    assert len(FAILPOINTS) == 2 * len(DurableStep)
    assert {"metrics.append.before", "metrics.append.after"} <= set(FAILPOINTS)


def test_a_process_that_was_told_nothing_passes_every_failpoint() -> None:
    done = run_with(None)
    assert (done.returncode, done.stdout.split()) == (0, ["1", "2", "3"])


@pytest.mark.parametrize(
    ("setting", "printed"),
    [("traces.commit.before", []), ("traces.commit.before:3", ["1", "2"])],
)
def test_the_process_is_killed_at_the_hit_it_was_told(setting: str, printed: list[str]) -> None:
    done = run_with(setting)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == printed


@pytest.mark.parametrize(
    "setting", ["no.such.place", "traces.commit.before:0", "file.stage.after:x"]
)
def test_a_failpoint_that_does_not_exist_is_refused(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_armed", None)
    monkeypatch.setattr(durable, "_setting", setting)
    with pytest.raises(UserError, match="is not a failpoint; write a name") as caught:
        failpoint("file.stage.before")
    assert setting in str(caught.value)


def test_a_step_that_failed_does_not_reach_its_second_failpoint(tmp_path: Path) -> None:
    code = f"""
from practicum.store.durable import DurableStep, arm, durable_step
arm("{DurableStep.FILE_STAGE}.after")
try:
    with durable_step(DurableStep.FILE_STAGE):
        raise OSError
except OSError:
    print("alive")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "alive"


def test_a_step_does_what_is_inside_it() -> None:
    done = []
    with durable_step(DurableStep.FILE_STAGE):
        done.append("inside")
    assert done == ["inside"]
