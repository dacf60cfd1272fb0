"""None of the attacks gets out, whoever starts the sandbox; without one, they work."""

import asyncio
import ctypes
import functools
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sandboxes.host import ATTACKS, PATIENCE_S, Host, NothingToTry, Unconfined
from tests.sandboxes.run_attacks import LISTS, launchers_of

import practicum
from practicum.core.command import CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.bubblewrap.rootfs import cached_root
from practicum.sandboxes.bubblewrap.user_namespaces import granted_range
from practicum.sandboxes.cgroups import find_cgroups
from practicum.sandboxes.opening import unchecked_sandboxes

REPOSITORY = Path(__file__).parents[2]
SOURCES = [Path(practicum.__file__).parents[1], REPOSITORY, Path(np.__file__).parents[1]]
NAMELESS = 54_321
"""A user that no one is, for machines where none is named for the tests."""
USER_VARIABLE = "PRACTICUM_TEST_USER"
LIMIT_S = 1200
SUBREAPER = 36
A_LAUNCHER_AND_THREE_AT_WORK = 7

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed")
libc = ctypes.CDLL(None, use_errno=True)


def ordinary_user() -> tuple[int, int, str | None]:
    """Who attacks as an ordinary user: uid, gid and name."""
    if os.geteuid() != 0:
        names = [user.pw_name for user in pwd.getpwall() if user.pw_uid == os.geteuid()]
        return os.geteuid(), os.getegid(), names[0] if names else None
    name = os.environ.get(USER_VARIABLE)
    if name is None:
        return NAMELESS, NAMELESS, None
    found = pwd.getpwnam(name)
    return found.pw_uid, found.pw_gid, name


def why_not(starter: str, profile: str) -> str | None:
    """Why these sandboxes cannot be attacked here; None when they can."""
    if starter == "root":
        if os.geteuid() != 0:
            return "the tests do not run as root"
        has_root = cached_root() is not None
        return None if profile == "code" or has_root else "no root file system of machines is built"
    if profile == "code":
        return None
    uid, _, name = ordinary_user()
    if os.geteuid() == 0 and name is None:
        return f"an ordinary user with granted ids must be named in {USER_VARIABLE}"
    if granted_range("subuid", name or "", uid) is None:
        return f"user {uid} has no range of ids in /etc/subuid"
    built = list(Path(f"/var/tmp/practicum-{uid}").glob("root-*/ready"))
    return None if built else f"no root file system of machines is built for user {uid}"


@functools.cache
def interpreter_for(uid: int, gid: int) -> str | None:
    """A Python that the user may run and that can import what the attacks need."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            done = subprocess.run(
                [python, "-c", "import practicum.sandboxes, tests.sandboxes.host"],
                env=environment(),
                cwd="/",
                capture_output=True,
                check=False,
                **as_user(uid, gid),
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def environment() -> dict[str, str]:
    path = os.pathsep.join(map(str, SOURCES))
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def as_user(uid: int, gid: int) -> dict[str, Any]:
    if os.geteuid() == uid:
        return {}
    return {"user": uid, "group": gid, "extra_groups": []}


def children_below(top: int) -> set[int]:
    """Every living process that descends from one."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            parents[int(path.parent.name)] = int(fields[1])
    found, grown = {top}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {top}


def bury_orphans(before: set[int]) -> None:
    """What ended below us and has no parent left but us."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            is_ours = fields[0] == "Z" and int(fields[1]) == os.getpid()
            if is_ours and int(path.parent.name) not in before:
                os.waitpid(int(path.parent.name), os.WNOHANG)
        except (OSError, ChildProcessError):
            continue


def groups_of(launchers: list[int]) -> list[str]:
    """Control groups that the launchers made and left."""
    return [
        str(path)
        for launcher in launchers
        for path in Path("/sys/fs/cgroup").glob(f"**/practicum-{launcher}-*")
    ]


def mounts() -> set[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return {line for line in lines if any(w in line for w in ("practicum", "overlay", "bwrap"))}


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    """Orphans come to this process, so what is left running below it is what was left behind."""
    libc.prctl(SUBREAPER, 1, 0, 0, 0)
    running, mounted = children_below(os.getpid()), mounts()
    yield
    left = {pid: name_of(pid) for pid in wait_until_childless(running)}
    bury_orphans(running)
    libc.prctl(SUBREAPER, 0, 0, 0, 0)
    assert not left
    assert mounts() <= mounted


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return "gone"


@functools.cache
def outcome(starter: str, profile: str) -> dict[str, Any]:
    """Every attack on sandboxes that one user starts; run once, looked at by many tests."""
    uid, gid = (0, 0) if starter == "root" else ordinary_user()[:2]
    python = interpreter_for(uid, gid)
    if python is None:
        return {"skip": f"user {uid} cannot run a Python that finds these tests"}
    done = subprocess.run(
        [python, "-m", "tests.sandboxes.run_attacks", profile],
        env=environment(),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        **as_user(uid, gid),
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["uid"] == uid
    return found


@pytest.fixture(params=["root", "user"])
def starter(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["code", "machine"])
def profile(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def required(starter: str, profile: str) -> dict[str, Any]:
    reason = why_not(starter, profile)
    if reason is not None:
        pytest.skip(reason)
    found = outcome(starter, profile)
    if "skip" in found:
        pytest.skip(found["skip"])
    return found


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_gets_nowhere(starter: str, profile: str, name: str) -> None:
    found = required(starter, profile)["attacks"][name]
    if found["skip"] is not None:
        pytest.skip(found["skip"])
    assert found["seen"] == ""
    assert all(status in set(CommandStatus) for status in found["statuses"])


def test_no_control_group_is_left(starter: str, profile: str) -> None:
    found = required(starter, profile)
    assert found["launchers"]
    assert groups_of(found["launchers"]) == []


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 28
    assert {attack.tried.__module__ for attack in ATTACKS.values()} == {
        module.__name__ for module in LISTS
    }


@pytest.mark.parametrize("name", [a.name for a in ATTACKS.values() if a.control != "none"])
async def test_an_attack_succeeds_where_nothing_stops_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ATTACKS[name].control == "root" and os.geteuid() != 0:
        pytest.skip("only root can show it")
    with Host() as host:
        monkeypatch.setenv("ATTACKED_SECRET", host.secret)
        attacker = Unconfined({**os.environ})
        try:
            assert await ATTACKS[name].tried(attacker, host) != ""
        except NothingToTry as reason:
            pytest.skip(str(reason))


OWNER = """
import asyncio, sys
from practicum.core.command import SandboxSpec
from practicum.sandboxes.opening import unchecked_sandboxes
from tests.sandboxes.run_attacks import launchers_of
import os

async def hold():
    sandboxes = unchecked_sandboxes("bubblewrap", lambda line: None)
    for number in range(3):
        box = await sandboxes.open(SandboxSpec(profile=sys.argv[1]))
        if sys.argv[1] == "machine":
            jobs = "setsid sleep 600 & (setsid yes > /dev/null &)"
            await box.run(["bash", "-c", jobs], timeout_s=99)
        else:
            asyncio.get_running_loop().create_task(box.run(["sleep", "600"], timeout_s=700))
    await asyncio.sleep(0)
    print(launchers_of(os.getpid())[0], flush=True)
    await asyncio.sleep(600)

asyncio.run(hold())
"""


def owner_of_three(profile: str) -> tuple["subprocess.Popen[str]", int]:
    """A process with three sandboxes that work, and its launcher."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, profile],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    assert owner.stdout is not None
    launcher = int(owner.stdout.readline())
    owner.stdout.close()
    until = time.monotonic() + PATIENCE_S
    while len(children_below(owner.pid)) < A_LAUNCHER_AND_THREE_AT_WORK:
        assert time.monotonic() < until, "it has a launcher, and sandboxes that work"
        time.sleep(0.05)
    return owner, launcher


def skip_unless_possible(profile: str) -> None:
    reason = why_not("root" if os.geteuid() == 0 else "user", profile)
    if reason is not None:
        pytest.skip(reason)


def wait_until_childless(before: set[int], within_s: float = PATIENCE_S) -> set[int]:
    until = time.monotonic() + within_s
    while (left := children_below(os.getpid()) - before) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def test_nothing_outlives_an_owner_that_was_killed(profile: str) -> None:
    skip_unless_possible(profile)
    before = children_below(os.getpid())
    owner, launcher = owner_of_three(profile)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert wait_until_childless(before) == set()
    assert groups_of([launcher]) == []


def test_nothing_outlives_a_launcher_that_was_killed(profile: str) -> None:
    skip_unless_possible(profile)
    before = children_below(os.getpid())
    owner, launcher = owner_of_three(profile)
    os.kill(launcher, signal.SIGKILL)
    try:
        assert wait_until_childless(before | {owner.pid}) == set()
    finally:
        owner.kill()
        owner.wait()
    assert wait_until_childless(before) == set()
    bury_orphans(before)
    cgroups = find_cgroups()
    if cgroups is not None:
        cgroups.sweep()  # as the next launcher does when it starts
    assert groups_of([launcher]) == []


async def test_a_launcher_that_was_killed_is_replaced() -> None:

    sandboxes = unchecked_sandboxes("bubblewrap", lambda line: None)
    try:
        box = await sandboxes.open(SandboxSpec())
        running = asyncio.create_task(box.run(["sleep", "600"], timeout_s=600))
        await asyncio.sleep(0.2)
        (launcher,) = launchers_of(os.getpid())
        os.kill(launcher, signal.SIGKILL)
        assert (await running).status is CommandStatus.DIED
        assert (await box.run(["true"], timeout_s=PATIENCE_S)).status is CommandStatus.DIED
        with pytest.raises(EnvironmentFailure):
            await box.read("/etc/passwd")
        await box.close()
        try:
            fresh = await sandboxes.open(SandboxSpec())
        except EnvironmentFailure:  # the line was found dead, and a new one is made next
            fresh = await sandboxes.open(SandboxSpec())
        assert (await fresh.run(["true"], timeout_s=PATIENCE_S)).exit_code == 0
        assert groups_of([launcher]) == [], "the new launcher swept what the old one left"
    finally:
        await sandboxes.close()
