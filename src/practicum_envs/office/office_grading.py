"""Grades an episode of the office by the checkpoints of its task.

The machine and the company are held still first: what is graded is what the policy left, and
nothing that it started has a say in how long that takes.

Only a fault of the grader's own masks an episode. What a policy wrote and no checkpoint can read is
not passed (`Unreadable`, or a refusal of a service). A checkpoint that fails in any other way, or
does not end, is tried in a fresh company, where nothing was done: if it comes to a result there, it
was stopped by what the policy left, which is the policy's failure; if not, it is the grader's.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from practicum.core.capabilities import HoldsStill
from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON, Outcome
from practicum.core.user_code import call_in_thread
from practicum_envs.office.allowed_changes import damage
from practicum_envs.office.checkpoint_scoring import (
    Points,
    s_score,
    with_bonus,
    with_damage,
)
from practicum_envs.office.companies import OpenCompany
from practicum_envs.office.evidence import Evidence, Unreadable
from practicum_envs.office.office_client import OfficeError
from practicum_envs.office.office_plan import WORKSPACE, Checkpoint, OfficePlan

GRADING_S = 90.0
"""Seconds for all checkpoints of a task together."""
FILE_BYTES = 8 << 20
"""Most bytes of a file that a checkpoint reads."""
SAID_CHARS = 300
"""Characters kept of why a checkpoint failed."""
SHOWN_DAMAGE = 3
"""Changes that are named where there is damage."""

Stage = tuple[Sandbox, OpenCompany]
"""Where an episode plays: a machine, and the company whose services are served in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenEvidence(Evidence):
    """What a checkpoint looks at. Its methods are called from a thread."""

    box: Sandbox
    loop: asyncio.AbstractEventLoop
    timeout_s: float

    def file(self, path: str) -> bytes | None:
        """See `Evidence`."""
        whole = path if path.startswith("/") else f"{WORKSPACE}/{path}"
        try:
            content: bytes = self._wait(self.box.read(whole, FILE_BYTES))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise Unreadable(str(error)) from None
        except EnvironmentFailure:
            self.run(("true",))  # says whether the policy broke it
            raise
        return content

    def run(self, command: tuple[str, ...], stdin: bytes = b"") -> CommandResult:
        """See `Evidence`."""
        work = self.box.judge(command, timeout_s=self.timeout_s, stdin=stdin)
        result: CommandResult = self._wait(work)
        if result.status is CommandStatus.DIED:  # nothing inside can do that
            raise EnvironmentFailure("the machine is gone")
        if result.status is CommandStatus.BROKEN:
            raise Unreadable("the machine runs no commands any more")
        return result

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(GRADING_S)


def untouched(plan: OfficePlan) -> Checkpoint:
    """The last checkpoint of every task: nothing has changed that the task does not allow."""
    colleagues = {one.username for one in plan.company.colleagues}

    def is_untouched(seen: Evidence) -> bool:
        found = damage(seen.changes(), plan.allows, colleagues)
        if found:
            named = "; ".join(map(str, found[:SHOWN_DAMAGE]))
            more = f" and {len(found) - SHOWN_DAMAGE} more" if len(found) > SHOWN_DAMAGE else ""
            raise Unreadable(named + more)
        return True

    return Checkpoint(says="nothing else in the company has changed", passes=is_untouched)


def require_company(company: OpenCompany) -> None:
    """`EnvironmentFailure` where a company cannot be graded: it ended, or a colleague failed."""
    if not company.is_alive:
        raise EnvironmentFailure("the company's services ended before the task was graded")
    if company.colleague_faults:
        raise EnvironmentFailure(company.colleague_faults.strip()[-SAID_CHARS:])


async def hold_machine(box: Sandbox) -> None:
    """Stop what the policy left running, for good."""
    if isinstance(box, HoldsStill):
        with suppress(EnvironmentFailure):  # it is gone: whoever needs it will tell
            await box.hold()


@dataclass(slots=True)
class _Judgement:
    """What checkpoints gave, as far as they have come."""

    points: list[Points] = field(default_factory=list)
    why: dict[int, str] = field(default_factory=dict)
    """Why a checkpoint could not be passed, where it said so."""
    failed: dict[int, str] = field(default_factory=dict)
    """Checkpoints that came to no result, and what stopped them."""

    def judge(self, checkpoints: Sequence[Checkpoint], seen: Evidence) -> None:
        """Look at each; none is passed that fails."""
        for at, one in enumerate(checkpoints):
            given = Points(total=one.points, result=0)
            try:
                earned = one.passes(seen)
                result = one.points * earned if isinstance(earned, bool) else earned
                given = Points(total=one.points, result=result)
            except Unreadable as error:
                self.why[at] = _plain(str(error))
            except OfficeError as error:
                # Refused: what it asks for is not there, or not for the agent.
                (self.why if error.status < 500 else self.failed)[at] = _plain(str(error))
            except EnvironmentFailure:
                raise
            except Exception as error:  # noqa: BLE001 - whose fault it is, a fresh company says
                self.failed[at] = _plain(f"{type(error).__name__}: {error}")
            self.points.append(given)

    def fill(self, checkpoints: Sequence[Checkpoint], reason: str) -> None:
        """Those that were not come to have failed for this reason."""
        for at in range(len(self.points), len(checkpoints)):
            self.failed[at] = reason
            self.points.append(Points(total=checkpoints[at].points, result=0))


class OfficeGrader:
    """Grades one episode, once."""

    def __init__(
        self,
        plan: OfficePlan,
        stage: Stage,
        timeout_s: float,
        fresh: Callable[[], AbstractAsyncContextManager[Stage]],
    ) -> None:
        self._checkpoints = (*plan.checkpoints, untouched(plan))
        self._strategy = plan.strategy
        self._box, self._company = stage
        self._timeout_s = timeout_s
        self._fresh = fresh
        self._evidence: dict[str, JSON] | None = None
        self.said: list[str] = []
        """All that the agent wrote and saw."""

    async def grade(self, answer: str | None, facts: dict[str, JSON]) -> Outcome:
        """The outcome; checkpoints that cannot be decided are a failure of the environment."""
        if self._evidence is None:
            self._evidence = await self._graded(answer)
        checkpoints: Any = self._evidence["checkpoints"]
        is_done = all(one["result"] == one["points"] for one in checkpoints)
        return Outcome(success=is_done, evidence={**self._evidence, **facts})

    async def _graded(self, answer: str | None) -> dict[str, JSON]:
        require_company(self._company)
        found = await self._judged((self._box, self._company), "\n".join(self.said), answer)
        if found.failed:
            require_company(self._company)
            await self._require_result_in_fresh(found)
        *done, whole = found.points
        points = with_damage(with_bonus(done, self._strategy), whole.is_full)
        checkpoints: list[JSON] = [
            {"says": one.says, "points": got.total, "result": got.result}
            for one, got in zip(self._checkpoints, points, strict=True)
        ]
        why = {at: f" ({said})" for at, said in {**found.why, **found.failed}.items()}
        checks: list[JSON] = [
            {"ok": got.is_full, "why": f"not so: {one.says}{why.get(at, '')}"}
            for at, (one, got) in enumerate(zip(self._checkpoints, found.points, strict=True))
        ]
        return {"checkpoints": checkpoints, "checks": checks, "s_score": s_score(points)}

    async def _judged(self, stage: Stage, trajectory: str, answer: str | None) -> _Judgement:
        """What the checkpoints give for a machine and a company, both held still."""
        box, company = stage
        found, checkpoints = _Judgement(), self._checkpoints
        await hold_machine(box)
        if not await call_in_thread(company.hold):
            found.fill(checkpoints, "a request did not end")
            return found
        seen = SeenEvidence(
            office=company.office,
            trajectory=trajectory,
            answer=answer,
            box=box,
            loop=asyncio.get_running_loop(),
            timeout_s=self._timeout_s,
        )
        ongoing = _Judgement()
        work = call_in_thread(lambda: ongoing.judge(checkpoints, seen))
        try:
            await asyncio.wait_for(work, GRADING_S)
        except TimeoutError:
            done = len(ongoing.points)  # its thread may still add to them
            found = _Judgement(ongoing.points[:done], dict(ongoing.why), dict(ongoing.failed))
            found.fill(checkpoints, f"the grader did not end in {GRADING_S:g} s")
            return found
        return ongoing

    async def _require_result_in_fresh(self, found: _Judgement) -> None:
        """`EnvironmentFailure` where the grader fails in a fresh company too."""
        async with self._fresh() as stage:
            idle = await self._judged(stage, "", None)
            if idle.failed:
                require_company(stage[1])
        for at in sorted(found.failed.keys() & idle.failed.keys()):
            says = self._checkpoints[at].says
            raise EnvironmentFailure(f"the checkpoint {says!r} failed: {found.failed[at]}")


def _plain(said: str) -> str:
    """What an error said, short, without what no file can hold: the policy may have chosen it."""
    return said[:SAID_CHARS].replace("\0", "").encode("utf-8", "replace").decode()
