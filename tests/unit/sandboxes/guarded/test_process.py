import sys
from pathlib import Path

import pytest

from practicum.core.command import CommandStatus, SandboxSpec
from practicum.core.errors import UserError
from practicum.core.interfaces import Sandboxes
from practicum.sandboxes.guarded.guarded_sandboxes import ALLOW_VARIABLE, ProcessSandboxes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these sandboxes need Linux")


@pytest.mark.parametrize("environment", [{}, {ALLOW_VARIABLE: "0"}, {ALLOW_VARIABLE: "yes"}])
def test_it_must_be_allowed_by_the_environment_too(environment: dict[str, str]) -> None:
    with pytest.raises(UserError, match=rf"isolate nothing.*export {ALLOW_VARIABLE}=1"):
        ProcessSandboxes(environment)


def test_the_environment_of_this_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOW_VARIABLE, raising=False)
    with pytest.raises(UserError, match="isolate nothing"):
        ProcessSandboxes()
    monkeypatch.setenv(ALLOW_VARIABLE, "1")
    assert ProcessSandboxes().kind == "process"


async def test_a_machine_is_refused() -> None:
    sandboxes = ProcessSandboxes({ALLOW_VARIABLE: "1"})
    with pytest.raises(UserError, match=r"'process'.*'machine'"):
        await sandboxes.open(SandboxSpec(profile="machine"))


async def test_limits_hold_and_nothing_is_left() -> None:
    sandboxes: Sandboxes = ProcessSandboxes({ALLOW_VARIABLE: "1"})
    box = await sandboxes.open(SandboxSpec(output_bytes=100))
    where = await box.run(["pwd"], timeout_s=120)
    assert (box.kind, where.status) == ("process", CommandStatus.OK)
    late = await box.run(["bash", "-c", "(setsid sleep 600 &); sleep 600"], timeout_s=0.3)
    assert late.status is CommandStatus.TIMEOUT
    held = await box.run(["bash", "-c", "sleep 600 & echo at once"], timeout_s=120)
    assert (held.status, held.stdout) == (CommandStatus.OK, "at once\n")
    loud = await box.run(["bash", "-c", "seq 100000 >&2"], timeout_s=120)
    assert (loud.status, loud.output_bytes) == (CommandStatus.TRUNCATED, 588_895)
    assert loud.stderr.startswith("1\n2\n")
    assert loud.stderr.endswith("100000\n")
    await box.write("sub/file", b"x")
    assert await box.read("sub/file") == b"x"
    await sandboxes.close()
    assert not Path(where.stdout.strip()).parent.exists()
