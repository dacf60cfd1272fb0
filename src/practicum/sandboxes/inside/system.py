"""The private system of a `machine` sandbox, made and entered by its first process.

The first process itself stays outside of it, over the untouched root file system: a command can
neither see nor change what it runs from. Commands enter through a mount namespace whose root is an
overlay: the root file system below, a sized memory file system above. A checker gets a namespace
of its own, in which the folders that hold programs and libraries are the untouched ones again.
"""

import os
import stat

from practicum.sandboxes.inside.kernel import (
    CLONE_NEWNS,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    mount,
    pivot_root,
    setns,
    unmount,
    unshare,
)

__all__ = ["System"]

SCRATCH = "/run"
"""A sized memory file system, mounted over the root file system's own before we start."""
ROOT = SCRATCH + "/root"
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Links into /usr at the top of a merged system; without them no program finds its loader."""
PROGRAM_FOLDERS = ("usr/bin", "usr/sbin")
"""Programs of the untouched system come before all others here; a program of another name, which a
task may have asked for, stays."""
LIBRARY_FOLDERS = (
    "usr/lib",
    "usr/lib32",
    "usr/lib64",
    "usr/libexec",
    "usr/share/perl",
    "usr/share/perl5",
    "usr/local/share/perl",
    "etc/perl",
    "etc/zsh",
    "usr/share/awk",
    "etc/alternatives",
    "etc/pam.d",
    "etc/security",
)
"""What programs are made of: here a checker sees only what the untouched system has, and nothing
where that has no such folder."""
LOADER_FILES = (
    *("etc/ld.so.preload", "etc/ld.so.cache"),
    *("pyvenv.cfg", "usr/pyvenv.cfg", "usr/bin/pyvenv.cfg"),
)
"""What the loader and Python read, wherever they are started, before anything else."""
CONTENT_LIMIT = 1 << 20
RESERVE = SCRATCH + "/reserve"
RESERVE_BYTES = 262_144
"""Given up when a checker is to run: a disk that is full must not keep it from running."""


class System:
    """Made once, when the sandbox starts."""

    def __init__(self) -> None:
        for name in ("upper", "work", "root"):
            os.mkdir(f"{SCRATCH}/{name}", 0o755)
        layers = f"lowerdir=/,upperdir={SCRATCH}/upper,workdir={SCRATCH}/work,userxattr"
        mount("overlay", ROOT, "overlay", MS_NODEV | MS_NOSUID, layers)
        with open(RESERVE, "wb") as file:
            file.write(bytes(RESERVE_BYTES))
        for name in ("proc", "dev"):
            mount(f"/{name}", f"{ROOT}/{name}", "", MS_BIND | MS_REC)
        self._inner = self._namespace()

    def _namespace(self) -> int:
        """A mount namespace in which the overlay is all there is, as a file that enters it."""
        told, tell = os.pipe()
        may_go, let_go = os.pipe()
        pid = os.fork()
        if pid == 0:
            unshare(CLONE_NEWNS)
            become_root(ROOT)
            os.write(tell, b".")
            os.read(may_go, 1)
            os._exit(0)
        os.close(tell)
        if os.read(told, 1) != b".":
            raise OSError("the private system could not be made")
        inner = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        os.write(let_go, b".")
        os.waitpid(pid, 0)
        for fd in (told, may_go, let_go):
            os.close(fd)
        return inner

    def enter(self) -> None:
        """Go in, never to come back: for a forked process that is about to start a command."""
        setns(self._inner, CLONE_NEWNS)
        os.chdir("/")

    def enter_as_judge(self) -> None:
        """Go in with the untouched programs, in a forked process that is about to start one."""
        unshare(CLONE_NEWNS)
        mount("none", "/", "", MS_REC | MS_PRIVATE)
        os.truncate(RESERVE, 0)
        for name in LINKS:
            put_back_link(name)
        for name in LOADER_FILES:
            put_back_file(name)
        for name in PROGRAM_FOLDERS:
            move_python_settings(name)
            put_first(name)
        for name in LIBRARY_FOLDERS:
            put_back_folder(name)
        for name in added_library_folders():
            put_back_folder(name)
        become_root(ROOT)


def become_root(folder: str) -> None:
    """Make a folder the root of this mount namespace and drop every other mount."""
    os.chdir(folder)
    pivot_root(".", ".")
    # The old root now lies on top of the new one at "."; taking it away leaves the new one.
    unmount(".")
    os.chdir("/")


def is_folder(name: str) -> bool:
    """Whether the private system has a real folder of that name, reached through real folders."""
    at = ROOT
    for part in name.split("/"):
        at = f"{at}/{part}"
        try:
            if not stat.S_ISDIR(os.lstat(at).st_mode):
                return False
        except OSError:
            return False
    return True


def names_in(folder: str) -> "list[str]":
    """What lies in a real folder of the private system."""
    return sorted(os.listdir(f"{ROOT}/{folder}")) if is_folder(folder) else []


def added_library_folders() -> "list[str]":
    """Folders of other libraries, whose names hold a version or a machine."""
    own = [f"etc/{name}" for name in names_in("etc") if name.startswith("python")]
    return own + [
        f"usr/local/lib/{name}"
        for name in names_in("usr/local/lib")
        if name.startswith("python") or name == "site_perl" or name.endswith("-linux-gnu")
    ]


def move_python_settings(folder: str) -> None:
    """Files beside a Python program by which it takes its library from elsewhere."""
    for name in names_in(folder):
        if name.endswith("._pth"):
            move_away(f"{ROOT}/{folder}/{name}")


def move_away(path: str) -> None:
    """Keep what was put in the way, under another name."""
    if os.path.lexists(path):
        number = 0
        while os.path.lexists(f"{path}.moved-{number}"):
            number += 1
        os.rename(path, f"{path}.moved-{number}")


def put_back_link(name: str) -> None:
    """A link at the top as the untouched system has it."""
    if not os.path.islink(f"/{name}"):
        return
    target, path = os.readlink(f"/{name}"), f"{ROOT}/{name}"
    if not os.path.islink(path) or os.readlink(path) != target:
        move_away(path)
        os.symlink(target, path)


def put_first(name: str) -> None:
    """Cover a folder with the untouched one, in which what was added shines through."""
    make_folder(name)
    added = f"{SCRATCH}/upper/{name}"
    if os.path.isdir(added) and not os.path.islink(added):
        layers = f"lowerdir=/{name}:{added},userxattr"
        mount("overlay", f"{ROOT}/{name}", "overlay", MS_NODEV | MS_NOSUID, layers)
    else:
        mount(f"/{name}", f"{ROOT}/{name}", "", MS_BIND)


def put_back_folder(name: str) -> None:
    """Cover a folder with the untouched one; one that never was is covered with an empty one."""
    if not os.path.lexists(f"{ROOT}/{name}") and not os.path.isdir(f"/{name}"):
        return
    make_folder(name)
    if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"):
        mount(f"/{name}", f"{ROOT}/{name}", "", MS_BIND)
    else:
        mount("none", f"{ROOT}/{name}", "tmpfs", MS_NODEV | MS_NOSUID, "size=4k")


def make_folder(name: str) -> None:
    """A real folder of that name, reached through real folders."""
    at = ROOT
    for part in name.split("/"):
        at = f"{at}/{part}"
        if not os.path.lexists(at) or not stat.S_ISDIR(os.lstat(at).st_mode):
            move_away(at)
            os.mkdir(at, 0o755)


def put_back_file(name: str) -> None:
    """A file the loader reads, as the untouched system has it, or none."""
    make_folder(name.rpartition("/")[0])
    path = f"{ROOT}/{name}"
    untouched = content_of(f"/{name}")
    if content_of(path) == untouched and (untouched is None) != os.path.lexists(path):
        return
    move_away(path)
    if untouched is not None:
        with open(path, "xb") as copy:
            copy.write(untouched)


def content_of(path: str) -> "bytes | None":
    """What an ordinary file holds; None where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        return file.read(CONTENT_LIMIT) if is_file else None
