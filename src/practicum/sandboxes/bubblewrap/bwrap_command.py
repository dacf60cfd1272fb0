"""The bwrap command line of a sandbox, and its start: cgroup, user, namespaces, first process."""

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
from practicum.sandboxes.bubblewrap.user_namespaces import (
    IDS,
    mount_memory,
    mount_shifted,
    new_user_namespace,
    private_mounts,
)
from practicum.sandboxes.cgroups import Cgroup, Cgroups
from practicum.sandboxes.inside.program import compiled_program
from practicum.sandboxes.seccomp import filter_program

PROGRAM = "/mnt/first.pyc"
FILTER = "/mnt/filter"
SHOWN = "/mnt/shown"
CODE_USER = 1000
MEBIBYTE = 1 << 20
PASSWD = b"root:x:0:0:root:/:/usr/sbin/nologin\nuser:x:1000:1000:user:/work:/bin/bash\n"
GROUP = b"root:x:0:\nuser:x:1000:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedFds:
    """File descriptors that bwrap and the first process inherit."""

    connection: int
    """The socket the first process serves."""
    program: int
    """Its compiled code."""
    filter: int
    """The system call filter; bwrap gets it too where every process is to have it."""
    info: int
    """Where bwrap writes the pid of the first process."""
    passwd: int
    group: int
    lifeline: int
    """A pipe that ends with the launcher; the same for all sandboxes. It is needed since the kernel
    forgets `--die-with-parent` where an ordinary user's first process changes its user id."""
    namespace: int | None = None
    """A user namespace with a range of ids, for a machine; reused by the next one in the slot."""

    def made_for_one(self) -> tuple[int, ...]:
        """Those that are closed after the start; the others are shared."""
        return (self.connection, self.program, self.filter, self.info, self.passwd, self.group)

    def all(self) -> tuple[int, ...]:
        """All of them."""
        kept = () if self.namespace is None else (self.namespace,)
        return (*self.made_for_one(), self.lifeline, *kept)


def bwrap_arguments(
    spec: SandboxSpec, fds: InheritedFds, *, root: str, python: str, watched_bytes: int
) -> list[str]:
    """The arguments of bwrap.

    `root` is the root file system; empty for `code`, which sees the host's /usr read-only.
    """
    make = _machine if spec.profile == "machine" else _code
    return [
        *(f"--unshare-{kind}" for kind in ("pid", "net", "ipc", "uts", "cgroup")),
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        *("--hostname", "sandbox"),
        *("--info-fd", str(fds.info)),
        *make(spec, fds, root),
        "--",
        *(python, "-I", "-S", PROGRAM, spec.profile, str(fds.connection)),
        *(str(fds.lifeline), FILTER, str(spec.processes), str(watched_bytes)),
        *(place for _, place in spec.shown),
    ]


def _code(spec: SandboxSpec, fds: InheritedFds, root: str) -> list[str]:
    """An ordinary user on a read-only system, with /work and /tmp writable."""
    disk = str(spec.disk_mb * MEBIBYTE)
    return [
        *("--unshare-user", "--uid", str(CODE_USER), "--gid", str(CODE_USER)),
        "--disable-userns",
        *("--cap-drop", "ALL"),
        *_bound_programs(root, fds),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", disk, "--tmpfs", "/tmp"),
        *("--size", str(16 * MEBIBYTE), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", disk, "--tmpfs", "/work"),
        *_programs_of_ours(fds),
        *("--chdir", "/work", "--remount-ro", "/"),
    ]


def _machine(spec: SandboxSpec, fds: InheritedFds, root: str) -> list[str]:
    """Root of an id range, on a read-only root; the first process adds a writable overlay."""
    if fds.namespace is None:
        raise ValueError("a machine needs a user namespace with a range of ids")
    return [
        *("--uid", "0", "--gid", "0", "--userns", str(fds.namespace)),
        *("--cap-add", "ALL"),
        *("--ro-bind", root, "/"),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(16 * MEBIBYTE), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", str(spec.disk_mb * MEBIBYTE), "--tmpfs", "/run"),
        *("--size", str(4 * MEBIBYTE), "--tmpfs", "/mnt"),
        *_programs_of_ours(fds),
        # In a tmpfs: there is no place for them on the root, which cannot be written.
        *(w for n, (host, _) in enumerate(spec.shown) for w in ("--ro-bind", host, f"{SHOWN}/{n}")),
        *("--chdir", "/", "--remount-ro", "/"),
    ]


def _bound_programs(root: str, fds: InheritedFds) -> list[str]:
    links = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
    return [
        *("--ro-bind", f"{root}/usr", "/usr"),
        *(word for name in links for word in ("--symlink", f"usr/{name}", f"/{name}")),
        *("--ro-bind-try", f"{root}/etc/alternatives", "/etc/alternatives"),
        *("--ro-bind-try", f"{root}/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--perms", "0444", "--ro-bind-data", str(fds.passwd), "/etc/passwd"),
        *("--perms", "0444", "--ro-bind-data", str(fds.group), "/etc/group"),
    ]


def _programs_of_ours(fds: InheritedFds) -> list[str]:
    return [
        *("--perms", "0444", "--ro-bind-data", str(fds.program), PROGRAM),
        *("--perms", "0444", "--ro-bind-data", str(fds.filter), FILTER),
    ]


FIRST_ID = 0x70000000
"""First host id of slot 0, above all ranges that distributions assign; 65,536 for each slot."""
SLOTS = 4096
SHIFTED = "/mnt"
"""In the launcher's mount namespace: a tmpfs with a mount point for each slot."""
INFO_TIMEOUT_S = 100.0
MESSAGE_LIMIT = 65_536
"""Longest message between a launcher and its owner."""
KILL_FIRST = b"1000"
"""oom_score_adj: when the host is short of memory, sandboxes are killed first."""


class StartError(Exception):
    """A sandbox could not be started; the message says why."""


@dataclass(slots=True, kw_only=True)
class Started:
    """A running sandbox."""

    monitor: int
    """Pid of bwrap's outer process, our child. It ends once the first process inside is reaped,
    which the kernel allows only after all other processes of the sandbox are gone."""
    first: int
    """pidfd of the first process inside."""
    connection: int
    cgroup: Cgroup | None
    free_slots: "list[int]"
    """The list to which the slot is returned."""
    slot: int
    is_gone: bool = False

    @property
    def oom_file(self) -> str:
        """File with the kernel's count of out-of-memory kills; empty without a cgroup."""
        return "" if self.cgroup is None else str(self.cgroup.oom_file)

    def end(self) -> None:
        """Kill the first process; the kernel then kills the whole pid namespace."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.first, signal.SIGKILL)

    def is_removed(self) -> bool:
        """Whether all of it is gone; removes the cgroup once it is empty."""
        if not self.is_gone:
            pid, _ = os.waitpid(self.monitor, os.WNOHANG)
            if pid == 0:
                return False
            self.is_gone = True
            os.close(self.first)
            self.free_slots.append(self.slot)
        return self.cgroup is None or self.cgroup.remove()

    def wait_until_removed(self, timeout_s: float = 5.0) -> None:
        """Wait until nothing is left, or for `timeout_s`."""
        until = time.monotonic() + timeout_s
        while not self.is_removed() and time.monotonic() < until:
            time.sleep(0.002)


@dataclass(kw_only=True)
class Starter:
    """Starts the sandboxes of one launcher; holds what they share."""

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
        self._lifeline = os.pipe()  # never written to; readers see its end when we die
        self._files = {
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
            self._files["program machine"] = _in_memory(compiled_program(inside))

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
        info_r, info_w = os.pipe()
        fds = self._make_fds(spec, theirs.fileno(), info_w, slot)
        words = bwrap_arguments(
            spec,
            fds,
            root=self._root_of(slot) if spec.profile == "machine" else "",
            python=self.python,
            watched_bytes=0 if cgroup else spec.memory_mb << 20,
        )
        pid = os.fork()
        if pid == 0:
            self._become(words, fds, cgroup, self._owner_of(slot))
        theirs.close()
        for fd in fds.made_for_one():
            if fd != fds.connection:
                os.close(fd)
        try:
            first = os.pidfd_open(_first_pid(info_r))
        except (StartError, OSError) as error:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            ours.close()
            if cgroup is not None:
                cgroup.remove()
            raise StartError(f"bwrap did not start a sandbox: {error}") from error
        finally:
            os.close(info_r)
        return Started(
            monitor=pid,
            first=first,
            connection=ours.detach(),
            cgroup=cgroup,
            free_slots=self._free,
            slot=slot,
        )

    def _make_fds(self, spec: SandboxSpec, connection: int, info: int, slot: int) -> InheritedFds:
        return InheritedFds(
            connection=connection,
            program=_reopened(self._files[f"program {spec.profile}"]),
            filter=_reopened(self._files[f"filter {spec.profile}"]),
            info=info,
            passwd=_reopened(self._files["passwd"]),
            group=_reopened(self._files["group"]),
            lifeline=self._lifeline[0],
            namespace=self._namespace_of(slot) if spec.profile == "machine" else None,
        )

    def _owner_of(self, slot: int) -> int | None:
        """The host user of a slot's sandbox; None where we are not root and cannot choose."""
        return FIRST_ID + slot * IDS if self._is_root else None

    def _namespace_of(self, slot: int) -> int:
        if slot not in self._namespaces:
            owner = self._owner_of(slot)
            first_uid, first_gid = (owner, owner) if owner else (self.first_uid, self.first_gid)
            self._namespaces[slot] = new_user_namespace(first_uid, first_gid, owner)
        return self._namespaces[slot]

    def _root_of(self, slot: int) -> str:
        """The root file system with the owners of the slot's id range."""
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
        self, words: list[str], fds: InheritedFds, cgroup: Cgroup | None, owner: int | None
    ) -> None:
        """In the child: exec bwrap, with an empty environment and as an unprivileged user."""
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
                # Above all the socket to the owner must be closed: it can open more sandboxes.
                _keep_open(int(name), int(name) <= 2 or int(name) in fds.all())
            if owner is not None:
                os.setgroups([])
                os.setresgid(owner, owner, owner)
                os.setresuid(owner, owner, owner)
            os.execve(self.bwrap, [self.bwrap, *words], {})
        finally:
            os._exit(1)


def _in_memory(content: bytes) -> int:
    """A memfd shared by all sandboxes; sealed, so that none of them can change it."""
    fd = os.memfd_create("practicum", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(fd, content)
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def _keep_open(fd: int, is_kept: bool) -> None:
    """Set whether a file descriptor survives the exec."""
    with suppress(OSError):  # one was of the directory listing, and is closed by now
        os.set_inheritable(fd, is_kept)


def _reopened(fd: int) -> int:
    """A new file descriptor of a memfd with its own offset, at the beginning."""
    return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)


def _write(path: str, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, content)
    os.close(fd)


def _first_pid(info_r: int) -> int:
    """The pid of the first process, from bwrap's info pipe."""
    said = b""
    until = time.monotonic() + INFO_TIMEOUT_S
    while b"}" not in said:
        if not select.select([info_r], [], [], max(0.0, until - time.monotonic()))[0]:
            raise StartError(f"no word from it for {INFO_TIMEOUT_S:g} s")
        piece = os.read(info_r, 4096)
        if not piece:
            raise StartError("it ended at once")
        said += piece
    return int(json.loads(said)["child-pid"])
