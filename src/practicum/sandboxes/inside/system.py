"""The writable file system of a `machine` sandbox, created by its first process.

The first process itself stays on the original root file system, which commands can neither see nor
change. Commands enter a mount namespace whose root is an overlay: the root file system below, a
tmpfs with a size limit above. A checker gets a mount namespace of its own in which the folders of
programs and libraries are the original ones: it must not run what the policy put in their place.
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

SCRATCH = "/run"
"""A tmpfs with a size limit, mounted by bwrap."""
ROOT = SCRATCH + "/root"
SHOWN = "/mnt/shown"
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Symlinks into /usr at the top of a usr-merged system; no program finds its loader without."""
PROGRAM_FOLDERS = ("usr/bin", "usr/sbin")
"""Here a checker sees the original programs instead of changed ones; programs with other names,
which a task may have asked for, stay."""
SEARCHED_FOLDERS = (*PROGRAM_FOLDERS, "usr/local/bin", "usr/local/sbin")
"""The folders of every PATH that a system has of itself: a checker's, a login's, sudo's. In none of
them does a checker see an added program that has the name of an original one."""
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
    "etc/security",
    "usr/share/misc",
    "usr/share/file",
)
"""Libraries and settings of programs: a checker sees only the original folder, or an empty one
where the original system has none."""
LOADER_FILES = (
    *("etc/ld.so.preload", "etc/ld.so.cache", "etc/ssl/openssl.cnf", "etc/nsswitch.conf"),
    *("etc/sudo.conf", "etc/magic", "root/.magic", "root/.magic.mgc"),
    *("pyvenv.cfg", "usr/pyvenv.cfg"),
)
"""What the dynamic loader, Python, OpenSSL, name lookups, sudo and `file` read at each start: with
them a policy could inject code, or answers."""
SETTINGS = ("Modules", "lib", "lib64", "pybuilddir.txt", "pyvenv.cfg")
"""Beside a Python, also as links, these make it use another library, as do files in `._pth`."""
SUDO_SETTINGS = (b"secure_path", b"env_file", b"exempt_group", b"plugin", b"mailerpath", b"noexec")
"""Defaults in /etc/sudoers by which a checker's `sudo` would run programs of the policy."""
CONTENT_LIMIT = 1 << 20
RESERVE = SCRATCH + "/reserve"
RESERVE_BYTES = 262_144
"""Bytes freed before a checker runs, so that it can run even if the policy filled the disk."""


class System:
    """The overlay and its mount namespace, created once per sandbox."""

    def __init__(self, shown: "list[str]") -> None:
        """`shown` are the places of the host's folders, which bwrap mounted in `SHOWN`."""
        for name in ("upper", "work", "root"):
            os.mkdir(f"{SCRATCH}/{name}", 0o755)
        layers = f"lowerdir=/,upperdir={SCRATCH}/upper,workdir={SCRATCH}/work,userxattr"
        mount("overlay", ROOT, "overlay", MS_NODEV | MS_NOSUID, layers)
        with open(RESERVE, "wb") as file:
            file.write(bytes(RESERVE_BYTES))
        for name in ("proc", "dev"):
            mount(f"/{name}", f"{ROOT}/{name}", "", MS_BIND | MS_REC)
        for number, place in enumerate(shown):
            os.makedirs(ROOT + place)
            mount(f"{SHOWN}/{number}", ROOT + place, "", MS_BIND | MS_REC)
        self._inner = self._namespace()

    def _namespace(self) -> int:
        """A file descriptor of a mount namespace whose root is the overlay."""
        ready_r, ready_w = os.pipe()
        done_r, done_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            unshare(CLONE_NEWNS)
            become_root(ROOT)
            os.write(ready_w, b".")
            os.read(done_r, 1)
            os._exit(0)
        os.close(ready_w)
        if os.read(ready_r, 1) != b".":
            raise OSError("the private system could not be made")
        inner = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        os.write(done_w, b".")
        os.waitpid(pid, 0)
        for fd in (ready_r, done_r, done_w):
            os.close(fd)
        return inner

    def enter(self) -> None:
        """In a child that is about to run a command: enter the overlay, irrevocably."""
        setns(self._inner, CLONE_NEWNS)
        os.chdir("/")

    def enter_as_judge(self) -> None:
        """In a child that is about to run a checker: enter it with the original programs."""
        unshare(CLONE_NEWNS)
        mount("none", "/", "", MS_REC | MS_PRIVATE)
        os.truncate(RESERVE, 0)
        for name in LINKS:
            put_back_link(name)
        for name in LOADER_FILES:
            put_back_file(name)
        for name in (*SEARCHED_FOLDERS, *separate(("bin", "sbin"))):
            hide_impostors(name)
        for name in (*filled(SEARCHED_FOLDERS), *separate(("bin", "sbin"))):
            put_first(name)
        for name in (*LIBRARY_FOLDERS, *separate(LINKS[2:])):
            put_back_folder(name)
        for name in added_library_folders():
            put_back_folder(name)
        put_back_pam()
        put_back_sudo()
        become_root(ROOT)


def become_root(folder: str) -> None:
    """Make a folder the root of this mount namespace and detach the old root."""
    os.chdir(folder)
    pivot_root(".", ".")
    # pivot_root(".", ".") stacks the old root on the new one at "."; unmount it.
    unmount(".")
    os.chdir("/")


def is_folder(name: str) -> bool:
    """Whether the overlay has a folder at this path, without any symlink on the way."""
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
    """The names in a folder of the overlay; what is no folder on the way, a link say, is moved."""
    make_straight(folder)
    return sorted(os.listdir(f"{ROOT}/{folder}")) if is_folder(folder) else []


def separate(names: "tuple[str, ...]") -> "list[str]":
    """Those at the top of the original system that are folders: it is not usr-merged."""
    return [name for name in names if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")]


def filled(names: "tuple[str, ...]") -> "list[str]":
    """Those in which the original system has something; /usr/local has in a task's own system."""
    return [name for name in names if os.path.isdir(f"/{name}") and os.listdir(f"/{name}")]


def added_library_folders() -> "list[str]":
    """More library folders of the overlay, whose names contain a version or an architecture."""
    make_straight("usr/local/share")
    own = [f"etc/{name}" for name in names_in("etc") if name.startswith("python")]
    return own + [
        f"usr/local/lib/{name}"
        for name in names_in("usr/local/lib")
        if name.startswith("python") or name == "site_perl" or name.endswith("-linux-gnu")
    ]


def hide_impostors(folder: str) -> None:
    """Move away what was added to a folder of programs and could act for an original program.

    That is a program of the same name, wherever in a PATH it was put, and what is no program: a
    Python reads settings and a library beside itself. The layer holds only what was changed.
    """
    make_straight(folder)
    layer = f"{SCRATCH}/upper/{folder}"
    if not is_folder(folder) or not os.path.isdir(layer):
        return
    places = (*PROGRAM_FOLDERS, *separate(("bin", "sbin")))
    for name in sorted(os.listdir(layer)):
        path = f"{ROOT}/{folder}/{name}"
        if os.path.lexists(f"/{folder}/{name}") or not os.path.lexists(path):
            continue  # the original is put back, or it was removed
        # A task's own system has programs in /usr/local too, which another of its PATH may act for.
        known = (*filled(SEARCHED_FOLDERS), *places)
        is_taken = any(os.path.lexists(f"/{place}/{name}") for place in known)
        is_beside = folder in places and not is_program(path, name)
        if is_taken or is_beside:
            move_away(path)


def is_program(path: str, name: str) -> bool:
    """Whether an added file is one, or a link that no original program takes for its settings."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return name not in SETTINGS and not name.endswith("._pth")
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def move_away(path: str) -> None:
    """Rename what the policy put there to a free name, so that it is kept."""
    if os.path.lexists(path):
        number = 0
        while os.path.lexists(f"{path}.moved-{number}"):
            number += 1
        os.rename(path, f"{path}.moved-{number}")


def put_back_link(name: str) -> None:
    """Restore a top-level symlink of the original system."""
    if not os.path.islink(f"/{name}"):
        return
    target, path = os.readlink(f"/{name}"), f"{ROOT}/{name}"
    if not os.path.islink(path) or os.readlink(path) != target:
        move_away(path)
        os.symlink(target, path)


def put_first(name: str) -> None:
    """Mount the original folder over one of the overlay; files with new names stay visible."""
    make_folder(name)
    added = f"{SCRATCH}/upper/{name}"
    if os.path.isdir(added) and not os.path.islink(added):
        layers = f"lowerdir=/{name}:{added},userxattr"
        mount("overlay", f"{ROOT}/{name}", "overlay", MS_NODEV | MS_NOSUID, layers)
    else:
        mount(f"/{name}", f"{ROOT}/{name}", "", MS_BIND)


def put_back_folder(name: str) -> None:
    """Mount the original folder over one of the overlay, or an empty one if there is none."""
    make_straight(name)
    if not os.path.lexists(f"{ROOT}/{name}") and not os.path.isdir(f"/{name}"):
        return
    make_folder(name)
    if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}"):
        mount(f"/{name}", f"{ROOT}/{name}", "", MS_BIND)
    else:
        mount("none", f"{ROOT}/{name}", "tmpfs", MS_NODEV | MS_NOSUID, "size=4k")


def put_back_pam() -> None:
    """The original settings of `su` and its like, but none that takes variables from a file.

    A task may ask for a line in /etc/environment; a checker's `su` gets no PATH from there.
    """
    folder = "etc/pam.d"
    make_folder(folder)
    mount("none", f"{ROOT}/{folder}", "tmpfs", MS_NODEV | MS_NOSUID, "size=1m,mode=755")
    for name in os.listdir(f"/{folder}") if os.path.isdir(f"/{folder}") else ():
        lines = (content_of(f"/{folder}/{name}") or b"").splitlines(True)
        with open(f"{ROOT}/{folder}/{name}", "xb") as file:
            file.write(b"".join(line for line in lines if b"pam_env.so" not in line))


def put_back_sudo() -> None:
    """Take settings out of sudoers by which `sudo` runs other programs; rules may be asked for."""
    original = (content_of("/etc/sudoers") or b"").splitlines()
    for name in ("etc/sudoers", *(f"etc/sudoers.d/{one}" for one in names_in("etc/sudoers.d"))):
        path = f"{ROOT}/{name}"
        content = content_of(path)
        if content is None or len(content) == CONTENT_LIMIT:
            move_away(path)
            continue
        lines = content.replace(b"\\\n", b"").splitlines()
        kept = [line for line in lines if line in original or not leads_elsewhere(line)]
        if len(kept) < len(lines):
            move_away(path)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o440), "wb") as file:
                file.write(b"\n".join((*kept, b"")))


def leads_elsewhere(line: bytes) -> bool:
    """Whether a line of sudoers includes another file, or names programs for sudo itself."""
    words = line.strip()
    is_default = words.startswith(b"Defaults")
    return words.startswith((b"@include", b"#include")) or (
        is_default and any(name in words for name in SUDO_SETTINGS)
    )


def make_straight(name: str) -> None:
    """Move away what is no folder on the way to one of the overlay, symlinks above all."""
    at = ROOT
    for part in name.split("/"):
        at = f"{at}/{part}"
        if not os.path.lexists(at):
            return
        if not stat.S_ISDIR(os.lstat(at).st_mode):
            move_away(at)


def make_folder(name: str) -> None:
    """Create a folder in the overlay; what is in the way, symlinks too, is moved away."""
    make_straight(name)
    at = ROOT
    for part in name.split("/"):
        at = f"{at}/{part}"
        if not os.path.lexists(at):
            os.mkdir(at, 0o755)


def put_back_file(name: str) -> None:
    """Restore a file of the original system, or remove it if that has none."""
    folder = name.rpartition("/")[0]
    original = content_of(f"/{name}")
    if original is None:
        make_straight(folder)
    else:
        make_folder(folder)
    path = f"{ROOT}/{name}"
    if content_of(path) == original and (original is None) != os.path.lexists(path):
        return
    move_away(path)
    if original is not None:
        with open(path, "xb") as copy:
            copy.write(original)


def content_of(path: str) -> "bytes | None":
    """The content of a regular file; None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(fd, "rb") as file:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        return file.read(CONTENT_LIMIT) if is_file else None
