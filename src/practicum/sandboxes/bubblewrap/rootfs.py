"""The root file system of `machine` sandboxes: built once from Debian packages, then cached.

It is built by `mmdebstrap`: as root into a folder that root owns, for other users in a user
namespace with the id range of their sandboxes. Without Debian, a user can give a tar archive
instead, such as `docker export` writes.
"""

import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from practicum.core.cache_folder import sandbox_cache_root
from practicum.core.errors import UserError
from practicum.sandboxes.bubblewrap.user_namespaces import granted_range, new_user_namespace

PACKAGES = (
    *("adduser", "bzip2", "ca-certificates", "curl", "file", "gawk", "git", "less", "passwd"),
    *("procps", "python3", "sudo", "tree", "unzip", "vim", "wget", "xz-utils", "zip", "zsh"),
)
"""Added to Debian's minimal system: the commands of tasks about files, users, text, processes."""
SUITES = {"debian": "bookworm", "ubuntu": "noble"}
"""The release where the host's own is not known."""
READY = "ready"
BUILDING = "building.lock"
CLEARED = ("etc/apt/sources.list", "etc/apt/sources.list.d", "etc/apt/apt.conf.d/99mmdebstrap")
"""Removed, since they name the mirror of the packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """The first host ids of this user's sandboxes."""

    uid: int
    gid: int


def granted_ids() -> Granted | None:
    """The first subordinate ids of this user; zeros for root; None where none are granted."""
    if os.geteuid() == 0:
        return Granted(uid=0, gid=0)
    name, number = _user_name(), os.geteuid()
    uid, gid = granted_range("subuid", name, number), granted_range("subgid", name, number)
    return Granted(uid=uid, gid=gid) if uid is not None and gid is not None else None


def _user_name() -> str:
    """As in /etc/subuid; the number where the user has no name, as in many containers."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def cached_root(more: tuple[str, ...] = ()) -> Path | None:
    """The cached root file system, or None; that with `more` packages."""
    root = _place(more)
    return root if (root.parent / READY).exists() else None


def build_root(
    say: Callable[[str], None], archive: Path | None = None, more: tuple[str, ...] = ()
) -> Path:
    """Build the root file system, unless it is cached; or unpack an archive of one.

    With `more` packages it is another, kept beside that of all machines.
    """
    root = _place(more)
    found = cached_root(more)
    if found is not None and archive is None:
        return found
    granted = granted_ids()
    if granted is None:
        raise UserError(
            f"user {_user_name()!r} has no range of ids in /etc/subuid and /etc/subgid; "
            f"type: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "
            f"{_user_name()}"
        )
    own_folder(sandbox_cache_root())
    with (
        alone(sandbox_cache_root()),
        tempfile.TemporaryDirectory(prefix="practicum-", dir="/var/tmp") as folder,
    ):
        found = cached_root(more)  # another process may have built it meanwhile
        if found is not None and archive is None:
            return found
        if archive is None:
            archive = Path(folder) / "root.tar"
            with_more = f" with {' '.join(more)}" if more else ""
            say(
                f"Building the root file system of sandboxes{with_more} from packages, once; "
                "about a minute"
            )
            _debootstrap(archive, more)
        _unpack(archive, root.parent, granted)
        (root.parent / READY).touch()
    return root


def not_yet_in(root: Path, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some Debian packages that a root file system has not."""
    lists = (root / "var/lib/dpkg/info").glob("*.list")
    known = {path.name.removesuffix(".list").partition(":")[0] for path in lists}
    return tuple(one for one in packages if one not in known)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Wait until no other process builds in a folder; flock is released when a process dies."""
    with (folder / BUILDING).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _place(more: tuple[str, ...]) -> Path:
    key = hashlib.sha256(" ".join((*PACKAGES, *_suite(), *more)).encode()).hexdigest()[:12]
    return sandbox_cache_root() / f"root-{key}" / "root"


def _suite() -> tuple[str, str]:
    """Distribution and release of the root file system: the host's own where it is known."""
    facts: dict[str, str] = {}
    path = Path("/etc/os-release")
    for line in path.read_text().splitlines() if path.exists() else []:
        name, _, value = line.partition("=")
        facts[name] = value.strip('"')
    family = facts.get("ID", "debian")
    if family not in SUITES:
        return "debian", SUITES["debian"]
    return family, facts.get("VERSION_CODENAME") or SUITES[family]


def own_folder(folder: Path) -> None:
    """Create a folder that only we can write; in /var/tmp another user may have been first."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = folder.lstat()
    if folder.is_symlink() or found.st_uid != os.geteuid():
        raise UserError(f"{folder} belongs to someone else; remove it and try again")


def _debootstrap(archive: Path, more: tuple[str, ...]) -> None:
    program = shutil.which("mmdebstrap")
    if program is None:
        raise UserError(
            "sandboxes for shell tasks need a root file system and mmdebstrap is not here to "
            "build it; type: apt-get install mmdebstrap uidmap, or give an archive of one: "
            "practicum sandbox build --archive FILE.tar"
        )
    _, release = _suite()
    command = [
        program,
        f"--mode={'root' if os.geteuid() == 0 else 'unshare'}",
        "--variant=minbase",
        f"--include={','.join((*PACKAGES, *more))}",
        *(f'--customize-hook=rm -rf "$1/{path}"' for path in CLEARED),
        '--customize-hook=echo sandbox > "$1/etc/hostname"',
        '--customize-hook=printf "127.0.0.1 localhost sandbox\\n" > "$1/etc/hosts"',
        '--customize-hook=: > "$1/etc/resolv.conf"',
        release,
        str(archive),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        missing = [line for line in done.stderr.splitlines() if "Unable to locate package" in line]
        if missing:
            named = ", ".join(sorted({line.rpartition(" ")[2] for line in missing}))
            raise UserError(f"{release} has no package {named}; take it out, or use another image")
        raise UserError(
            f"mmdebstrap could not build the root file system ({last}); "
            "see what it says with: mmdebstrap --variant=minbase " + f"{release} /dev/null"
        )


def _unpack(archive: Path, folder: Path, granted: Granted) -> None:
    """Unpack beside the final folder and rename: half a root file system is never used."""
    fresh = folder.with_name(f"{folder.name}.new")
    for old in (fresh, folder):
        if old.exists():
            remove_root(old, granted)
    fresh.mkdir(mode=0o755)
    os.chmod(fresh, 0o777 if os.geteuid() else 0o755)  # the range's root makes `root` in it
    with archive.open("rb") as file:
        unpack = 'mkdir -m 755 "$1/root" && tar -x --numeric-owner --exclude="./dev/*" -C "$1/root"'
        in_namespace(granted, ["sh", "-c", unpack, "sh", str(fresh)], file)
    os.chmod(fresh, 0o755)
    fresh.rename(folder)


def remove_root(folder: Path, granted: Granted) -> None:
    """Remove a folder with a root file system, whoever owns the files in it."""
    if os.geteuid() == 0:
        shutil.rmtree(folder)
        return
    os.chmod(folder, 0o777)
    in_namespace(granted, ["sh", "-c", 'rm -rf "$1"/*', "sh", str(folder)], None)
    shutil.rmtree(folder)


def in_namespace(granted: Granted, command: list[str], stdin: BinaryIO | None) -> None:
    """Run a program as root of the granted id range; as root, run it directly."""
    words = command
    fds: tuple[int, ...] = ()
    if os.geteuid() != 0:
        namespace = new_user_namespace(granted.uid, granted.gid)
        fds = (namespace,)
        words = ["nsenter", f"--user=/proc/self/fd/{namespace}", *command]
    try:
        done = subprocess.run(words, stdin=stdin, pass_fds=fds, capture_output=True, check=False)
    finally:
        for fd in fds:
            os.close(fd)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()[-300:]
        raise UserError(f"the root file system cannot be unpacked: {reason}")
