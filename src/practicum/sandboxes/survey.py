"""What every kind of sandbox can do on this machine."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from practicum.core.command import SandboxProfile
from practicum.core.errors import PracticumError
from practicum.sandboxes.cgroups.finding import why_no_cgroups
from practicum.sandboxes.opening import KINDS, unchecked_sandboxes
from practicum.sandboxes.selfcheck import Finding, check_sandboxes

__all__ = ["KindSurvey", "ProfileSurvey", "broken_claims", "limits_note", "survey_kinds"]

PROFILES: tuple[SandboxProfile, ...] = ("code", "machine")
NOT_TRIED = "it isolates nothing and is never tried: see the option `sandbox: process`"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSurvey:
    """One profile of a kind."""

    profile: SandboxProfile
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether it may be used."""
        return all(finding.holds for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSurvey:
    """One kind of sandbox."""

    kind: str
    missing: str = ""
    """Why it cannot even be tried, with what to type; empty when it was."""
    profiles: tuple[ProfileSurvey, ...] = ()


async def survey_kinds(say: Callable[[str], None]) -> list[KindSurvey]:
    """Every kind, tried out where it can be."""
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
    """What does not hold, a line each."""
    for finding in survey.findings:
        if not finding.holds:
            yield f"not so: {finding.claim} ({finding.seen.strip()[:300]})"
