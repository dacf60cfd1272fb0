"""`Companies`: opens companies from seeds, for the environment; `OpenCompany` is one of them.

Snapshots are built once for each seed and kept in a folder that is removed at the end.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from practicum.core.errors import EnvironmentFailure
from practicum_envs.office.build_company import build_company
from practicum_envs.office.company_process import DOOR, send_sockets
from practicum_envs.office.company_seed import CompanySeed
from practicum_envs.office.company_state import COLLEAGUE_FAULTS, FAULTS, STATE
from practicum_envs.office.folders import remove_folder
from practicum_envs.office.office_client import Office
from practicum_envs.office.services.web_server import CUT_OFF, HOLD

PROCESS = "practicum_envs.office.company_process"
READY_S = 30.0
KEPT_SNAPSHOTS = 64
"""Snapshots that are kept besides those in use; the one used longest ago makes room."""


class OpenCompany:
    """One company that runs; `close` ends and removes it."""

    def __init__(
        self, control: socket.socket, folder: Path, pid: int, on_close: Callable[[Path], None]
    ) -> None:
        self._control = control
        self._folder = folder
        self._on_close = on_close
        self.pid = pid
        """Of the process that serves it."""

    @property
    def office(self) -> Office:
        """A client of all its services for the owner: for graders, seeds and tests.

        It needs no password, so that it works whatever the agent did to its accounts.
        """
        return Office(door=str(self._folder / DOOR), is_owner=True)

    @property
    def is_alive(self) -> bool:
        """Whether its services still run."""
        try:
            return self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    @property
    def faults(self) -> str:
        """What went wrong in its services so far, one note after the other; empty mostly."""
        return self._notes(FAULTS)

    @property
    def colleague_faults(self) -> str:
        """Which colleagues' models gave no answer; empty mostly."""
        return self._notes(COLLEAGUE_FAULTS)

    def _notes(self, name: str) -> str:
        try:
            return (self._folder / name).read_text(errors="replace")
        except OSError:
            return ""

    def hold(self) -> bool:
        """Let nobody but the owner change or ask anything from now on: it is to be graded.

        Returns when the last request that was under way has ended; False where one does not.
        """
        return self._told(HOLD)

    def cut_off(self) -> bool:
        """As `hold`, but whoever connects anew is served: a grader that is a client itself."""
        return self._told(CUT_OFF)

    def _told(self, what: str) -> bool:
        try:
            self.office.request("api", "POST", what)
        except TimeoutError:
            return False
        except (OSError, HTTPException) as error:
            raise EnvironmentFailure(f"the company could not be held still: {error}") from error
        return True

    def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Serve connections of more listening sockets, such as those of another sandbox."""
        try:
            send_sockets(self._control, b"listen", list(listeners))
        except OSError as error:
            raise EnvironmentFailure(f"the company's services are gone: {error}") from error
        for listener in listeners:
            listener.close()

    def close(self) -> None:
        """End it; the process of the company removes its files."""
        self._control.close()
        self._on_close(self._folder)


class Companies:
    """Opens companies; one process, started with the first, forks a child for each."""

    def __init__(self, endpoint: dict[str, Any] | None = None) -> None:
        self._endpoint = endpoint
        self._root: Path | None = None
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()
        self._books = threading.Lock()
        self._building: dict[str, threading.Lock] = {}
        """A lock for each seed whose snapshot is there or being built."""
        self._snapshots: dict[str, Path] = {}
        self._used: dict[Path, Path] = {}
        """The snapshot of each company that runs: its changes are seen by comparing with it."""
        self._closed: list[Path] = []
        self._number = 0

    async def open(self, seed: CompanySeed, listeners: Sequence[socket.socket] = ()) -> OpenCompany:
        """A new company; `listeners` are served from its first moment on, and closed here."""
        return await asyncio.to_thread(self.open_now, seed, listeners)

    def open_now(
        self,
        seed: CompanySeed,
        listeners: Sequence[socket.socket] = (),
        ports: Mapping[int, int] | None = None,
    ) -> OpenCompany:
        """As `open`, for callers without an event loop.

        `ports` says for which port of a service another one stands, where the real ones are taken.
        """
        snapshot = self._snapshot(seed)
        ours, theirs = socket.socketpair()
        try:
            folder, pid = self._start(snapshot, [theirs, *listeners], dict(ports or {}))
        except (OSError, EOFError) as error:
            ours.close()
            self._drop_process()
            raise EnvironmentFailure(f"the company could not be opened: {error}") from error
        finally:
            for one in (theirs, *listeners):
                one.close()
        ours.settimeout(READY_S)
        try:
            is_ready = ours.recv(5) == b"ready"
        except OSError:
            is_ready = False
        if not is_ready:
            ours.close()
            raise EnvironmentFailure("the company's services did not start")
        ours.settimeout(None)
        with self._books:
            self._used[folder] = snapshot
        return OpenCompany(ours, folder, pid, self._forget_company)

    def _forget_company(self, folder: Path) -> None:
        with self._books:
            self._used.pop(folder, None)
        self._closed.append(folder)

    def _start(
        self, snapshot: Path, sockets: list[socket.socket], ports: dict[int, int]
    ) -> tuple[Path, int]:
        with self._turn:
            self._number += 1
            folder = self._folder() / f"company-{self._number}"
            self._tidy()
            asked = {
                "snapshot": str(snapshot),
                "folder": str(folder),
                "endpoint": self._endpoint,
                "ports": ports,
            }
            channel = self._running()
            send_sockets(channel, json.dumps(asked).encode(), sockets)
            answer = channel.recv(1024)
            if not answer:
                raise EOFError("the process of the companies is gone")
            return folder, int(json.loads(answer)["pid"])

    def _tidy(self) -> None:
        """Remove what companies that ended left behind: a folder whose parent is not theirs."""
        for folder in self._closed[:]:
            with suppress(OSError):  # it may still be at it
                folder.rmdir()
            if not folder.exists():
                self._closed.remove(folder)

    def _snapshot(self, seed: CompanySeed) -> Path:
        key = seed.fingerprint()
        with self._books:
            place = self._folder() / f"snapshot-{key}"
            building = self._building.setdefault(key, threading.Lock())
        with building:  # companies of one seed wait for its snapshot, those of others do not
            if not (place / STATE).exists():  # /tmp may have been swept
                build_company(seed, place)
        with self._books:
            self._snapshots.pop(key, None)
            self._snapshots[key] = place
            used = {place, *self._used.values()}
            idle = [name for name, one in self._snapshots.items() if one not in used]
            for name in idle[: max(0, len(self._snapshots) - KEPT_SNAPSHOTS)]:
                self._building.pop(name, None)
                remove_folder(self._snapshots.pop(name))
        return place

    def _folder(self) -> Path:
        if self._root is None or not self._root.exists():
            self._root = Path(tempfile.mkdtemp(prefix="practicum-office-"))
            self._forget = weakref.finalize(self, remove_folder, str(self._root))
            os.chmod(self._root, 0o711)  # a company's own user must be able to enter its folder
        return self._root

    def _running(self) -> socket.socket:
        if self._channel is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                program = [sys.executable, "-P", "-m", PROCESS]
                self._process = subprocess.Popen(
                    [*program, str(theirs.fileno()), str(self._folder())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env={
                        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    },
                    start_new_session=True,
                )
            ours.settimeout(READY_S)
            self._channel = ours
        return self._channel

    def _drop_process(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def close(self) -> None:
        """End the process and remove every snapshot; companies that are open end by themselves."""
        self._drop_process()
        if self._root is not None:
            self._forget()  # removes the folder; without `close`, the end of the program does
            self._root = None
        self._snapshots.clear()
        self._building.clear()
