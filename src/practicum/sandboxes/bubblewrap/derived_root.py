"""Systems of their own for machines: that of all machines, more packages, and what steps changed.

The steps run in a machine, so that nothing they do reaches the host. What they changed leaves it as
an archive and is unpacked over a copy of hard links, in a folder that only its owner can enter: its
files may be setuid.
"""

import asyncio
import os
import shutil
import socket
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from practicum.core.cache_folder import sandbox_cache_root
from practicum.core.capabilities import ServesPorts
from practicum.core.command import CommandStatus, SystemRecipe
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.bubblewrap.rootfs import (
    READY,
    alone,
    granted_ids,
    in_namespace,
    remove_root,
)

KEPT_OUT = ("dev", "proc", "sys")
"""Mounted anew in each machine."""
PACKING_S = 900.0
ARCHIVE_BYTES = 16 << 30
PIECE = 1 << 20
LIST = r"""
import os, sys
shown = set(sys.argv[1:])
def names():
    for folder, folders, files in os.walk(b"/"):
        folders[:] = [one for one in folders if os.fsdecode(os.path.join(folder, one)) not in shown]
        yield from (os.path.join(folder, one) for one in (*folders, *files))
"""
"""Walks the machine, but for the folders named as arguments."""
BEFORE = (
    LIST
    + r"""
with open("/run/.before", "wb") as file:
    file.write(b"\0".join(names()))
print(os.lstat("/run/.before").st_ctime_ns)
"""
)
AFTER = (
    LIST
    + r"""
import socket, tarfile
head = sys.stdin.buffer.readline().split()
port, since = int(head[0]), int(head[1])
before = set(sys.stdin.buffer.read().split(b"\0"))
now = set(names())
with socket.create_connection(("127.0.0.1", port)) as host, host.makefile("wb") as out:
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(now):
            seen = os.lstat(path)
            if path not in before or seen.st_ctime_ns >= since:
                tar.add(os.fsdecode(path), recursive=False)
gone = sorted(before - now)
tops = [one for one in gone if os.path.dirname(one) not in before or os.path.dirname(one) in now]
sys.stdout.buffer.write(b"\0".join(tops))
"""
)
"""Sends what changed to the host; prints what was removed."""


def derived_root(digest: str) -> Path | None:
    """The root file system of a recipe's digest; None where it has not been made."""
    folder = _folder(digest)
    return folder / "root" if (folder / READY).exists() else None


def _folder(digest: str) -> Path:
    if not digest.isalnum():
        raise ValueError(f"{digest!r} is no digest")
    return sandbox_cache_root() / f"system-{digest}"


async def derive_root(
    recipe: SystemRecipe, base: Path, sandboxes: Sandboxes, say: Callable[[str], None]
) -> Path:
    """Make the system of a recipe from `base`, in machines that have this; unless it is there."""
    async with _alone(recipe.digest):
        found = derived_root(recipe.digest)
        if found is not None:
            return found
        say(f"Making the system {recipe.digest}, once")
        with tempfile.TemporaryDirectory(prefix="practicum-", dir="/var/tmp") as folder:
            changes = Path(folder) / "changes.tar"
            box = await sandboxes.open(recipe.spec)
            try:
                shown = [place for _, place in recipe.spec.shown]
                gone = await _changed(box, recipe, shown, changes)
            finally:
                await box.close()
            await asyncio.to_thread(_unpack, base, _folder(recipe.digest), changes, gone)
    return _folder(recipe.digest) / "root"


@asynccontextmanager
async def _alone(digest: str) -> AsyncIterator[None]:
    """Wait until no other process makes this system."""
    folder = sandbox_cache_root() / "making" / digest
    folder.mkdir(parents=True, exist_ok=True)
    held = alone(folder)
    await asyncio.to_thread(held.__enter__)
    try:
        yield
    finally:
        held.__exit__(None, None, None)


async def _changed(box: Sandbox, recipe: SystemRecipe, shown: list[str], archive: Path) -> bytes:
    """Prepare the machine; its changes are in the archive, and what was removed is returned."""
    apart = [*(f"/{name}" for name in KEPT_OUT), *shown]
    began = await _program(box, BEFORE, apart, b"")
    before = b"".join([piece async for piece in _pieces(box, "/run/.before")])
    await box.run(("rm", "/run/.before"), timeout_s=60)
    await recipe.prepare(box)
    if not isinstance(box, ServesPorts):
        raise UserError(f"a {box.kind} sandbox makes no systems; write env.sandbox=bubblewrap")
    [listener] = await box.listen([0])
    with listener, archive.open("wb") as file:
        port = listener.getsockname()[1]
        receiving = asyncio.create_task(asyncio.to_thread(_receive, listener, file))
        try:
            head = f"{port} {began.strip()}\n".encode()
            gone = await _program(box, AFTER, apart, head + before)
            await receiving
        except BaseException:
            listener.close()
            receiving.cancel()
            raise
    return os.fsencode(gone)


async def _program(box: Sandbox, program: str, words: list[str], stdin: bytes) -> str:
    command = ("/usr/bin/python3", "-I", "-c", program, *words)
    done = await box.run(command, timeout_s=PACKING_S, stdin=stdin)
    if done.status is not CommandStatus.OK or done.exit_code != 0:
        why = done.stderr.strip().rpartition("\n")[2][-300:] or done.status.value
        raise EnvironmentFailure(f"what the steps changed cannot be told: {why}")
    return done.stdout


async def _pieces(box: Sandbox, path: str) -> AsyncIterator[bytes]:
    yield await box.read(path, 12 << 20)


def _receive(listener: socket.socket, file: BinaryIO) -> None:
    """Take one connection's bytes; a machine that sends none is not waited for without end."""
    until = time.monotonic() + PACKING_S
    listener.settimeout(PACKING_S)
    connection, _ = listener.accept()
    taken = 0
    with connection:
        connection.settimeout(PACKING_S)
        while piece := connection.recv(PIECE):
            taken += len(piece)
            if taken > ARCHIVE_BYTES or time.monotonic() > until:
                raise EnvironmentFailure("the steps changed more than a system may have")
            file.write(piece)


def _unpack(base: Path, folder: Path, changes: Path, gone: bytes) -> None:
    """Copy the base by hard links, apply the changes, and give the folder its name."""
    granted = granted_ids()
    assert granted is not None, "the base could not have been built"
    with tarfile.open(changes) as tar:
        odd = next((one.name for one in tar if one.ischr() or one.isblk()), None)
    if odd is not None:
        raise EnvironmentFailure(f"the steps made a device, {odd}, which no machine may have")
    fresh = folder.with_name(f"{folder.name}.new")
    for old in (fresh, folder):
        if old.exists():
            remove_root(old, granted)
    fresh.mkdir(mode=0o755)
    os.chmod(fresh, 0o777 if os.geteuid() else 0o700)
    copy = ["cp", "-al", str(base), str(fresh / "root")]
    in_namespace(granted, copy, None)
    # In the new root: a link that the steps made must not lead out of it.
    inside = ["chroot", str(fresh / "root")]
    with tempfile.TemporaryFile() as names:
        names.write(gone)
        names.seek(0)
        in_namespace(granted, [*inside, "/usr/bin/xargs", "-0r", "/bin/rm", "-rf", "--"], names)
    with changes.open("rb") as file:
        unpack = ["/bin/tar", "-x", "--numeric-owner", "--same-permissions", "-C", "/"]
        in_namespace(granted, [*inside, *unpack], file)
    os.chmod(fresh, 0o755 if os.geteuid() else 0o700)
    (fresh / READY).touch()
    if folder.exists():
        shutil.rmtree(folder)
    fresh.rename(folder)
