"""A family's task, graded without a machine: with a company, and a box in memory."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from urllib.parse import quote, unquote

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.task import Outcome
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandbox
from practicum_envs.office.companies import Companies, OpenCompany
from practicum_envs.office.company_seed import AGENT, Project
from practicum_envs.office.evidence import project_route
from practicum_envs.office.office_client import Office, OfficeError
from practicum_envs.office.office_grading import OfficeGrader, SeenEvidence, Stage
from practicum_envs.office.office_plan import WORKSPACE, Family, OfficePlan

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
        text = content[:4000].decode(errors="replace")
        self.printed = content
        for name in ("total.txt", *self.plan.files):
            self.box.files[f"{WORKSPACE}/{name}"] = content
        for path in paths:
            self._try("owncloud", "PUT", DAV + quote(path), content)
        for project in self.plan.company.projects:
            self._spoil_project(project, content, text)
        room = next(iter(self.plan.company.channels), None)
        for name in ["#general", *([f"#{room.name}"] if room else [])]:
            self._chat({"channel": name, "text": text})
        self._chat({"channel": f"@{self.plan.company.people[0].username}", "text": text})
        if self.plan.company.boards:
            self._spoil_board(text[:200])

    def _try(self, service: str, method: str, path: str, body: bytes) -> None:
        """A request of the agent, refused or not."""
        user = "root" if service == "gitlab" else AGENT
        headers = {"X-Office-User": user, "Content-Type": "application/json"}
        self.company.office.request(service, method, path, body, headers)

    def _chat(self, said: dict[str, str]) -> None:
        self._try("rocketchat", "POST", "/api/v1/chat.postMessage", json.dumps(said).encode())

    def _spoil_project(self, project: Project, content: bytes, text: str) -> None:
        route = f"/api/v4/{project_route(project.path)}"
        actions = [
            {"action": "update", "file_path": name, "content": content.decode("latin-1")}
            for name in project.files
        ]
        for path, fields in (
            ("repository/commits", {"branch": "main", "commit_message": "x", "actions": actions}),
            ("issues", {"title": text[:200], "labels": text[:50], "due_date": text[:99]}),
            ("wikis", {"title": text[:99], "content": text}),
            ("issues/1/notes", {"body": text}),
        ):
            self._try("gitlab", "POST", f"{route}/{path}", json.dumps(fields).encode())

    def _spoil_board(self, text: str) -> None:
        plane = self.company.office.plane
        [board, *_] = plane("GET", "projects/")["results"]
        for field in ("name", "priority", "target_date", "state", "assignees"):
            fields = {"name": text or "x", field: text}
            route = f"/api/v1/workspaces/tac/projects/{board['id']}/issues/"
            self._try("plane", "POST", route, json.dumps(fields).encode())


@contextmanager
def desk(companies: Companies, family: Family) -> Iterator[Desk]:
    found = Desk(companies, family)
    try:
        yield found
    finally:
        found.company.close()
