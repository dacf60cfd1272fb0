"""The arguments of one `bwrap` call: what a sandbox is made of, as a pure function."""

from dataclasses import dataclass

from practicum.core.command import SandboxSpec

__all__ = ["Handed", "bwrap_arguments"]

PROGRAM = "/mnt/first.pyc"
FILTER = "/mnt/filter"
CODE_USER = 1000
MEBIBYTE = 1 << 20
PASSWD = b"root:x:0:0:root:/:/usr/sbin/nologin\nuser:x:1000:1000:user:/work:/bin/bash\n"
GROUP = b"root:x:0:\nuser:x:1000:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """File descriptors that bwrap and the first process inherit."""

    connection: int
    """The socket the first process serves."""
    program: int
    """Its text."""
    filter: int
    """The system call filter; bwrap gets it too where every process is to have it."""
    info: int
    """Where bwrap writes the pid of the first process."""
    passwd: int
    group: int
    lifeline: int
    """A pipe that ends with the launcher: the kernel forgets `--die-with-parent` where an ordinary
    user's first process takes on another id. It is the same for all."""
    namespace: int | None = None
    """A user namespace with a range of ids, for a machine; it stays open for the next one."""

    def made_for_one(self) -> tuple[int, ...]:
        """What is made for one sandbox."""
        return (self.connection, self.program, self.filter, self.info, self.passwd, self.group)

    def all(self) -> tuple[int, ...]:
        """Everything that is inherited."""
        kept = () if self.namespace is None else (self.namespace,)
        return (*self.made_for_one(), self.lifeline, *kept)


def bwrap_arguments(
    spec: SandboxSpec, handed: Handed, *, root: str, python: str, watched_bytes: int
) -> list[str]:
    """Everything after the program's name.

    `root` is the root file system; empty takes the host's /usr, read-only, for `code`.
    """
    make = _machine if spec.profile == "machine" else _code
    return [
        *(f"--unshare-{kind}" for kind in ("pid", "net", "ipc", "uts", "cgroup")),
        "--die-with-parent",
        "--new-session",
        "--as-pid-1",
        *("--hostname", "sandbox"),
        *("--info-fd", str(handed.info)),
        *make(spec, handed, root),
        "--",
        *(python, "-I", "-S", PROGRAM, spec.profile, str(handed.connection)),
        *(str(handed.lifeline), FILTER, str(spec.processes), str(watched_bytes)),
    ]


def _code(spec: SandboxSpec, handed: Handed, root: str) -> list[str]:
    """An ordinary user on a read-only system with one folder of its own."""
    disk = str(spec.disk_mb * MEBIBYTE)
    return [
        *("--unshare-user", "--uid", str(CODE_USER), "--gid", str(CODE_USER)),
        "--disable-userns",
        *("--cap-drop", "ALL"),
        *_bound_programs(root, handed),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", disk, "--tmpfs", "/tmp"),
        *("--size", str(16 * MEBIBYTE), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", disk, "--tmpfs", "/work"),
        *_programs_of_ours(handed),
        *("--chdir", "/work", "--remount-ro", "/"),
    ]


def _machine(spec: SandboxSpec, handed: Handed, root: str) -> list[str]:
    """Root of a range of ids over a system that the first process makes changeable."""
    if handed.namespace is None:
        raise ValueError("a machine needs a user namespace with a range of ids")
    return [
        *("--uid", "0", "--gid", "0", "--userns", str(handed.namespace)),
        *("--cap-add", "ALL"),
        *("--ro-bind", root, "/"),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(16 * MEBIBYTE), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        *("--size", str(spec.disk_mb * MEBIBYTE), "--tmpfs", "/run"),
        *("--size", str(4 * MEBIBYTE), "--tmpfs", "/mnt"),
        *_programs_of_ours(handed),
        *("--chdir", "/", "--remount-ro", "/"),
    ]


def _bound_programs(root: str, handed: Handed) -> list[str]:
    links = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
    return [
        *("--ro-bind", f"{root}/usr", "/usr"),
        *(word for name in links for word in ("--symlink", f"usr/{name}", f"/{name}")),
        *("--ro-bind-try", f"{root}/etc/alternatives", "/etc/alternatives"),
        *("--ro-bind-try", f"{root}/etc/ld.so.cache", "/etc/ld.so.cache"),
        *("--perms", "0444", "--ro-bind-data", str(handed.passwd), "/etc/passwd"),
        *("--perms", "0444", "--ro-bind-data", str(handed.group), "/etc/group"),
    ]


def _programs_of_ours(handed: Handed) -> list[str]:
    return [
        *("--perms", "0444", "--ro-bind-data", str(handed.program), PROGRAM),
        *("--perms", "0444", "--ro-bind-data", str(handed.filter), FILTER),
    ]
