"""A company from a checkout of TheAgentCompany: its people, channels and boards; its scenarios.

Nothing of the benchmark is in this package: the user names the folder. What is not in its
repository (documents, chat history, repositories) is not in the company either.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from practicum.core.errors import UserError
from practicum_envs.office.company_seed import (
    AGENT,
    Board,
    Channel,
    Colleague,
    CompanySeed,
    Cycle,
    Person,
    Project,
)
from practicum_envs.office.stage_directions import colleague_of

PEOPLE = "servers/rocketchat/npc/npc_definition.json"
CREDENTIALS = "workspaces/base_image/npc/npc_credential.json"
BOARDS = "servers/plane/README.md"
WIKI = "servers/gitlab/wikis/Home.md"
SPRINTS = (
    Cycle(name="Sprint 1", start_date="2024-10-01", end_date="2024-10-31"),
    Cycle(name="Sprint 2", start_date="2024-11-01", end_date="2024-11-30"),
)
TECHNICAL = ("engineering", "tech-talk", "frontend", "product")
"""Channels, besides those of projects, that count as technical."""


def company_from_checkout(checkout: Path) -> CompanySeed:
    """The company that a checkout describes; `UserError` where the folder is none."""
    defined = _read(checkout, PEOPLE)
    logins = _read(checkout, CREDENTIALS)
    people, wanted = [], {}
    for one in defined:
        name = f"{one['first_name']} {one['last_name']}"
        login = logins.get(name)
        if login is None:
            continue  # the agent itself has no credentials there
        person = Person(
            username=login["username"],
            name=name,
            role=one.get("occupation", ""),
            about=one.get("public_info", ""),
            password=login["password"],
        )
        people.append(person)
        wanted[person.username] = str(one.get("slack_channels", ""))
    return CompanySeed(
        name="theagentcompany",
        people=tuple(people),
        channels=_channels(wanted),
        boards=_boards(checkout, [person.username for person in people]),
        projects=_projects(checkout),
        clock="real",
    )


def _read(checkout: Path, name: str) -> Any:
    path = checkout / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{checkout} is no checkout of TheAgentCompany: {name} cannot be read ({error}); "
            "type: git clone https://github.com/TheAgentCompany/TheAgentCompany"
        ) from None


def _channels(wanted: Mapping[str, str]) -> tuple[Channel, ...]:
    """The channels that people name, with those who want to be in them."""
    named = {name for text in wanted.values() for name in re.findall(r"#([\w-]+)", text)}
    projects = {name for name in named if name.startswith("project-")}
    inside: dict[str, list[str]] = {name: [] for name in sorted(named | {"general"})}
    for username, text in wanted.items():
        own = set(re.findall(r"#([\w-]+)", text)) | {"general"}
        if "All technical channels" in text:
            own |= projects | (named & set(TECHNICAL))
        if "All project channels" in text:
            own |= projects
        for name in sorted(own):
            inside[name].append(username)
    # Not the agent's own: tasks ask it to become the owner of a channel.
    return tuple(
        Channel(name=name, members=(*who, AGENT), owners=(who[0],)) for name, who in inside.items()
    )


def _boards(checkout: Path, people: list[str]) -> tuple[Board, ...]:
    """The projects that the text about Plane lists."""
    path = checkout / BOARDS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.findall(r"^\d+\. \*\*(.+?)\*\* \((.+?)\)", text, re.MULTILINE)
    boards = []
    for number, (title, about) in enumerate(found):
        name = about.partition(" ")[0] if about.split("&")[0].strip() == about else title
        letters = re.sub(r"[^A-Z]", "", f"{name}{title}".upper())[:4] + str(number + 1)
        boards.append(
            Board(
                name=name,
                identifier=letters,
                description=f"{title}: {about}",
                members=tuple(people),
                cycles=SPRINTS,
            )
        )
    return tuple(boards)


def _projects(checkout: Path) -> tuple[Project, ...]:
    """The project with the company's wiki."""
    path = checkout / WIKI
    if not path.is_file():
        return ()
    wiki = path.read_text(encoding="utf-8")
    return (
        Project(
            path="root/doc",
            description="Company-wide documentation",
            files={"README.md": "# Documentation\n"},
            wikis={"home": wiki},
        ),
    )


def colleagues_from_scenarios(
    scenarios: Mapping[str, Mapping[str, str]], company: CompanySeed
) -> tuple[Colleague, ...]:
    """Colleagues from a task's `scenarios.json`: name to `extra_info` and `strategy_hint`."""
    by_name = {person.name: person for person in company.people}
    found = []
    for name, scenario in scenarios.items():
        person = by_name.get(name)
        if person is None:
            raise UserError(
                f"the scenario names {name!r}, who is not in the company; there are "
                f"{', '.join(sorted(by_name))}"
            )
        found.append(colleague_of(person, scenario))
    return tuple(found)
