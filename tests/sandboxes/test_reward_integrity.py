"""What an agent leaves behind does not change what a checker says about the state."""

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.sandboxes.planted import CHECKER, PLANTED, PYTHON_CHECKER

from practicum.core.capabilities import HoldsStill
from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.bubblewrap.rootfs import cached_root
from practicum.sandboxes.opening import unchecked_sandboxes

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bwrap is not installed"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        cached_root() is None, reason="no root file system; type: practicum sandbox build"
    ),
]

REWRITES = """
import ctypes, os, signal, time
{wakes}
while True:
    try:
        with open("/root/answer", "w") as file:
            file.write("good\\n")
    except OSError:
        pass
"""
WAKES_ITSELF = """
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("kind", ctypes.c_int),
                ("rest", ctypes.c_char * 48)]
libc = ctypes.CDLL(None)
timer = ctypes.c_void_p()
event = Event(None, signal.SIGCONT, 0)
assert libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer)) == 0
often = (ctypes.c_long * 4)(0, 1_000_000, 0, 1_000_000)
assert libc.timer_settime(timer, 0, often, None) == 0
"""
KILLS_OTHERS = """
import os
{wakes}
own = os.getpid()
while True:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (1, own):
            try:
                os.kill(int(name), {number})
            except OSError:
                pass
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandboxes() -> AsyncIterator[Sandboxes]:
    made = unchecked_sandboxes("bubblewrap", lambda line: None)
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def box(sandboxes: Sandboxes) -> AsyncIterator[Sandbox]:
    made = await sandboxes.open(
        SandboxSpec(profile="machine", memory_mb=256, disk_mb=64, processes=64)
    )
    yield made
    await made.close()


async def verdicts(box: Sandbox) -> list[CommandResult]:
    return [
        await box.judge(["bash", "-c", CHECKER], timeout_s=120),
        await box.judge(["python3", "-"], timeout_s=120, stdin=PYTHON_CHECKER.encode()),
        await box.judge(["python3", "-I", "-S", "-"], timeout_s=120, stdin=PYTHON_CHECKER.encode()),
    ]


def outcomes(found: list[CommandResult]) -> list[tuple[str, int | None]]:
    return [(result.status, result.exit_code) for result in found]


BREAKING = [name for name, script in PLANTED.items() if "VERDICT" in script or "rm -rf" in script]
ALL_BAD = [("ok", 1)] * 3
ALL_GOOD = [("ok", 0)] * 3


@pytest.mark.parametrize("name", PLANTED)
async def test_a_verdict_follows_the_state(box: Sandbox, name: str) -> None:
    await box.write("/root/answer", b"bad.\n")
    await box.run(["bash", "-c", PLANTED[name].replace("VERDICT", "0")], timeout_s=120)
    found = await verdicts(box)
    assert outcomes(found) == ALL_BAD, found


@pytest.mark.parametrize("name", BREAKING)
async def test_a_good_state_stays_good(box: Sandbox, name: str) -> None:
    await box.write("/root/answer", b"good\n")
    await box.run(["bash", "-c", PLANTED[name].replace("VERDICT", "1")], timeout_s=120)
    found = await verdicts(box)
    assert outcomes(found) == ALL_GOOD, found


PLANTS = """
import os
os.mkdir("/evil")
with open("/evil/shim", "w") as file:
    file.write("#!/evil/sh\\nexit 0\\n")
os.chmod("/evil/shim", 0o755)
for folder in "PLACES".split():
    for name in NAMES:
        if not os.path.lexists(folder + "/" + name):
            os.link("/evil/shim", folder + "/" + name)
"""
LOOKS_UP = """
import os, shutil
os.environ["PATH"] = "PLACES"
for name in NAMES:
    with open(shutil.which(name), "rb") as file:
        assert b"/evil" not in file.read(100), name
"""


async def test_a_name_of_the_systems_programs_means_that_program_in_every_path(
    box: Sandbox,
) -> None:
    """Shims of all names in all folders; checkers with the PATH of root, of sudo, of a user."""
    folders = "/usr/local/sbin /usr/local/bin /usr/sbin /usr/bin"
    listed = await box.run(["bash", "-c", "cd /usr/bin; echo *; cd /usr/sbin; echo *"], timeout_s=5)
    names = listed.stdout.split()
    planted = await box.run(
        ["python3", "-c", PLANTS.replace("PLACES", folders).replace("NAMES", repr(names))],
        timeout_s=30,
    )
    assert planted.exit_code == 0
    for places in (folders.split(), folders.split()[::-1]):
        program = LOOKS_UP.replace("PLACES", ":".join(places)).replace("NAMES", repr(names))
        judged = await box.judge(["python3", "-c", program], timeout_s=30)
        assert judged.exit_code == 0, judged


async def test_programs_of_new_names_stay(box: Sandbox) -> None:
    script = "printf '#!/bin/sh\necho hello\n' > {0}/hello-1; chmod 755 {0}/hello-1"
    for folder in ("/usr/local/bin", "/usr/bin", "/usr/sbin"):
        await box.run(["bash", "-c", script.format(folder)], timeout_s=5)
        judged = await box.judge(["bash", "-c", f"hello-1; {folder}/hello-1"], timeout_s=5)
        assert judged.stdout == "hello\nhello\n"


INSPECTS = """
import os, sys
def main():
    print(os.path.exists("/root/answer"), os.getuid(), sorted(os.environ))
    try:
        import colorsys
    except ImportError:
        print("loads nothing")
if __name__ == "__main__":
    main()
"""


async def test_an_inspection_starts_and_loads_nothing_of_the_machine(box: Sandbox) -> None:
    await box.write("/root/answer", b"good\n")
    await box.run(["bash", "-c", "rm -rf /usr /lib /lib64 /bin /sbin"], timeout_s=15)
    found = await box.inspect(INSPECTS.encode(), timeout_s=15)
    assert (found.status, found.exit_code) == (CommandStatus.OK, 0), found
    assert found.stdout.startswith("True 0")
    assert found.stdout.endswith("loads nothing\n")


async def test_an_inspection_that_fails_says_why(box: Sandbox) -> None:
    failing = await box.inspect(b"def main():\n    raise KeyError('no such kind')\n", timeout_s=15)
    assert (failing.status, failing.exit_code) == (CommandStatus.OK, 1)
    assert "KeyError: 'no such kind'" in failing.stderr
    unreadable = await box.inspect(b"def main(:\n", timeout_s=15)
    assert unreadable.status is CommandStatus.DENIED
    endless = await box.inspect(b"def main():\n    while True: pass\n", timeout_s=0.5)
    assert endless.status is CommandStatus.TIMEOUT


SUDOERS = (
    ("Defaults secure_path=/evil", False),
    ("Defaults\tenv_reset, secure\\\n_path=/evil", False),
    ("  Defaults:ALL group_plugin=/evil/x.so", False),
    ("@include /evil/sudoers", False),
    ("ada ALL=(ALL) NOPASSWD: ALL", True),
    ("Defaults logfile=/var/log/sudo.log", True),
)


@pytest.mark.parametrize(("line", "stays"), SUDOERS)
async def test_sudo_has_the_systems_programs_and_the_rules_of_the_task(
    box: Sandbox, line: str, stays: bool
) -> None:
    for file in ("/etc/sudoers", "/etc/sudoers.d/own"):
        before = await box.read(file) if file == "/etc/sudoers" else b""
        await box.write(file, before + line.encode() + b"\n")
        found = await box.judge(["cat", file], timeout_s=5)
        words = line.replace("\\\n", "").strip()
        assert (words in found.stdout.replace("\\\n", "")) == stays
        assert before.decode().strip() in found.stdout


async def test_the_checkers_can_be_led_astray_where_nothing_protects_them(box: Sandbox) -> None:
    await box.write("/root/answer", b"bad.\n")
    planted = PLANTED["the system's programs replaced"].replace("VERDICT", "0")
    await box.run(["bash", "-c", planted], timeout_s=120)
    astray = await box.run(["bash", "-c", "grep -qx good /root/answer"], timeout_s=120)
    assert (astray.status, astray.exit_code) == (CommandStatus.OK, 0)


@pytest.mark.parametrize("wakes", ["", WAKES_ITSELF], ids=["plain", "woken by a timer"])
async def test_nothing_changes_under_a_checker(box: Sandbox, wakes: str) -> None:
    program = REWRITES.format(wakes=wakes)
    await box.write("/root/rewrites.py", program.encode())
    started = await box.run(
        ["bash", "-c", "setsid python3 -I -S /root/rewrites.py </dev/null >/dev/null 2>&1 &"],
        timeout_s=120,
    )
    assert started.exit_code == 0
    await asyncio.sleep(0.3)
    await box.run(["bash", "-c", "pgrep -f rewrites.py"], timeout_s=120)
    looks = (
        "for i in $(seq 100); do rm -f /root/answer; test -e /root/answer && exit 7; done; exit 0"
    )
    for _ in range(2):
        judged = await box.judge(["bash", "-c", looks], timeout_s=120)
        assert (judged.status, judged.exit_code) == (CommandStatus.OK, 0), judged
    again = "until ls /root/answer; do sleep 0.02; done"
    lives_on = await box.run(["bash", "-c", again], timeout_s=120)
    assert lives_on.exit_code == 0, "it goes on afterwards"


@pytest.mark.parametrize("number", [9, 19], ids=["kills", "stops"])
@pytest.mark.parametrize("wakes", ["", WAKES_ITSELF], ids=["plain", "woken by a timer"])
async def test_nobody_ends_a_checker(box: Sandbox, wakes: str, number: int) -> None:
    await box.write("/root/answer", b"good\n")
    program = KILLS_OTHERS.format(wakes=wakes and f"import ctypes, signal\n{wakes}", number=number)
    await box.write("/root/kills.py", program.encode())
    await box.run(
        ["bash", "-c", "setsid python3 -I -S /root/kills.py </dev/null >/dev/null 2>&1 &"],
        timeout_s=120,
    )
    await asyncio.sleep(0.3)
    found = await verdicts(box)
    assert outcomes(found) == ALL_GOOD, found


TAKES_ALL_PROCESSES = """
import os, time
def refill():
    while True:
        try:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
        except OSError:
            time.sleep({pause})
if os.fork() == 0:
    os.setsid()
    for fd in range(3):
        os.close(fd)
    refill()
time.sleep(0.5)
"""


@pytest.mark.parametrize("pause", [0.0, 60.0], ids=["again and again", "once"])
async def test_whoever_uses_up_all_processes_does_not_decide(box: Sandbox, pause: float) -> None:
    program = TAKES_ALL_PROCESSES.format(pause=pause)
    await box.run(["python3", "-I", "-S", "-c", program], timeout_s=120)
    await box.write("/root/answer", b"bad.\n")
    await box.run(["python3", "-I", "-S", "-c", program], timeout_s=120)
    assert outcomes(await verdicts(box)) == ALL_BAD
    await box.run(["python3", "-I", "-S", "-c", program], timeout_s=120)
    await box.write("/root/answer", b"good\n")
    assert outcomes(await verdicts(box)) == ALL_GOOD


async def test_a_job_that_was_stopped_stays_stopped(box: Sandbox) -> None:
    await box.run(["bash", "-c", "sleep 60 & echo $! > /root/pid; kill -STOP $!"], timeout_s=120)
    state = ["bash", "-c", "cut -d' ' -f3 /proc/$(cat /root/pid)/stat"]
    before = await box.run(state, timeout_s=120)
    await box.judge(["true"], timeout_s=120)
    await box.read("/root/pid")
    await asyncio.sleep(0.1)
    after = await box.run(state, timeout_s=120)
    assert before.stdout == after.stdout == "T\n"


async def test_a_checker_leaves_no_trace_to_the_agent(box: Sandbox) -> None:
    secret = "the-expected-answer"
    await box.judge(["bash", "-c", f": {secret}; cat"], timeout_s=120, stdin=secret.encode())
    look = (
        f"grep -rqs {secret[:-1]}[r] /root /tmp /run /var /etc /mnt && echo file; "
        f"cat /proc/*/cmdline /proc/*/environ 2>/dev/null | grep -c {secret[:-1]}[r]"
    )
    seen = await box.run(["bash", "-c", look], timeout_s=120)
    assert seen.stdout == "0\n"


async def test_a_checker_that_crashes_is_told_from_one_that_says_no(box: Sandbox) -> None:
    killed = await box.judge(["bash", "-c", "kill -SEGV $$"], timeout_s=120)
    missing = await box.judge(["no-such-checker"], timeout_s=120)
    late = await box.judge(["sleep", "9"], timeout_s=0.3)
    assert [killed.status, missing.status, late.status] == [
        CommandStatus.KILLED,
        CommandStatus.DENIED,
        CommandStatus.TIMEOUT,
    ]


@pytest.mark.parametrize("wakes", ["", WAKES_ITSELF], ids=["plain", "wakes itself"])
async def test_what_is_held_for_good_never_runs_again_and_checkers_do(
    box: Sandbox, wakes: str
) -> None:
    assert isinstance(box, HoldsStill)
    program = REWRITES.format(wakes=wakes)
    start = 'setsid python3 -c "$0" </dev/null >/dev/null 2>&1 & until [ -s answer ]; do :; done'
    await box.run(["bash", "-c", start, program], timeout_s=20, cwd="/root")
    await box.hold()
    await box.write("/root/answer", b"bad.\n")
    for _ in range(3):
        assert outcomes(await verdicts(box)) == ALL_BAD
    assert await box.read("/root/answer") == b"bad.\n"
    await box.hold()
    assert (await box.run(["echo", "on"], timeout_s=5)).stdout == "on\n"
