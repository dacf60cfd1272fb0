import os
import subprocess
import sys
from pathlib import Path

import pytest

from practicum.core.command import SandboxSpec
from practicum.sandboxes.guarded.guardian import (
    Footprint,
    children_of_this_process,
    size_of_folder,
    tasks_of_user,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
SPEC = SandboxSpec(disk_mb=1, memory_mb=4096, processes=4)


def test_files_are_counted_without_following_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(bytes(1 << 20))
    inside = tmp_path / "inside"
    (inside / "a").mkdir(parents=True)
    (inside / "a" / "file").write_bytes(bytes(100_000))
    (inside / "link").symlink_to(outside)
    used, files = size_of_folder(str(inside))
    assert files == 3
    assert 100_000 <= used < 1 << 19


def test_counting_ends_just_beyond_the_limit(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "file").touch()
    assert size_of_folder(str(tmp_path), most_files=1000)[1] == 40
    assert size_of_folder(str(tmp_path), most_files=20)[1] == 21


def test_a_folder_deeper_than_names_reach_counts_as_too_much(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    depth = 30
    for _ in range(depth):
        os.mkdir("d" * 200, dir_fd=here)
        deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    assert size_of_folder(str(tmp_path), most_files=1000)[1] == 1001
    subprocess.run(["rm", "-rf", str(tmp_path / ("d" * 200))], check=True)


def test_what_was_there_before_is_not_held_against_a_command(tmp_path: Path) -> None:
    first = Footprint(SPEC, str(tmp_path), counts_processes=False)
    assert (first.excess(), first.file_limit) == (None, 1 << 20)
    (tmp_path / "big").write_bytes(bytes(2 << 20))
    assert first.excess() == "killed"
    second = Footprint(SPEC, str(tmp_path), counts_processes=False)
    assert (second.excess(), second.file_limit) == (None, 0)
    (tmp_path / "more").write_bytes(bytes(4096))
    assert second.excess() == "killed"


def test_processes_and_their_memory_are_counted_where_asked(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) for _ in range(3)
    ]
    try:
        while len(children_of_this_process()) < 6:
            assert all(process.poll() is None for process in started)
        assert Footprint(SPEC, str(tmp_path), counts_processes=True).excess() == "killed"
        assert Footprint(SPEC, str(tmp_path), counts_processes=False).excess() is None
        small = SandboxSpec(memory_mb=1, processes=100)
        assert Footprint(small, str(tmp_path), counts_processes=True).excess() == "oom"
        assert tasks_of_user(os.getuid()) > 6
    finally:
        for process in started:
            os.killpg(process.pid, 9)
            process.wait()
