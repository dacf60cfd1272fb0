"""Bash for references and near-misses."""

import shlex

from practicum_envs.office.company_seed import Person

PLANE_PEOPLE = "office plane GET members/ | grep email"
"""Show the addresses by which Plane knows people."""
GIT = "git -c user.name=agent -c user.email=agent@example.com"
"""git with a name to commit under."""


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


def make(code: str, name: str, path: str) -> str:
    """Run lines of Python that write a file of the workspace, and upload it."""
    return f"{python(code)}\n{put(name, path)}"


def upload(name: str, text: str, path: str) -> str:
    """Write a file of the workspace, and upload it."""
    return f"{write(name, text)}\n{put(name, path)}"


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
