import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from practicum.core.command import SandboxSpec
from practicum.sandboxes import cgroups as cgroup_files
from practicum.sandboxes.cgroups import (
    Cgroup,
    Cgroups,
    CgroupsUnusable,
    Version1,
    Version2,
    find_cgroups,
    require_cgroups,
    why_no_cgroups,
)

SPEC = SandboxSpec(memory_mb=64, processes=8, cpus=0.5)
HAS_CGROUPS = sys.platform == "linux" and find_cgroups() is not None
needs_cgroups = pytest.mark.skipif(not HAS_CGROUPS, reason="no control groups can be made here")


def name_for(owner: int, number: int = 1) -> str:
    return f"practicum-{owner}-{number}"


def dead_pid() -> int:
    """The pid of a process that has ended and was buried."""
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    child.wait()
    return child.pid


def until(holds: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    end = time.monotonic() + timeout_s
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()


def has_ended(pid: int) -> bool:
    """Whether it is gone, or waits only to be buried."""
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


# For real.


@pytest.fixture
def group() -> Iterator[Cgroup]:
    cgroups = require_cgroups()
    made = cgroups.create(name_for(os.getpid()), SPEC)
    yield made
    made.kill()
    assert until(made.remove)


def start_inside(group: Cgroup, script: str) -> subprocess.Popen[bytes]:
    """A shell that enters first and then does what the script says."""
    enter = "".join(f"echo $$ > {path}; " for path in group.procs_files)
    return subprocess.Popen(["sh", "-c", enter + script], stdout=subprocess.PIPE)


def ended(process: subprocess.Popen[bytes]) -> int:
    code = process.wait(timeout=120)
    assert process.stdout is not None
    process.stdout.close()
    return code


@needs_cgroups
def test_the_memory_limit_ends_a_process_and_is_counted(group: Cgroup) -> None:
    eater = "import sys; data = bytearray(256 << 20)"
    process = start_inside(group, f"exec {sys.executable} -I -S -c '{eater}'")
    assert ended(process) == -signal.SIGKILL
    assert group.oom_kills() == 1
    assert "oom_kill 1" in group.oom_file.read_text()


@needs_cgroups
def test_no_more_processes_than_allowed(group: Cgroup) -> None:
    script = "for i in $(seq 30); do sleep 20 & done 2>/dev/null"
    process = start_inside(group, f"exec bash -c '{script}'")
    assert until(lambda: len(group.processes()) >= SPEC.processes - 1)
    time.sleep(0.05)
    assert len(group.processes()) <= SPEC.processes
    assert group.kill()
    assert group.processes() == []
    ended(process)


@needs_cgroups
def test_half_a_processor_is_half_a_processor(group: Cgroup) -> None:
    before = time.monotonic()
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    assert ended(start_inside(group, f"exec {sys.executable} -I -S -c '{spin}'")) == 0
    assert time.monotonic() - before > 0.45


@needs_cgroups
def test_frozen_processes_do_nothing_until_they_thaw(group: Cgroup, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    process = start_inside(group, f"while :; do echo >> {mark}; sleep 0.01; done")
    assert until(mark.exists)
    group.freeze()
    size = mark.stat().st_size
    time.sleep(0.1)
    assert mark.stat().st_size == size
    group.thaw()
    assert until(lambda: mark.stat().st_size > size)
    group.kill()
    ended(process)


@needs_cgroups
def test_killing_reaches_daemons_and_those_that_are_frozen(group: Cgroup) -> None:
    process = start_inside(group, "setsid sleep 60 & setsid sleep 60 & exit 0")
    assert ended(process) == 0
    assert len(group.processes()) == 2
    assert not group.remove()
    group.freeze()
    assert group.kill()
    assert group.processes() == []


@needs_cgroups
def test_killing_ends_what_forks_without_end(group: Cgroup) -> None:
    process = start_inside(group, "f() { sleep 0.01; f & f & }; f; sleep 30")
    assert until(lambda: len(group.processes()) > 4)
    assert group.kill()
    ended(process)


@needs_cgroups
def test_the_sweep_ends_what_dead_owners_left_and_spares_the_living() -> None:
    cgroups = require_cgroups()
    orphan = cgroups.create(name_for(dead_pid()), SPEC)
    mine = cgroups.create(name_for(os.getpid(), 7), SPEC)
    inside = start_inside(orphan, "setsid sleep 60 & exit 0")
    assert ended(inside) == 0
    [daemon] = orphan.processes()
    assert orphan.name in cgroups.sweep()
    assert until(lambda: has_ended(daemon))
    assert not orphan.procs_files[0].exists()
    assert mine.procs_files[0].exists()
    assert mine.remove()


@needs_cgroups
def test_a_group_that_cannot_be_made_leaves_nothing() -> None:
    cgroups = require_cgroups()
    if not isinstance(cgroups, Version1):
        pytest.skip("only version 1 has several folders for one group")
    name = name_for(os.getpid(), 9)
    taken = cgroups.bases["cpu"] / name
    taken.mkdir()
    with pytest.raises(FileExistsError):
        cgroups.create(name, SPEC)
    assert taken.is_dir()
    assert not (cgroups.bases["memory"] / name).exists()
    taken.rmdir()


# Against a tree of ordinary files, with a kernel that fills folders as it does.

FILES_V2 = {
    "cgroup.procs": "",
    "cgroup.kill": "",
    "cgroup.freeze": "0",
    "cgroup.events": "populated 0\nfrozen 0\n",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.events": "low 0\noom 2\noom_kill 3\n",
    "pids.max": "max",
    "cpu.max": "max 100000",
}


@pytest.fixture
def fake_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make = Path.mkdir

    def mkdir(self: Path, *args: int, **options: bool) -> None:
        make(self, *args, **options)
        if self.name.startswith("practicum-"):
            for name, text in FILES_V2.items():
                (self / name).write_text(text)

    remove = os.rmdir

    def rmdir(path: Path) -> None:
        if path.exists() and (path / "cgroup.procs").read_text():
            raise OSError(16, "Device or resource busy")
        for name in FILES_V2:
            (path / name).unlink(missing_ok=True)
        remove(path)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(cgroup_files.os, "rmdir", rmdir)


def proc_of(tmp_path: Path, own: str, mounts: str) -> Path:
    """What /proc/self would say; @ stands for the folder of the fake hierarchy."""
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(own)
    (proc / "mountinfo").write_text(mounts.replace("@", str(tmp_path / "cgroup")))
    return proc


def group_folder(path: Path, controllers: str, enabled: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "cgroup.controllers").write_text(controllers)
    (path / "cgroup.subtree_control").write_text(enabled)
    (path / "cgroup.procs").write_text("")
    return path


MOUNTED_V2 = "29 23 0:26 / @ rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.usefixtures("fake_kernel")
def test_version_2_writes_every_limit(tmp_path: Path) -> None:
    base = group_folder(tmp_path / "cgroup" / "user", "cpu memory pids", "cpu memory pids")
    proc = proc_of(tmp_path, "0::/user\n", MOUNTED_V2)
    cgroups: Cgroups = require_cgroups(proc)
    assert cgroups == Version2(base)
    group = cgroups.create("practicum-1-1", SPEC)
    folder = base / "practicum-1-1"
    assert {name: (folder / name).read_text() for name in ("memory.max", "memory.swap.max")} == {
        "memory.max": str(64 << 20),
        "memory.swap.max": "0",
    }
    assert (folder / "pids.max").read_text() == "8"
    assert (folder / "cpu.max").read_text() == "50000 100000"
    assert (group.procs_files, group.oom_kills()) == ((folder / "cgroup.procs",), 3)
    (folder / "cgroup.procs").write_text("12345678\n")
    assert not group.remove()
    assert not group.kill(timeout_s=0.0)
    assert (folder / "cgroup.kill").read_text() == "1"
    (folder / "cgroup.procs").write_text("")
    assert group.remove()
    assert group.remove()


@pytest.mark.usefixtures("fake_kernel")
def test_version_2_waits_until_all_stand_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = group_folder(tmp_path / "cgroup", "cpu memory pids", "cpu memory pids")
    group = Version2(base).create("practicum-1-1", SPEC)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        (group.folder / "cgroup.events").write_text("populated 1\nfrozen 1\n")

    monkeypatch.setattr(time, "sleep", sleep)
    group.freeze()
    assert (group.folder / "cgroup.freeze").read_text() == "1"
    assert len(slept) == 1
    group.thaw()
    assert (group.folder / "cgroup.freeze").read_text() == "0"


@pytest.mark.usefixtures("fake_kernel")
def test_version_2_goes_up_to_where_controllers_are_handed_on(tmp_path: Path) -> None:
    top = tmp_path / "cgroup"
    group_folder(top, "cpu memory pids", "cpu memory pids")
    slice_ = group_folder(top / "slice", "cpu memory pids", "cpu memory pids")
    group_folder(slice_ / "session", "hugetlb", "")
    proc = proc_of(tmp_path, "0::/slice/session\n", MOUNTED_V2)
    assert require_cgroups(proc) == Version2(slice_)


@pytest.mark.usefixtures("fake_kernel")
def test_version_2_sweeps_the_dead_only(tmp_path: Path) -> None:
    cgroups = Version2(group_folder(tmp_path / "cgroup", "", ""))
    names = [name_for(dead_pid()), name_for(os.getpid()), "practicum-other", "else-1-1"]
    for name in names:
        (cgroups.base / name).mkdir()
    assert cgroups.sweep() == [names[0]]
    assert sorted(entry.name for entry in cgroups.base.iterdir() if entry.is_dir()) == sorted(
        names[1:]
    )


@pytest.mark.usefixtures("fake_kernel")
def test_version_2_turns_controllers_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group_folder(tmp_path / "cgroup", "cpu memory pids", "cpu")
    written: list[str] = []
    monkeypatch.setattr(
        "practicum.sandboxes.cgroups.put",
        lambda path, text: written.append(f"{path.name} {text}"),
    )
    require_cgroups(proc_of(tmp_path, "0::/\n", MOUNTED_V2))
    turned_on = [line for line in written if line.startswith("cgroup.subtree_control")]
    assert turned_on == ["cgroup.subtree_control +memory", "cgroup.subtree_control +pids"]


MOUNTED_V1 = (
    "30 23 0:27 / @/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "31 23 0:28 /docker/ab @/memory rw - cgroup cgroup rw,memory\n"
    "32 23 0:29 / @/pids rw - cgroup cgroup rw,pids\n"
)
OWN_V1 = "4:pids:/\n3:memory:/docker/ab/c\n2:cpu,cpuacct:/x\n0::/\n"


def test_reasons_name_what_is_missing(tmp_path: Path) -> None:
    proc = proc_of(tmp_path, OWN_V1, MOUNTED_V1)
    assert find_cgroups(proc) is None
    assert why_no_cgroups(proc) == "version 2: not mounted; version 1: freezer not mounted"


def test_a_folder_that_takes_no_groups_is_named(tmp_path: Path) -> None:
    mounts = MOUNTED_V1 + "33 23 0:30 / @/freezer rw - cgroup cgroup rw,freezer\n"
    proc = proc_of(tmp_path, OWN_V1 + "1:freezer:/\n", mounts)
    with pytest.raises(CgroupsUnusable, match=r"/memory/c/practicum-\d+-\d+: No such file"):
        require_cgroups(proc)


def test_a_hierarchy_without_the_controllers_is_named(tmp_path: Path) -> None:
    group_folder(tmp_path / "cgroup", "hugetlb", "")
    reason = why_no_cgroups(proc_of(tmp_path, "0::/\n", MOUNTED_V2))
    assert reason is not None
    assert "has no controller memory, pids, cpu" in reason
