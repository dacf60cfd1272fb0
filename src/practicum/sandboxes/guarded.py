"""Sandboxes that a guardian process looks after, seen from the host."""

import asyncio
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from practicum.core.command import SandboxSpec
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.cgroups import find_cgroups
from practicum.sandboxes.guardian import FOLDER_PREFIX
from practicum.sandboxes.served import ServedSandbox

__all__ = ["GuardedSandboxes", "sweep_folders"]

GUARDIAN = "practicum.sandboxes.guardian"
HELLO_LIMIT = 65_536
LEAVE_S = 15.0
OWNED = re.compile(re.escape(FOLDER_PREFIX) + r"(\d+)-.+")


class GuardedSandboxes:
    """Starts a guardian for each sandbox; `code` only, since there is one root for all.

    Commands run in a folder of their own, whose path on the host is their home: name files in it
    by relative paths.
    """

    def __init__(self, kind: str, *, confines: bool) -> None:
        self._kind = kind
        self._confines = confines
        self._open: set[ServedSandbox] = set()
        self._has_swept = False

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return self._kind

    async def open(self, spec: SandboxSpec) -> ServedSandbox:
        """See `core.interfaces.Sandboxes`."""
        if spec.profile != "code":
            raise UserError(
                f"sandboxes of kind {self._kind!r} have no profile {spec.profile!r}; "
                "they have only 'code'; for machines set the kind to bubblewrap, docker or podman"
            )
        if not self._has_swept:
            self._has_swept = True
            await asyncio.to_thread(_sweep)
        ours, theirs = socket.socketpair()
        with theirs:
            guardian = self._started(spec, theirs.fileno())
        try:
            told = await asyncio.to_thread(_hello, guardian)
        except BaseException:
            ours.close()
            await asyncio.to_thread(_wait_for, guardian)
            raise
        ours.setblocking(False)

        async def leave() -> None:
            self._open.discard(box)
            await asyncio.to_thread(_wait_for, guardian)

        box = ServedSandbox(
            ours,
            kind=self._kind,
            home=told["folder"],
            output_bytes=spec.output_bytes,
            oom_file=told["oom_file"],
            on_close=leave,
        )
        self._open.add(box)
        try:
            await box.wait_until_ready()
        except BaseException:
            await box.close()
            raise
        return box

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        await asyncio.gather(*(box.close() for box in tuple(self._open)))

    def _started(self, spec: SandboxSpec, fd: int) -> subprocess.Popen[bytes]:
        words = [str(fd), json.dumps(asdict(spec)), "confined" if self._confines else "open"]
        return subprocess.Popen(
            [sys.executable, "-m", GUARDIAN, *words],
            pass_fds=[fd],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # No variable of the host: what a guardian starts has its user's eyes, or better.
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "TMPDIR": tempfile.gettempdir(),
            },
            start_new_session=True,
        )


def _hello(guardian: subprocess.Popen[bytes]) -> dict[str, str]:
    """The guardian's first line; `EnvironmentFailure` with its reason when there is no sandbox."""
    assert guardian.stdout is not None
    with guardian.stdout as stdout:
        line = stdout.readline(HELLO_LIMIT)
    if not line:
        raise EnvironmentFailure("the process that looks after a sandbox ended at once")
    told: dict[str, str] = json.loads(line)
    if "failed" in told:
        raise EnvironmentFailure(f"no sandbox: {told['failed']}")
    return told


def _wait_for(guardian: subprocess.Popen[bytes]) -> None:
    """It leaves when its connection closes, and takes everything with it."""
    try:
        guardian.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        guardian.kill()
        guardian.wait()


def _sweep() -> None:
    cgroups = find_cgroups()
    if cgroups is not None:
        cgroups.sweep()
    sweep_folders(Path(tempfile.gettempdir()))


def sweep_folders(place: Path) -> list[str]:
    """Remove the folders that guardians who were killed left behind; their names.

    Only real folders of our own: anyone may put a link of such a name where all may write.
    """
    swept: list[str] = []
    for entry in place.iterdir():
        match = OWNED.fullmatch(entry.name)
        if match is None or Path(f"/proc/{match[1]}").exists():
            continue
        with suppress(OSError):
            known = entry.lstat()
            if stat.S_ISDIR(known.st_mode) and known.st_uid == os.geteuid():
                shutil.rmtree(entry, ignore_errors=True)
                swept.append(entry.name)
    return sorted(swept)
