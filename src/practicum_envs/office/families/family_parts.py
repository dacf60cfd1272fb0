"""What families are written with: the text of a task, checkpoints, tables, wrong solutions."""

from collections.abc import Callable, Sequence

from practicum_envs.office.evidence import Evidence, plain_rows
from practicum_envs.office.office_plan import Checkpoint, ServiceName

WHERE: dict[ServiceName, str] = {
    "rocketchat": "RocketChat is at http://the-agent-company.com:3000 (`office rocketchat ...`).",
    "gitlab": (
        "GitLab is at http://the-agent-company.com:8929 (`office gitlab ...`); clone from "
        "http://root:theagentcompany@the-agent-company.com:8929/root/PROJECT.git."
    ),
    "plane": "Plane is at http://the-agent-company.com:8091 (`office plane ...`).",
    "owncloud": "ownCloud is at http://the-agent-company.com:8092 (`office files ...`).",
}
FORMS = (
    "You are {role} of a company.\n{text}\n{places}\n"
    "Change nothing else in the company, and write to nobody who is not named here.",
    "{text}\n\nYou work for the company as {role}. Leave everything else in it as it is; nobody "
    "else needs to hear of this.\n{places}",
    "Ticket for {role}\n\n{text}\n\nWhere: {places}\nScope: this and nothing else in the company, "
    "and messages to nobody besides.",
    "Work:\n{text}\n\nWho: you, as {role} of our company\nLimits: nothing else changes, no one "
    "else is written to\nServices: {places}",
    "Hello,\n\nyou are {role} here, and this is for you. {text}\n\n{places} Please touch nothing "
    "besides, and message nobody who is not named.\nThank you!",
)
"""How a task comes to whom it is for; one form for each wording."""


def wordings(role: str, *texts: str, where: Sequence[ServiceName]) -> tuple[str, ...]:
    """A task as the agent may read it: who it is, what to do, where the services are."""
    places = " ".join(WHERE[one] for one in where)
    pairs = zip(FORMS, texts, strict=True)
    return tuple(form.format(role=role, text=text, places=places) for form, text in pairs)


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
    says: str, path: str, wanted: list[tuple[str, ...]], *, is_exact: bool = False
) -> tuple[Checkpoint, ...]:
    """Checkpoints of a csv file in ownCloud: its lines, and their order.

    Numbers may be written in any way, unless the cells have to be as they were (`is_exact`).
    """
    plain = list if is_exact else plain_rows

    def has_lines(seen: Evidence) -> bool:
        return sorted(plain(seen.rows(path))) == sorted(plain(wanted))

    def is_ordered(seen: Evidence) -> bool:
        return plain(seen.rows(path)) == plain(wanted)

    return (must(says, has_lines, 2), must("the lines are in order", is_ordered))


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
