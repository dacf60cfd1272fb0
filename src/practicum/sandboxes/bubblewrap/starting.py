"""Starts one sandbox: cgroup, user, namespaces, first process. Only the launcher does this."""

import fcntl
import json
import os
import resource
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field

from practicum.core.command import SandboxSpec
from practicum.sandboxes.bubblewrap.arguments import GROUP, PASSWD, Handed, bwrap_arguments
from practicum.sandboxes.bubblewrap.userns import (
    IDS,
    mount_memory,
    mount_shifted,
    new_user_namespace,
    private_mounts,
)
from practicum.sandboxes.cgroups.finding import Cgroup, Cgroups
from practicum.sandboxes.inside.program import compiled_program
from practicum.sandboxes.seccomp import filter_program

__all__ = ["MESSAGE_LIMIT", "StartError", "Started", "Starter"]

FIRST_ID = 0x70000000
"""Above every range that distributions hand out; slot after slot takes 65,536 from here."""
SLOTS = 4096
SHIFTED = "/mnt"
"""In the launcher's own mounts: a memory file system with one folder for each slot."""
INFO_TIMEOUT_S = 10.0
MESSAGE_LIMIT = 65_536
"""Longest message between a launcher and its owner."""
KILL_FIRST = b"1000"
"""Badness that lets the kernel end a sandbox before anything else when memory is short."""


class StartError(Exception):
    """A sandbox could not be started; the sentence says why."""


@dataclass(slots=True, kw_only=True)
class Started:
    """A sandbox that runs."""

    monitor: int
    """bwrap's outer process, our child. It ends when the first process inside has been buried,
    and the kernel buries that only after everything else in the sandbox is gone."""
    first: int
    """File that stands for the first process inside."""
    connection: int
    cgroup: Cgroup | None
    release: "list[int]"
    """Where the slot goes back to."""
    slot: int
    is_gone: bool = False

    @property
    def oom_file(self) -> str:
        """Where the kernel counts what it killed for memory; empty where nothing counts."""
        return "" if self.cgroup is None else str(self.cgroup.oom_file)

    def end(self) -> None:
        """Kill the first process, and with it everything."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.first, signal.SIGKILL)

    def is_removed(self) -> bool:
        """Whether all of it is gone; removes the cgroup as soon as that can be done."""
        if not self.is_gone:
            pid, _ = os.waitpid(self.monitor, os.WNOHANG)
            if pid == 0:
                return False
            self.is_gone = True
            os.close(self.first)
            self.release.append(self.slot)
        return self.cgroup is None or self.cgroup.remove()

    def wait_until_removed(self, timeout_s: float = 5.0) -> None:
        """Until nothing is left, or for so long."""
        until = time.monotonic() + timeout_s
        while not self.is_removed() and time.monotonic() < until:
            time.sleep(0.002)


@dataclass(kw_only=True)
class Starter:
    """What all sandboxes of one launcher have in common."""

    bwrap: str
    python: str
    """The Python inside."""
    root: str
    """The root file system of machines; empty where there is none."""
    first_uid: int = 0
    """The granted range of an ordinary user; root takes its own."""
    first_gid: int = 0
    cgroups: Cgroups | None = None
    _free: list[int] = field(default_factory=lambda: list(range(SLOTS - 1, -1, -1)))
    _namespaces: dict[int, int] = field(default_factory=dict)
    _number: int = 0

    def __post_init__(self) -> None:
        self._lifeline = os.pipe()  # nobody ever writes to it; it ends with us
        self._texts = {
            "passwd": _in_memory(PASSWD),
            "group": _in_memory(GROUP),
            "filter code": _in_memory(filter_program("code")),
            "filter machine": _in_memory(filter_program("machine")),
            "program code": _in_memory(compiled_program([self.python])),
        }
        if self._is_root and self.root:
            private_mounts()
            mount_memory(SHIFTED)
        if self.root:
            inside = [self.bwrap, "--unshare-all", "--ro-bind", self.root, "/", self.python]
            self._texts["program machine"] = _in_memory(compiled_program(inside))

    @property
    def _is_root(self) -> bool:
        return os.geteuid() == 0

    def start(self, spec: SandboxSpec) -> Started:
        """A new sandbox; its first process may not be ready yet."""
        if not self._free:
            raise StartError(f"{SLOTS} sandboxes are open and no more are possible")
        slot = self._free.pop()
        try:
            return self._start(spec, slot)
        except BaseException:
            self._free.append(slot)
            raise

    def _start(self, spec: SandboxSpec, slot: int) -> Started:
        self._number += 1
        cgroup = None
        if self.cgroups is not None:
            cgroup = self.cgroups.create(f"practicum-{os.getpid()}-{self._number}", spec)
        ours, theirs = socket.socketpair()
        told, tell = os.pipe()
        handed = self._handed(spec, theirs.fileno(), tell, slot)
        words = bwrap_arguments(
            spec,
            handed,
            root=self._root_of(slot) if spec.profile == "machine" else "",
            python=self.python,
            watched_bytes=0 if cgroup else spec.memory_mb << 20,
        )
        pid = os.fork()
        if pid == 0:
            self._become(words, handed, cgroup, self._owner_of(slot))
        theirs.close()
        for fd in handed.made_for_one():
            if fd != handed.connection:
                os.close(fd)
        try:
            first = os.pidfd_open(_first_pid(told))
        except (StartError, OSError) as error:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            ours.close()
            if cgroup is not None:
                cgroup.remove()
            raise StartError(f"bwrap did not start a sandbox: {error}") from error
        finally:
            os.close(told)
        return Started(
            monitor=pid,
            first=first,
            connection=ours.detach(),
            cgroup=cgroup,
            release=self._free,
            slot=slot,
        )

    def _handed(self, spec: SandboxSpec, connection: int, info: int, slot: int) -> Handed:
        return Handed(
            connection=connection,
            program=_reopened(self._texts[f"program {spec.profile}"]),
            filter=_reopened(self._texts[f"filter {spec.profile}"]),
            info=info,
            passwd=_reopened(self._texts["passwd"]),
            group=_reopened(self._texts["group"]),
            lifeline=self._lifeline[0],
            namespace=self._namespace_of(slot) if spec.profile == "machine" else None,
        )

    def _owner_of(self, slot: int) -> int | None:
        """The user a sandbox is to the host: one for each slot, where we may choose."""
        return FIRST_ID + slot * IDS if self._is_root else None

    def _namespace_of(self, slot: int) -> int:
        if slot not in self._namespaces:
            owner = self._owner_of(slot)
            first_uid, first_gid = (owner, owner) if owner else (self.first_uid, self.first_gid)
            self._namespaces[slot] = new_user_namespace(first_uid, first_gid, owner)
        return self._namespaces[slot]

    def _root_of(self, slot: int) -> str:
        """The root file system as the slot's ids own it."""
        if not self.root:
            raise StartError("there is no root file system; type: practicum sandbox build")
        if not self._is_root:
            return self.root
        shown = f"{SHIFTED}/{slot}"
        if not os.path.isdir(shown):
            os.mkdir(shown)
            mount_shifted(self.root, shown, self._namespace_of(slot))
        return shown

    def _become(
        self, words: list[str], handed: Handed, cgroup: Cgroup | None, owner: int | None
    ) -> None:
        """In the forked process: turn into bwrap, with no environment and no rights."""
        try:
            pid = str(os.getpid()).encode()
            for path in () if cgroup is None else cgroup.procs_files:
                _write(str(path), pid)
            with suppress(OSError):
                _write("/proc/self/oom_score_adj", KILL_FIRST)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            for name in os.listdir("/proc/self/fd"):
                # The line to the owner, above all, must end here: who has it can open sandboxes.
                _keep_open(int(name), int(name) <= 2 or int(name) in handed.all())
            if owner is not None:
                os.setgroups([])
                os.setresgid(owner, owner, owner)
                os.setresuid(owner, owner, owner)
            os.execve(self.bwrap, [self.bwrap, *words], {})
        finally:
            os._exit(1)


def _in_memory(content: bytes) -> int:
    """A file for every sandbox to come, sealed: whoever gets hold of it cannot change it."""
    fd = os.memfd_create("practicum", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def _keep_open(fd: int, is_kept: bool) -> None:
    """Whether a file stays open in the program that this process is about to become."""
    with suppress(OSError):  # one is the listing itself, which is closed by now
        os.set_inheritable(fd, is_kept)


def _reopened(fd: int) -> int:
    """The same content from its beginning, with a position of its own."""
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


def _write(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, content)
    os.close(fd)


def _first_pid(told: int) -> int:
    """What bwrap says the pid of the first process is."""
    said = b""
    until = time.monotonic() + INFO_TIMEOUT_S
    while b"}" not in said:
        if not select.select([told], [], [], max(0.0, until - time.monotonic()))[0]:
            raise StartError(f"no word from it for {INFO_TIMEOUT_S:g} s")
        piece = os.read(told, 4096)
        if not piece:
            raise StartError("it ended at once")
        said += piece
    return int(json.loads(said)["child-pid"])
