"""The company of a task: what the checkout describes, what the user adds, and stand-ins.

GitLab's projects and Plane's issues are in the benchmark's images and not in its repository. Where
it does for a task that they are there, an empty project or an issue of the name stands in.
"""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from practicum.core.errors import UserError
from practicum_envs.agent_company.checkout import BenchmarkTask, Checkout
from practicum_envs.agent_company.plane_ids import PlaneIds, plane_ids
from practicum_envs.agent_company.verdicts import (
    boards_of,
    channels_of,
    is_made_by_the_agent,
    issue_numbers_of,
    plane_issues_of,
    projects_named,
    projects_of,
)
from practicum_envs.office.checkout_company import (
    colleagues_from_scenarios,
    company_from_checkout,
)
from practicum_envs.office.company_seed import (
    AGENT,
    Board,
    BoardIssue,
    Channel,
    Commit,
    CompanySeed,
    Cycle,
    Issue,
    MergeRequest,
    Project,
)

OLD_BRANCH = re.compile(r"branch[ `\"']+([\w.-]+/[\w./-]+)")
TRACKED = re.compile(r"\bissues?\b|\bmerge requests?\b|\bmilestones?\b", re.IGNORECASE)
"""What GitLab has besides code."""
STATES = ("Backlog", "Todo", "In Progress", "Cancelled")
SPRINT_DAYS = 14


class BenchmarkCompany:
    """The companies of a checkout's tasks."""

    def __init__(self, checkout: Checkout, documents: str = "", repositories: str = "") -> None:
        self._checkout = checkout
        self.named = projects_named(checkout)
        """See `projects_named`."""
        self.clones = _clones(repositories)
        """Folders with clones, by the name of the project in lower case."""
        self.files = _documents(documents)
        """The files of ownCloud by their paths."""
        self._boards = sorted({name for task in checkout.tasks for name in boards_of(task)})

    @cached_property
    def _base(self) -> CompanySeed:
        return company_from_checkout(self._checkout.root)

    @cached_property
    def ids(self) -> PlaneIds:
        """The ids in Plane that tasks tell."""
        usernames = [person.username for person in self._base.people]
        return plane_ids(self._checkout.tasks, usernames)

    def seed(self, task: BenchmarkTask) -> CompanySeed:
        """The company in which a task begins."""
        base, ids = self._base, self.ids
        colleagues = colleagues_from_scenarios(task.scenarios, base)
        there = {one.path for one in base.projects}
        return replace(
            base,
            people=tuple(
                replace(one, plane_id=ids.people.get(one.username, "")) for one in base.people
            ),
            channels=(*base.channels, *self._channels(task, base)),
            projects=(*base.projects, *(p for p in self._projects(task) if p.path not in there)),
            boards=_with_ids([_board(one, task, base, self._boards) for one in base.boards], ids),
            files={**base.files, **self.files},
            colleagues=colleagues,
        )

    def stand_ins(self, task: BenchmarkTask) -> tuple[str, ...]:
        """Of what a task speaks that only its name is there."""
        about = [one for one in projects_of(task, self.named) if one != "doc"]
        projects = [one for one in about if one not in self.clones]
        if TRACKED.search(task.instruction):  # a clone brings code alone
            projects += [f"issues of {one}" for one in about if one in self.clones]
        boards = ["Plane's states and sprints"] if "plane" in task.services else []
        return (*projects, *boards, *plane_issues_of(task))

    def _channels(self, task: BenchmarkTask, base: CompanySeed) -> Iterator[Channel]:
        there = {one.name for one in base.channels}
        for name in channels_of(task):
            if name not in there:
                yield Channel(name=name, members=(AGENT,), owners=(base.people[0].username,))

    def _projects(self, task: BenchmarkTask) -> Iterator[Project]:
        about = projects_of(task, self.named)
        for name in sorted({*self.named, *self.clones}):
            stand_in = _stand_in(name, task if name in about else None)
            if name in self.clones:  # the code is the clone's; issues and requests stand in
                clone = self.clones[name]
                path, origin = f"root/{clone.name}", str(clone)
                yield replace(stand_in, path=path, origin=origin, description="", files={})
            elif not is_made_by_the_agent(name, task, self.named):
                yield stand_in


def _stand_in(name: str, task: BenchmarkTask | None) -> Project:
    """A project with nothing in it but a page, an issue and a merge request."""
    numbers = issue_numbers_of(task) if task else []
    text = task.instruction if task else ""
    branches = [] if "creat" in text.lower() else OLD_BRANCH.findall(text)
    change = {"NOTES.md": "A change that stands in for the real ones.\n"}
    return Project(
        path=f"root/{name}",
        description=f"Stands in for {name}",
        files={"README.md": f"# {name}\n\nThis project stands in for the real one.\n"},
        commits=tuple(
            Commit(message="Take notes", files=change, branch=branch)
            for branch in ("notes", *dict.fromkeys(branches))
        ),
        issues=(
            Issue(title=f"Describe {name}"),
            *(Issue(title=f"Issue {number}", number=number) for number in numbers),
        ),
        merge_requests=(MergeRequest(title="Take notes", source_branch="notes"),),
    )


def _board(board: Board, task: BenchmarkTask, company: CompanySeed, known: list[str]) -> Board:
    """A board under the name that graders know, with sprints of these days and some issues."""
    name = next((one for one in known if one in board.description), board.name)
    today = datetime.now().astimezone().date()
    spans = [(today - timedelta(days=7) + timedelta(days=SPRINT_DAYS * n)) for n in range(2)]
    cycles = tuple(
        Cycle(
            name=cycle.name,
            start_date=start.isoformat(),
            end_date=(start + timedelta(days=SPRINT_DAYS - 1)).isoformat(),
        )
        for cycle, start in zip(board.cycles, spans, strict=False)
    )
    issues = [BoardIssue(name=f"{state} of {name}", state=state) for state in STATES]
    if name in boards_of(task):
        people = {one.name: one.username for one in company.people}
        who = tuple(people[one] for one in task.scenarios) if len(task.scenarios) == 1 else ()
        state = "Backlog" if "backlog" in task.instruction.lower() else "In Progress"
        issues += [
            BoardIssue(name=one, state=state, assignees=who, cycle=cycles[0].name if cycles else "")
            for one in plane_issues_of(task)
        ]
    return replace(board, name=name, cycles=cycles, issues=tuple(issues))


def _with_ids(boards: Sequence[Board], ids: PlaneIds) -> tuple[Board, ...]:
    """Boards and issues with the ids by which tasks link to them.

    An id that no task names goes to a board that none has an id for: it leads somewhere.
    """
    spare = list(ids.spare)
    found = []
    for board in boards:
        own = ids.boards.get(board.name) or (spare.pop(0) if spare else "")
        issues = tuple(replace(one, id=ids.issues.get(one.name, "")) for one in board.issues)
        found.append(replace(board, id=own, issues=issues))
    return tuple(found)


def _clones(folder: str) -> dict[str, Path]:
    if not folder:
        return {}
    root = Path(folder).expanduser()
    found = [one for one in sorted(root.glob("*")) if (one / ".git").exists() and _has_commit(one)]
    if not found:
        raise UserError(
            f"env.repositories: {folder} has no clone with a commit in it; it is a folder of "
            "folders, each of which git clone made"
        )
    return {one.name.lower(): one for one in found}


def _has_commit(clone: Path) -> bool:
    """Whether there is anything in a clone, or it only has the name of one."""
    asked = ["git", "-c", "safe.directory=*", "-C", str(clone), "rev-parse", "-q", "--verify"]
    return subprocess.run([*asked, "HEAD"], capture_output=True).returncode == 0


def _documents(folder: str) -> dict[str, bytes]:
    if not folder:
        return {}
    root = Path(folder).expanduser()
    found = {
        str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()
    }
    if not found:
        raise UserError(
            f"env.documents: {folder} has no file in it; it is a copy of what ownCloud shows"
        )
    return found
