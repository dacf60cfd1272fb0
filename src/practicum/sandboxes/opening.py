"""Opens sandboxes by kind, after a self-check, and reports which kinds work on this machine."""

import asyncio
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from practicum.core.capabilities import BuildsSystems
from practicum.core.command import SandboxProfile, SandboxSpec, SystemRecipe
from practicum.core.errors import ConfigError, EnvironmentFailure, PracticumError, UserError
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.bubblewrap.bubblewrap_sandboxes import BubblewrapSandboxes
from practicum.sandboxes.bubblewrap.derived_root import derive_root, derived_root
from practicum.sandboxes.bubblewrap.rootfs import (
    build_root,
    cached_root,
    granted_ids,
    not_yet_in,
)
from practicum.sandboxes.cgroups import why_no_cgroups
from practicum.sandboxes.selfcheck import Finding, check_sandboxes

KINDS = ("bubblewrap", "landlock", "docker", "podman", "process")
ENGINES = ("docker", "podman")
PYTHON_INSIDE = "/usr/bin/python3"


def open_sandboxes(
    kind: str = "auto", say: Callable[[str], None] = lambda line: print(line, file=sys.stderr)
) -> "CheckedSandboxes":
    """Sandboxes of a kind; `auto` is bubblewrap, or landlock where bubblewrap is not available.

    `docker:IMAGE` and `podman:IMAGE` name the image. The self-check runs before the first sandbox
    of a profile; if it fails, that is an error, and no weaker kind is used instead.
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
    from practicum.sandboxes.guarded.confinement import why_no_landlock

    reasons = (why_no_bubblewrap(), why_no_landlock())
    if reasons[1] is None:
        return "landlock"
    raise UserError(
        f"no sandbox can be had here (bubblewrap: {reasons[0]}; landlock: {reasons[1]}); "
        "see practicum doctor --sandbox"
    )


def why_no_bubblewrap() -> str | None:
    """Why bubblewrap cannot be used, with the command that helps; None if it can."""
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
    """Sandboxes of a kind without the self-check, for the self-check itself."""
    if kind == "bubblewrap":
        return LazyBubblewrap(say)
    if kind == "landlock":
        from practicum.sandboxes.guarded.guarded_sandboxes import LandlockSandboxes

        return LandlockSandboxes()
    engine, _, image = kind.partition(":")
    if engine in ENGINES:
        from practicum.sandboxes.containers import ContainerSandboxes

        # Few file systems let an engine limit a container's disk.
        return ContainerSandboxes(engine, image=image or None, limits_disk=False)
    from practicum.sandboxes.guarded.guarded_sandboxes import ProcessSandboxes

    return ProcessSandboxes()


class LazyBubblewrap:
    """Bubblewrap; a root file system is built when the first `machine` of it is opened."""

    def __init__(self, say: Callable[[str], None]) -> None:
        reason = why_no_bubblewrap()
        if reason is not None:
            raise UserError(f"no bubblewrap sandbox can be had here: {reason}")
        self._say = say
        self._made: dict[Path | None, BubblewrapSandboxes] = {}
        self._building = asyncio.Lock()

    @property
    def kind(self) -> str:
        """See `core.interfaces.Sandboxes`."""
        return "bubblewrap"

    async def open(self, spec: SandboxSpec) -> Sandbox:
        """See `core.interfaces.Sandboxes`."""
        if spec.system:
            root = derived_root(spec.system)
            if root is None:
                raise EnvironmentFailure(f"the system {spec.system} has not been made")
            return await self._of(root).open(spec)
        if spec.profile == "machine":
            return await self._of(build_root(self._say)).open(spec)
        return await (self._made.get(cached_root()) or self._of(None)).open(spec)

    async def build_system(self, recipe: SystemRecipe) -> None:
        """See `core.capabilities.BuildsSystems`."""
        async with self._building:  # one after another: each has a machine with much memory
            if derived_root(recipe.digest) is None:
                base = await asyncio.to_thread(build_root, self._say)
                more = not_yet_in(base, recipe.packages)
                base = await asyncio.to_thread(build_root, self._say, None, more)
                await derive_root(recipe, base, self._of(base), self._say)

    def _of(self, root: Path | None) -> BubblewrapSandboxes:
        """Sandboxes whose machines have this root file system."""
        if root not in self._made:
            granted = granted_ids()
            has_root = root is not None and granted is not None
            self._made[root] = BubblewrapSandboxes(
                bwrap=shutil.which("bwrap") or "bwrap",
                python=PYTHON_INSIDE,
                root=str(root) if has_root else "",
                first_ids=(granted.uid, granted.gid) if granted is not None else (0, 0),
            )
        return self._made[root]

    async def close(self) -> None:
        """See `core.interfaces.Sandboxes`."""
        made, self._made = self._made, {}
        for one in made.values():
            await one.close()


class CheckedSandboxes:
    """Opens sandboxes of a profile only after the self-check of the profile has passed."""

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
        if spec.shown and self.kind != "bubblewrap":
            raise UserError(
                f"a {self.kind} sandbox shows no folders of this machine; "
                "write env.sandbox=bubblewrap"
            )
        if not spec.image:
            await self.require(spec.profile)
        elif self.kind not in ENGINES:
            raise UserError(
                f"a {self.kind} sandbox plays no image; write env.sandbox=docker or "
                "env.sandbox=podman"
            )
        return await self._sandboxes.open(spec)

    async def build_system(self, recipe: SystemRecipe) -> None:
        """See `core.capabilities.BuildsSystems`."""
        if not isinstance(self._sandboxes, BuildsSystems):
            raise UserError(
                f"a {self.kind} sandbox makes no systems from Dockerfiles; write "
                "env.sandbox=bubblewrap"
            )
        await self.require("machine")
        await self._sandboxes.build_system(recipe)

    async def require(self, profile: SandboxProfile) -> None:
        """Run the self-check of a profile, once; `UserError` if it fails."""
        async with self._trying:  # concurrent episodes wait for one self-check
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


PROFILES: tuple[SandboxProfile, ...] = ("code", "machine")
NOT_TRIED = "it isolates nothing and is never tried: see the option `sandbox: process`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSurvey:
    """The self-check of one profile of a kind."""

    profile: SandboxProfile
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether all claims hold, so that it may be used."""
        return all(finding.holds for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSurvey:
    """The self-check of one kind of sandbox."""

    kind: str
    missing: str = ""
    """Why it cannot be tested, with the command that helps; empty if it was."""
    profiles: tuple[ProfileSurvey, ...] = ()


async def survey_kinds(say: Callable[[str], None]) -> list[KindSurvey]:
    """The self-check of every kind that is available."""
    return [await _surveyed(kind, say) for kind in KINDS]


async def _surveyed(kind: str, say: Callable[[str], None]) -> KindSurvey:
    if kind == "process":
        return KindSurvey(kind=kind, missing=NOT_TRIED)
    try:
        sandboxes = unchecked_sandboxes(kind, say)
    except PracticumError as error:
        return KindSurvey(kind=kind, missing=str(error))
    try:
        found = [
            ProfileSurvey(profile=p, findings=tuple(await check_sandboxes(sandboxes, p)))
            for p in PROFILES
        ]
    finally:
        await sandboxes.close()
    return KindSurvey(kind=kind, profiles=tuple(found))


def limits_note() -> str:
    """How memory, processes and processor time are limited here."""
    reason = why_no_cgroups()
    if reason is None:
        return "control groups limit memory, processes and processor time"
    return (
        f"no control groups ({reason}): memory and processes are counted every 0.1 s instead, "
        "processor time is not limited"
    )


def broken_claims(survey: ProfileSurvey) -> Iterator[str]:
    """The claims that do not hold, one line each."""
    for finding in survey.findings:
        if not finding.holds:
            yield f"not so: {finding.claim} ({finding.seen.strip()[:300]})"


class SharedSandboxes:
    """One set of sandboxes per kind, shared by several environments."""

    def __init__(self, opener: Callable[[str], Sandboxes]) -> None:
        self._opener = opener
        self._opened: dict[str, Sandboxes] = {}

    def of_kind(self, kind: str) -> Sandboxes:
        """The sandboxes of a kind, opened when first asked for."""
        if kind not in self._opened:
            self._opened[kind] = self._opener(kind)
        return self._opened[kind]

    async def close(self) -> None:
        """Close all of them."""
        for opened in self._opened.values():
            await opened.close()
