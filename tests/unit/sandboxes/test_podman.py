"""The same contract with a real podman, where there is one and an image to use is named.

PRACTICUM_TEST_PODMAN_IMAGE names a local image with bash and python3;
PRACTICUM_TEST_PODMAN_OPTIONS may hold options of the client, such as `--runtime=runc`.
"""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys

import pytest

from practicum.core.command import CommandStatus, SandboxProfile, SandboxSpec
from practicum.sandboxes.containers import ContainerSandboxes

IMAGE = os.environ.get("PRACTICUM_TEST_PODMAN_IMAGE", "")
OPTIONS = shlex.split(os.environ.get("PRACTICUM_TEST_PODMAN_OPTIONS", ""))
pytestmark = pytest.mark.skipif(
    not IMAGE or shutil.which("podman") is None,
    reason="no podman, or PRACTICUM_TEST_PODMAN_IMAGE is not set",
)


def podman() -> ContainerSandboxes:
    return ContainerSandboxes("podman", image=IMAGE, options=OPTIONS, limits_disk=False)


def containers() -> list[str]:
    command = ["podman", *OPTIONS, "ps", "--all", "--format", "{{.Names}}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("profile", ["code", "machine"])
async def test_commands_limits_and_files(profile: SandboxProfile) -> None:
    sandboxes = podman()
    box = await sandboxes.open(SandboxSpec(profile=profile, memory_mb=96))
    done = await box.run(["bash", "-c", "cat; exit 3"], timeout_s=120, stdin=b"in")
    assert (done.status, done.exit_code, done.stdout) == (CommandStatus.OK, 3, "in")
    late = await box.run(["bash", "-c", "setsid sleep 99 & sleep 99"], timeout_s=1)
    assert late.status is CommandStatus.TIMEOUT
    left = await box.run(
        ["bash", "-c", "cat /proc/[0-9]*/cmdline | grep -ac sleep.99"], timeout_s=120
    )
    assert int(left.stdout) <= 1  # the one that looks
    eats = "held = bytearray(1 << 30)"
    assert (await box.run(["python3", "-c", eats], timeout_s=120)).status is CommandStatus.OOM
    assert (await box.run(["no-such-program"], timeout_s=120)).status is CommandStatus.DENIED
    await box.write("a/file", b"\x00content")
    assert await box.read("a/file") == b"\x00content"
    assert (await box.judge(["true"], timeout_s=120)).exit_code == 0
    await sandboxes.close()


async def test_a_changed_program_breaks_the_machine() -> None:
    sandboxes = podman()
    box = await sandboxes.open(SandboxSpec(profile="machine"))
    assert (await box.judge(["id"], timeout_s=120)).exit_code == 0
    await box.run(["bash", "-c", "useradd bob; cp /bin/true /usr/bin/id"], timeout_s=120)
    judged = await box.judge(["id"], timeout_s=120)
    assert judged.status is CommandStatus.BROKEN
    assert "was changed" in judged.stderr
    await sandboxes.close()


OWNER = """
import asyncio, sys
from practicum.core.command import SandboxSpec
from practicum.sandboxes.containers import ContainerSandboxes
async def main():
    sandboxes = ContainerSandboxes("podman", image=sys.argv[1], options=sys.argv[2:])
    box = await sandboxes.open(SandboxSpec())
    print("open", flush=True)
    await box.run(["sleep", "60"], timeout_s=60)
asyncio.run(main())
"""


async def test_a_container_ends_with_its_owner() -> None:
    command = [sys.executable, "-c", OWNER, IMAGE, *OPTIONS]
    owner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "open\n"
    assert any(name.startswith(f"practicum-{owner.pid}-") for name in containers())
    owner.kill()
    owner.wait()
    owner.stdout.close()
    for _ in range(1200):
        if not any(name.startswith(f"practicum-{owner.pid}-") for name in containers()):
            return
        await asyncio.sleep(0.1)
    pytest.fail("the container outlived its owner")
