"""User namespaces with a range of ids, and id-mapped mounts of the root file system.

The 65,536 ids inside a `machine` sandbox map to as many ids of the host, none of which is root or
the user. As root, each slot has an otherwise unused range and an id-mapped mount of the one root
file system. Other users have the range in /etc/subuid and /etc/subgid, and a root file system that
was unpacked with these owners.
"""

import ctypes
import os
import subprocess
from pathlib import Path

IDS = 65_536
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
"""The same numbers on every architecture."""
AT_EMPTY_PATH, AT_RECURSIVE, OPEN_TREE_CLONE = 0x1000, 0x8000, 1
MOVE_MOUNT_F_EMPTY_PATH = 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_IDMAP = 1, 0x00100000
AT_FDCWD = -100
MS_REC, MS_PRIVATE = 16384, 1 << 18

libc = ctypes.CDLL(None, use_errno=True)


class MountAttributes(ctypes.Structure):
    """`struct mount_attr`."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def granted_range(kind: str, user: str, uid: int) -> int | None:
    """The first of 65,536 ids granted in /etc/subuid or /etc/subgid, or None."""
    try:
        lines = Path(f"/etc/{kind}").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if name in (user, str(uid)) and count.isdigit() and int(count) >= IDS:
            return int(first)
    return None


def new_user_namespace(first_uid: int, first_gid: int, owner: int | None = None) -> int:
    """A file descriptor of a new user namespace whose id 0 is `first_uid` on the host.

    As root, `owner` is the user who owns it. Other users need `newuidmap` and a granted range.
    """
    ready_r, ready_w = os.pipe()
    done_r, done_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(done_w)
        _hold_namespace(owner, ready_w, done_r)
    try:
        if os.read(ready_r, 1) != b".":
            raise OSError("the kernel gave no user namespace")
        _map_ids(pid, first_uid, first_gid)
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (ready_r, ready_w, done_r, done_w):
            os.close(fd)
        os.waitpid(pid, 0)


def _hold_namespace(owner: int | None, ready_w: int, done_r: int) -> None:
    """In the child: create the namespace and keep it alive until the parent has opened it."""
    code = 1
    try:
        if owner is not None:
            os.setgroups([])
            os.setresgid(owner, owner, owner)
            os.setresuid(owner, owner, owner)
        if libc.unshare(CLONE_NEWUSER) == 0:
            os.write(ready_w, b".")
            code = 0
            os.read(done_r, 1)  # ends when the parent is done, or dead
    finally:
        os._exit(code)


def _map_ids(pid: int, first_uid: int, first_gid: int) -> None:
    if os.geteuid() == 0:
        Path(f"/proc/{pid}/uid_map").write_text(f"0 {first_uid} {IDS}\n")
        Path(f"/proc/{pid}/gid_map").write_text(f"0 {first_gid} {IDS}\n")
        return
    for program, first in (("newuidmap", first_uid), ("newgidmap", first_gid)):
        done = subprocess.run(
            [program, str(pid), "0", str(first), str(IDS)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise OSError(f"{program}: {done.stderr.strip()}")


def private_mounts() -> None:
    """Enter a new mount namespace, so that later mounts disappear with this process."""
    if libc.unshare(CLONE_NEWNS) < 0 or libc.mount(
        b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None
    ):
        raise OSError(ctypes.get_errno(), "no private mounts")


def mount_memory(target: str) -> None:
    """Mount a small tmpfs over an existing folder."""
    if libc.mount(b"none", target.encode(), b"tmpfs", ctypes.c_ulong(0), b"size=1m,mode=755"):
        raise OSError(ctypes.get_errno(), f"no memory file system at {target}")


def mount_shifted(source: str, target: str, user_namespace: int) -> None:
    """Bind-mount a folder read-only, its owners mapped by a user namespace."""
    tree = libc.syscall(OPEN_TREE, AT_FDCWD, source.encode(), OPEN_TREE_CLONE | os.O_CLOEXEC)
    if tree < 0:
        raise OSError(ctypes.get_errno(), "open_tree")
    try:
        wanted = MountAttributes(MOUNT_ATTR_IDMAP | MOUNT_ATTR_RDONLY, 0, 0, user_namespace)
        size = ctypes.c_size_t(ctypes.sizeof(wanted))
        if libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(wanted), size) < 0:
            raise OSError(ctypes.get_errno(), "mount_setattr")
        if libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, target.encode(), MOVE_MOUNT_F_EMPTY_PATH):
            raise OSError(ctypes.get_errno(), "move_mount")
    finally:
        os.close(tree)
