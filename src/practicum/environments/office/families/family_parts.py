"""What families are written with: the text of a task, bash for solutions, words of its world."""

import random
import shlex
from collections.abc import Callable, Sequence

from practicum.environments.office.company_seed import Person
from practicum.environments.office.office_plan import Checkpoint, Evidence, ServiceName, Setting

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
GIT = "git -c user.name=agent -c user.email=agent@example.com"
"""git with a name to commit under."""
PRODUCTS = (
    *("desk lamp", "office chair", "monitor stand", "keyboard", "headset", "webcam", "notebook"),
    *("whiteboard", "coffee maker", "label printer", "projector", "docking station", "stapler"),
)
CUSTOMERS = (
    *("Acorn Foods", "Birch Travel", "Cobalt Labs", "Delta Freight", "Ember Studio", "Fjord Bank"),
    *("Granite Works", "Harbor Clinic", "Indigo Press", "Juniper Farms", "Kite Telecom", "Lumen"),
)
CITIES = ("Oslo", "Lisbon", "Zagreb", "Nairobi", "Quito", "Hanoi", "Tampere", "Izmir", "Porto")
AREAS = ("billing", "search", "login", "export", "reports", "checkout", "profile", "upload")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")


def brief(role: str, *lines: str, where: Sequence[ServiceName]) -> str:
    """A task as the agent reads it: who it is, what to do, where the services are."""
    places = " ".join(WHERE[one] for one in where)
    return "\n".join((f"You are {role} of a company.", *lines, places, CLOSING))


def must(says: str, passes: Callable[[Evidence], bool | int], points: int = 1) -> Checkpoint:
    """A checkpoint."""
    return Checkpoint(says=says, passes=passes, points=points)


def with_role(setting: Setting, role: str) -> Person:
    """The first person with a job."""
    return next(one for one in setting.base.people if one.role == role)


def date_in(rng: random.Random, year: int = 2026) -> str:
    """A day of a year.

    >>> date_in(random.Random(1))
    '2026-03-19'
    """
    return f"{year}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"


def table(rows: Sequence[Sequence[object]]) -> str:
    r"""Rows as csv.

    >>> table([("item", "price"), ("lamp", 3)])
    'item,price\nlamp,3\n'
    """
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


# Bash for references and near-misses.


def q(text: str) -> str:
    """A word of bash."""
    return shlex.quote(text)


def post(where: str, text: str) -> str:
    """Say something in `#channel` or to `@person`."""
    return f"office rocketchat POST chat.postMessage channel={q(where)} text={q(text)}"


def read_talk(username: str) -> str:
    """Show the direct messages with someone."""
    return f"office rocketchat GET im.history roomId={username} /messages/0/msg"


def fetch(*paths: str) -> str:
    """Download files of ownCloud into the workspace."""
    return "\n".join(f"office files get {q(path)}" for path in paths)


def put(name: str, path: str) -> str:
    """Upload a file of the workspace."""
    return f"office files put {q(name)} {q(path)}"


def write(name: str, text: str) -> str:
    """Write a file of the workspace."""
    return f"cat > {q(name)} <<'END'\n{text.rstrip()}\nEND"


def python(code: str) -> str:
    """Run lines of Python."""
    return f"python3 - <<'END'\n{code.strip()}\nEND"


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


def on_board(board: str, *lines: str) -> str:
    """Commands for a board of Plane, whose route is in $P."""
    where = q(f"/results/name={board}/id")
    return "\n".join((f"P=projects/$(office plane GET projects/ {where})", *lines))


def plane_id(kind: str, name: str) -> str:
    """Bash for the id of an issue, state, label or cycle of the board."""
    return f"$(office plane GET $P/{kind}/ {q(f'/results/name={name}/id')})"


def plane_user(person: Person) -> str:
    """Bash for the id of someone in Plane."""
    return f"$(office plane GET members/ /email={person.email}/id)"


def ask(*questions: tuple[Person, str]) -> tuple[str, ...]:
    """Ask people in turn by direct message, and read what each answers."""
    steps = ((post(f"@{who.username}", text), read_talk(who.username)) for who, text in questions)
    return tuple(step for pair in steps for step in pair)
