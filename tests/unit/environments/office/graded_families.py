"""Grading a family's task without a machine: a company, a box in memory, and what a grader reads."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import unquote

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.task import Outcome
from practicum.environments.office.companies import Companies, OpenCompany
from practicum.environments.office.evidence import project_route
from practicum.environments.office.office_client import Office, OfficeError
from practicum.environments.office.office_grading import OfficeGrader, SeenEvidence, Stage
from practicum.environments.office.office_plan import WORKSPACE, Family, OfficePlan
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandbox

DAV = "/remote.php/webdav/"


class WatchedOffice(Office):
    """Notes which files of ownCloud are asked for."""

    asked: set[str]

    def request(self, service, method, path, body=b"", headers=None):  # type: ignore[no-untyped-def]
        if method == "GET" and path.startswith(DAV):
            self.asked.add(unquote(path.removeprefix(DAV)))
        return super().request(service, method, path, body, headers)


class Desk:
    """One task of a family with its company, to be spoilt and graded again and again."""

    def __init__(self, companies: Companies, family: Family) -> None:
        self.plan: OfficePlan = family.plan("0", family.split)
        self._companies = companies
        self.printed = b"[]"
        """What pushed code prints where a grader runs it."""
        self.box = FakeSandbox(self._answer)
        self.company: OpenCompany = companies.open_now(self.plan.company)
        self.was_tried_in_fresh = False

    def _answer(self, ran: RanCommand) -> CommandResult:
        shown = self.printed.decode(errors="replace")
        return CommandResult(status=CommandStatus.OK, exit_code=0, stdout=shown)

    @asynccontextmanager
    async def _fresh(self) -> AsyncIterator[Stage]:
        self.was_tried_in_fresh = True
        company = await self._companies.open(self.plan.company)
        try:
            yield FakeSandbox(self._answer), company
        finally:
            company.close()

    def grade(self, said: str = "", answer: str | None = None) -> Outcome:
        self.was_tried_in_fresh = False
        grader = OfficeGrader(self.plan, (self.box, self.company), 5.0, self._fresh)
        grader.said.append(said)
        return asyncio.run(grader.grade(answer, {}))

    def read_files(self) -> set[str]:
        """Files of ownCloud that the checkpoints ask for, as it is now."""
        office = WatchedOffice(door=self.company.office._door, is_owner=True)
        office.asked = set()

        async def look() -> None:
            seen = SeenEvidence(
                office=office,
                trajectory="",
                answer=None,
                box=self.box,
                loop=asyncio.get_running_loop(),
                timeout_s=5.0,
            )
            for one in self.plan.checkpoints:
                with suppress(OfficeError):
                    await asyncio.to_thread(one.passes, seen)

        asyncio.run(look())
        return office.asked

    def spoil(self, content: bytes, paths: set[str]) -> None:
        """Put this wherever the agent can: files, repositories, its machine, chat, issues."""
        office, text = self.company.office, content[:4000].decode(errors="replace")
        self.printed = content
        for name in ("total.txt", *self.plan.files):
            self.box.files[f"{WORKSPACE}/{name}"] = content
        for path in paths:
            with suppress(OfficeError):  # a folder of that name
                office.dav("PUT", path, content)
        for project in self.plan.company.projects:
            route = project_route(project.path)
            actions = [
                {"action": "update", "file_path": name, "content": content.decode("latin-1")}
                for name in project.files
            ]
            change = {"branch": "main", "commit_message": text[:100] or "x", "actions": actions}
            with suppress(OfficeError):
                office.gitlab("POST", f"{route}/repository/commits", change)
            with suppress(OfficeError):
                office.gitlab("POST", f"{route}/issues", {"title": text[:200], "labels": text[:50]})
            with suppress(OfficeError):
                office.gitlab("POST", f"{route}/wikis", {"title": text[:99], "content": text})
        for channel in self.plan.company.channels:
            with suppress(OfficeError):
                said = {"channel": f"#{channel.name}", "text": text}
                office.rocketchat("POST", "chat.postMessage", said)
        for person in self.plan.company.people[:2]:
            with suppress(OfficeError):
                said = {"channel": f"@{person.username}", "text": text}
                office.rocketchat("POST", "chat.postMessage", said)
        self._spoil_boards(text)

    def _spoil_boards(self, text: str) -> None:
        plane = self.company.office.plane
        for board in plane("GET", "projects/")["results"] if self.plan.company.boards else ():
            route = f"projects/{board['id']}/issues/"
            for field in ("name", "priority", "target_date", "state", "assignees"):
                with suppress(OfficeError):
                    plane("POST", route, {"name": text[:200] or "x", field: text[:200]})


@contextmanager
def desk(companies: Companies, family: Family) -> Iterator[Desk]:
    found = Desk(companies, family)
    try:
        yield found
    finally:
        found.company.close()


Spoil = Callable[[Desk], None]
