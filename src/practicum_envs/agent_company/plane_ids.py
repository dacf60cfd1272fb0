"""Ids of Plane's database, as far as the benchmark's tasks tell whose they are.

Tasks link to boards and issues, and graders compare assignees, by ids that only Plane's image has.
What each stands for follows from what else the same task names.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from practicum_envs.agent_company.checkout import BenchmarkTask
from practicum_envs.agent_company.verdicts import boards_of

UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
BOARD = re.compile(rf"""(?:/projects/|PROJECT_ID\s*=\s*['"])({UUID})""")
ISSUE = re.compile(rf"'([^'\n]+)'\s+https?:\S*/issues/({UUID})")
"""An issue's name right before its address."""
TITLED = re.compile(rf"""['"]({UUID})['"]\s*:\s*['"](.+?)['"]""")
"""In a grader, an id and the title of what is assigned to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneIds:
    """Ids by what they stand for."""

    boards: Mapping[str, str]
    """By the names that graders know."""
    spare: tuple[str, ...]
    """Boards that are linked to, and no task tells by what name."""
    issues: Mapping[str, str]
    people: Mapping[str, str]
    """By username."""

    def all(self) -> frozenset[str]:
        """Every id that leads somewhere."""
        found = (self.boards, self.issues, self.people)
        return frozenset(self.spare).union(*(one.values() for one in found))


def plane_ids(tasks: Sequence[BenchmarkTask], usernames: Sequence[str]) -> PlaneIds:
    """What the tasks tell; a board has the id that a task with one id and one board links to."""
    boards: dict[str, str] = {}
    issues: dict[str, str] = {}
    people: dict[str, str] = {}
    linked: dict[str, None] = {}
    for task in tasks:
        spoken = f"{task.instruction}\n{task.grader}\n{task.scenarios}"
        ids, names = sorted(set(BOARD.findall(spoken))), boards_of(task)
        linked |= dict.fromkeys(ids)
        if len(ids) == len(names) == 1:
            boards.setdefault(names[0], ids[0])
        for scenario in task.scenarios.values():
            for text in scenario.values():
                issues |= dict(ISSUE.findall(str(text)))
        for number, title in TITLED.findall(task.grader):
            who = _assignee(title, task.instruction, usernames)
            if who:
                people.setdefault(who, number)
    spare = tuple(one for one in linked if one not in boards.values())
    return PlaneIds(boards=boards, spare=spare, issues=issues, people=people)


def _assignee(title: str, instruction: str, usernames: Sequence[str]) -> str:
    """Whom a task's text names in the line with a title; Plane's usernames have no underscore."""
    for line in instruction.splitlines():
        named = [one for one in usernames if re.search(rf"\b{one.replace('_', '')}\b", line)]
        if title in line and len(named) == 1:
            return named[0]
    return ""
