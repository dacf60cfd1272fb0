"""What families are written with: the text of a task, checkpoints, tables, wrong solutions."""

from collections.abc import Callable, Sequence

from practicum.environments.office.company_seed import CompanySeed
from practicum.environments.office.evidence import Evidence
from practicum.environments.office.office_plan import Checkpoint, ServiceName

WHERE: dict[ServiceName, str] = {
    "rocketchat": "RocketChat is at http://the-agent-company.com:3000 (`office rocketchat ...`).",
    "gitlab": (
        "GitLab is at http://the-agent-company.com:8929 (`office gitlab ...`); clone from "
        "http://root:theagentcompany@the-agent-company.com:8929/root/PROJECT.git."
    ),
    "plane": "Plane is at http://the-agent-company.com:8091 (`office plane ...`).",
    "owncloud": "ownCloud is at http://the-agent-company.com:8092 (`office files ...`).",
}
CLOSING = "Change nothing else in the company, and write to nobody who is not named here."


def brief(role: str, *lines: str, where: Sequence[ServiceName]) -> str:
    """A task as the agent reads it: who it is, what to do, where the services are."""
    places = " ".join(WHERE[one] for one in where)
    return "\n".join((f"You are {role} of a company.", *lines, places, CLOSING))


def must(says: str, passes: Callable[[Evidence], bool | int], points: int = 1) -> Checkpoint:
    """A checkpoint."""
    return Checkpoint(says=says, passes=passes, points=points)


def table(rows: Sequence[Sequence[object]]) -> str:
    r"""Rows as csv.

    >>> table([("item", "price"), ("lamp", 3)])
    'item,price\nlamp,3\n'
    """
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


def table_checks(
    says: str, path: str, wanted: list[tuple[str, ...]], company: CompanySeed
) -> tuple[Checkpoint, ...]:
    """Checkpoints of a csv file in ownCloud: its lines, their order, and no other change."""

    def has_lines(seen: Evidence) -> bool:
        return sorted(seen.rows(path)) == sorted(wanted)

    def is_ordered(seen: Evidence) -> bool:
        return seen.rows(path) == wanted

    def is_alone(seen: Evidence) -> bool:
        return has_lines(seen) and seen.changed_files(company) == {path}

    return (
        must(says, has_lines, 2),
        must("the lines are in order", is_ordered),
        must("no other file has changed", is_alone),
    )


def edited(scripts: Sequence[str], *changes: tuple[str, str]) -> tuple[str, ...]:
    """A solution with something wrong in it; each change must be possible.

    >>> edited(("echo 1",), ("1", "2"))
    ('echo 2',)
    """
    found = list(scripts)
    for old, new in changes:
        if not any(old in script for script in found):
            raise ValueError(f"no script has {old!r}")
        found = [script.replace(old, new) for script in found]
    return tuple(found)
