"""User namespaces with a range of ids."""

import os
import subprocess
from pathlib import Path

import pytest

from practicum.sandboxes.bubblewrap import user_namespaces as userns
from practicum.sandboxes.bubblewrap.user_namespaces import IDS, granted_range, new_user_namespace

SUBUID = """
# comment
alice:100000:65536
bob:300000:1000
bob:400000:70000
1234:500000:65536
broken
carol:x:y
dave:600000:
"""


@pytest.fixture
def subuid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "subuid"
    file.write_text(SUBUID)
    monkeypatch.setattr(
        userns, "Path", lambda path: file if path == "/etc/subuid" else tmp_path / "no"
    )


@pytest.mark.usefixtures("subuid")
@pytest.mark.parametrize(
    ("name", "uid", "first"),
    [
        ("alice", 1, 100_000),
        ("bob", 1, 400_000),
        ("anyone", 1234, 500_000),
        ("nobody", 65_534, None),
        ("carol", 1, None),
        ("dave", 1, None),
        ("ali", 1, None),
    ],
)
def test_the_first_range_that_is_large_enough_is_taken(
    name: str, uid: int, first: int | None
) -> None:
    assert granted_range("subuid", name, uid) == first
    assert granted_range("subgid", name, uid) is None, "there is no such file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses ids freely")
def test_root_inside_is_somebody_else_outside() -> None:
    first = 0x7F000000
    namespace = new_user_namespace(first, first, first)
    try:
        done = subprocess.run(
            ["nsenter", f"--user=/proc/self/fd/{namespace}", "cat", "/proc/self/uid_map"],
            pass_fds=[namespace],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        os.close(namespace)
    assert done.stdout.split() == ["0", str(first), str(IDS)]


def test_a_failed_mapping_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("newuidmap: not allowed")

    monkeypatch.setattr(userns, "_map_ids", refused)
    before = set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
    with pytest.raises(OSError, match="newuidmap"):
        new_user_namespace(1, 1)
    after = set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
    assert after <= before
