"""Sandboxes by name, never weaker than asked for."""

import asyncio
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from practicum.core.command import SandboxProfile, SandboxSpec
from practicum.core.errors import ConfigError, UserError
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.bubblewrap.rootfs import build_root, cached_root, granted_ids
from practicum.sandboxes.bubblewrap.sandboxes import BubblewrapSandboxes
from practicum.sandboxes.selfcheck import check_sandboxes

__all__ = ["KINDS", "CheckedSandboxes", "open_sandboxes", "unchecked_sandboxes"]

KINDS = ("bubblewrap", "landlock", "docker", "podman", "process")
ENGINES = ("docker", "podman")
PYTHON_INSIDE = "/usr/bin/python3"


def open_sandboxes(
    kind: str = "auto", say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
) -> "CheckedSandboxes":
    """Sandboxes of a kind; `auto` takes bubblewrap, and landlock where only that can be had.

    `docker:IMAGE` and `podman:IMAGE` name what their machines are made of. Which kind it is stands
    in `kind`. Before the first sandbox of a profile is given out, the kind is tried out; one that
    does not hold is not used, and nothing weaker takes its place.
    """
    name, _, image = kind.partition(":")
    if (name != "auto" and name not in KINDS) or (image and name not in ENGINES):
        raise ConfigError(
            f"no sandbox of kind {kind!r}; there are auto, {', '.join(KINDS)}, and with an image "
            "docker:IMAGE and podman:IMAGE"
        )
    chosen = _chosen() if kind == "auto" else kind
    return CheckedSandboxes(unchecked_sandboxes(chosen, say))


def _chosen() -> str:
    if why_no_bubblewrap() is None:
        return "bubblewrap"
    from practicum.sandboxes.guarded.landlock import why_no_landlock

    reasons = (why_no_bubblewrap(), why_no_landlock())
    if reasons[1] is None:
        return "landlock"
    raise UserError(
        f"no sandbox can be had here (bubblewrap: {reasons[0]}; landlock: {reasons[1]}); "
        "see practicum doctor --sandbox"
    )


def why_no_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used, with what to type; None when nothing speaks against it."""
    if platform.system() != "Linux":
        return f"it needs Linux, and this is {platform.system()}"
    if shutil.which("bwrap") is None:
        return "bwrap is not installed; type: apt-get install bubblewrap"
    if not Path(PYTHON_INSIDE).exists():
        return f"{PYTHON_INSIDE} is missing; type: apt-get install python3"
    blocked = Path("/proc/sys/user/max_user_namespaces")
    if blocked.exists() and blocked.read_text().strip() == "0":
        return "user namespaces are switched off; type: sysctl user.max_user_namespaces=10000"
    return None


def unchecked_sandboxes(kind: str, say: Callable[[str], None]) -> Sandboxes:
    """Sandboxes of a kind that was not tried out: for what tries it out."""
    if kind == "bubblewrap":
        return LazyBubblewrap(say)
    if kind == "landlock":
        from practicum.sandboxes.guarded.landlock import LandlockSandboxes

        return LandlockSandboxes()
    engine, _, image = kind.partition(":")
    if engine in ENGINES:
        from practicum.sandboxes.containers.sandboxes import ContainerSandboxes

        # Few file systems let an engine limit a container's disk.
        return ContainerSandboxes(engine, image=image or None, limits_disk=False)
    from practicum.sandboxes.guarded.process import ProcessSandboxes

    return ProcessSandboxes()


class LazyBubblewrap:
    """Bubblewrap, with a root file system that is built when the first machine is asked for."""

    def __init__(self, say: Callable[[str], None]) -> None:
        reason = why_no_bubblewrap()
        if reason is not None:
            raise UserError(f"no bubblewrap sandbox can be had here: {reason}")
        self._say = say
        self._made: BubblewrapSandboxes | None = None
        self._has_root = False

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return "bubblewrap"

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """See `core.interfaces.Sandboxes`."""
        needs_root = spec.profile == "machine"
        if self._made is None or (needs_root and not self._has_root):
            if needs_root:
                build_root(self._say)
            await self.close()
            self._made = self._make()
        return await self._made.open(spec)

    def _make(self) -> BubblewrapSandboxes:
        root, granted = cached_root(), granted_ids()
        self._has_root = root is not None and granted is not None
        return BubblewrapSandboxes(
            bwrap=shutil.which("bwrap") or "bwrap",
            python=PYTHON_INSIDE,
            root=str(root) if root is not None and granted is not None else "",
            first_ids=(granted.uid, granted.gid) if granted is not None else (0, 0),
        )

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        if self._made is not None:
            await self._made.close()
            self._made = None


class CheckedSandboxes:
    """Gives out sandboxes of a profile only after the kind was tried out for it."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._trusted: set[SandboxProfile] = set()
        self._trying = asyncio.Lock()

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return self._sandboxes.kind

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """See `core.interfaces.Sandboxes`."""
        await self.require(spec.profile)
        return await self._sandboxes.open(spec)

    async def require(self, profile: SandboxProfile) -> None:
        """Try the kind out for a profile, once; `UserError` when it does not hold."""
        async with self._trying:  # many may ask at once before the first has been tried out
            await self._try_out(profile)

    async def _try_out(self, profile: SandboxProfile) -> None:
        if profile in self._trusted or self.kind == "process":
            return
        broken = [f for f in await check_sandboxes(self._sandboxes, profile) if not f.holds]
        if broken:
            raise UserError(
                f"the {self.kind} sandbox does not hold here for profile {profile!r} "
                f"({broken[0].claim}: {broken[0].seen.strip()[:300]}); see all of it with: "
                "practicum doctor --sandbox"
            )
        self._trusted.add(profile)

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        await self._sandboxes.close()
