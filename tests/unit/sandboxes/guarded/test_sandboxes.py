import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from practicum.core.command import CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.guarded.guarded_sandboxes import GuardedSandboxes, sweep_folders

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these sandboxes need Linux")


def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_the_sweep_takes_only_folders_of_ours_whose_guardian_is_dead(tmp_path: Path) -> None:
    dead = f"practicum-{dead_pid()}"
    left, linked, alive = f"{dead}-a", f"{dead}-b", f"practicum-{os.getpid()}-c"
    (tmp_path / left / "work").mkdir(parents=True)
    (tmp_path / left / "work" / "file").touch()
    (tmp_path / alive).mkdir()
    (tmp_path / "precious").mkdir()
    (tmp_path / linked).symlink_to(tmp_path / "precious")
    (tmp_path / "practicum-notes").mkdir()
    assert sweep_folders(tmp_path) == [left]
    kept = {alive, linked, "precious", "practicum-notes"}
    assert {entry.name for entry in tmp_path.iterdir()} == kept


async def test_what_starts_guardians_may_be_killed_and_sandboxes_live_on() -> None:
    sandboxes = GuardedSandboxes("process", confines=False)
    first = await sandboxes.open(SandboxSpec())
    process = sandboxes._guardians._process
    assert process is not None
    process.kill()
    process.wait()
    assert (await first.run(["echo", "alive"], timeout_s=120)).stdout == "alive\n"
    second = await sandboxes.open(SandboxSpec())
    assert (await second.run(["echo", "new"], timeout_s=120)).stdout == "new\n"
    await sandboxes.close()
    assert (await first.run(["true"], timeout_s=120)).status is CommandStatus.DIED


async def test_many_open_at_once_and_none_sees_anothers_files() -> None:
    sandboxes = GuardedSandboxes("process", confines=False)
    boxes = await asyncio.gather(*(sandboxes.open(SandboxSpec()) for _ in range(5)))
    for number, box in enumerate(boxes):
        await box.write("mine", str(number).encode())
    commands = (box.run(["cat", "mine"], timeout_s=120) for box in boxes)
    assert [done.stdout for done in await asyncio.gather(*commands)] == list("01234")
    folders = [(await box.run(["pwd"], timeout_s=120)).stdout.strip() for box in boxes]
    await sandboxes.close()
    assert not any(Path(folder).parent.exists() for folder in folders)


async def test_a_guardian_without_a_place_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(gone))
    monkeypatch.setattr("practicum.sandboxes.guarded.guarded_sandboxes._sweep", lambda: None)
    sandboxes = GuardedSandboxes("process", confines=False)
    await (await sandboxes.open(SandboxSpec())).close()
    assert list(gone.iterdir()) == []
    gone.rmdir()
    with pytest.raises(EnvironmentFailure, match=r"No such file.*gone"):
        await sandboxes.open(SandboxSpec())
    await sandboxes.close()


async def test_a_guardian_that_does_not_start_is_an_environment_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "practicum.sandboxes.guarded.guarded_sandboxes.GUARDIAN", "practicum.sandboxes.nothing"
    )
    sandboxes = GuardedSandboxes("process", confines=False)
    with pytest.raises(EnvironmentFailure, match="ended at once"):
        await sandboxes.open(SandboxSpec())
    await sandboxes.close()


async def test_a_sandbox_that_cannot_be_confined_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "code"), *sys.path])
    code = tmp_path / "code"
    code.mkdir()
    # Loaded by Python itself before anything else, in the process that forks guardians.
    (code / "sitecustomize.py").write_text(
        "import practicum.sandboxes.guarded.confinement as c\nc.landlock_version = lambda: 0\n"
    )
    sandboxes = GuardedSandboxes("landlock", confines=True)
    with pytest.raises(EnvironmentFailure, match="no Landlock"):
        await sandboxes.open(SandboxSpec())
    await sandboxes.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["code"]
