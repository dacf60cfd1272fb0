"""Puts the boards of a seed into Plane."""

import re

from practicum_envs.office.company_seed import (
    AGENT,
    PASSWORD,
    PLANE_KEY,
    Board,
    BoardIssue,
    CompanySeed,
    Person,
)
from practicum_envs.office.company_state import Company, Document
from practicum_envs.office.plane_model import Plane

AGENT_EMAIL = "agent@company.com"


def add_plane(company: Company, seed: CompanySeed, people: list[Person]) -> None:
    """Accounts for everyone, and the boards."""
    plane = Plane(company)
    plane.data["workspace"] = company.uuid()
    agent = plane.add_user(
        "theagentcompany", AGENT_EMAIL, PASSWORD, username=AGENT, role=20, display_name="agent"
    )
    plane.data["keys"][PLANE_KEY] = agent["id"]
    for person in people:
        if person.username != AGENT:
            plane.add_user(
                *(person.name, person.email, person.email),
                username=person.username,
                seed_id=person.plane_id,
            )
    for board in seed.boards:
        _add_board(plane, agent, board)


def account(plane: Plane, username: str) -> Document:
    """The account of a person whom the seed names."""
    found = plane.user(username)
    if found is None:
        raise ValueError(f"the seed names {username!r}, who is not among its people")
    return found


def _add_board(plane: Plane, agent: Document, seed: Board) -> None:
    taken = {project["identifier"] for project in plane.projects.values()}
    short = re.sub(r"[^A-Za-z]", "", seed.name)[:5].upper()
    numbered = (f"{short}{number}" for number in range(2, 100))
    letters = seed.identifier or next(one for one in (short, *numbered) if one not in taken)
    project = plane.add_project(
        agent,
        seed.name,
        letters,
        description=seed.description,
        members=[account(plane, name)["id"] for name in seed.members],
        seed_id=seed.id,
    )
    for label in seed.labels:
        plane.add(project, "labels", agent, name=label)
    for cycle in seed.cycles:
        dates = {"start_date": cycle.start_date, "end_date": cycle.end_date}
        plane.add(project, "cycles", agent, name=cycle.name, **dates)
    for module in seed.modules:
        plane.add(project, "modules", agent, name=module)
    for issue in seed.issues:
        _add_issue(plane, project, agent, issue)


def _add_issue(plane: Plane, project: Document, agent: Document, seed: BoardIssue) -> None:
    def named(kind: str, name: str) -> Document:
        table = project["tables"][kind].values()
        found: Document | None = next((one for one in table if one["name"] == name), None)
        if found is None and kind == "labels":
            found = plane.add(project, kind, agent, name=name)
        if found is None:
            raise ValueError(f"the seed names {name!r}, which is not among the {kind} of its board")
        return found

    issue = plane.add_issue(
        project,
        agent,
        seed.name,
        description_html=f"<p>{seed.description}</p>",
        state=named("states", seed.state)["id"],
        priority=seed.priority,
        assignees=[account(plane, name)["id"] for name in seed.assignees],
        labels=[named("labels", name)["id"] for name in seed.labels],
        start_date=seed.start_date,
        target_date=seed.target_date,
        seed_id=seed.id,
    )
    for kind, name in (("cycles", seed.cycle), ("modules", seed.module)):
        if name:
            named(kind, name)["issues"].append(issue["id"])
