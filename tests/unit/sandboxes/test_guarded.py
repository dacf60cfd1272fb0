import os
import subprocess
import sys
from pathlib import Path

import pytest

from practicum.core.command import SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.guarded import GuardedSandboxes, sweep_folders

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


async def test_a_guardian_that_cannot_make_its_folder_is_an_environment_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sandboxes = GuardedSandboxes("process", confines=False)
    await (await sandboxes.open(SandboxSpec())).close()
    monkeypatch.setattr("practicum.sandboxes.guarded._sweep", lambda: None)
    monkeypatch.setattr("practicum.sandboxes.guarded.GUARDIAN", "practicum.sandboxes.nothing")
    with pytest.raises(EnvironmentFailure, match="ended at once"):
        await sandboxes.open(SandboxSpec())
    assert list(tmp_path.iterdir()) == []
