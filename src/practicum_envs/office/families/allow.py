"""What families let their tasks change, in their own words."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from practicum_envs.office.allowed_changes import Allowed
from practicum_envs.office.company_seed import AGENT, Person

MOST_ASKED = 20
"""Messages to a colleague whom the task sends the agent to."""


def file(*paths: str) -> tuple[Allowed, ...]:
    """Files of ownCloud, made, changed or deleted, and the folders they need."""
    return (*(Allowed(("owncloud", "files", AGENT, path)) for path in paths), *_folders(paths))


def moved(paths: Mapping[str, str]) -> tuple[Allowed, ...]:
    """Files of ownCloud that go from one place to another."""
    old = (Allowed(("owncloud", "files", AGENT, path), "removed") for path in paths)
    new = (Allowed(("owncloud", "files", AGENT, path), "added") for path in paths.values())
    return (*old, *new, *_folders(paths.values()))


def _folders(paths: Iterable[str]) -> Iterable[Allowed]:
    above = {f"{one}/" for path in paths for one in PurePosixPath(path).parents if one.name}
    return (Allowed(("owncloud", "files", AGENT, one), "added") for one in sorted(above))


def post(where: str) -> Allowed:
    """One message to `#channel` or `@person`."""
    return Allowed(("rocketchat", "rooms", where, "messages"), "added", {"by": AGENT}, 1)


def talk(*people: Person) -> tuple[Allowed, ...]:
    """Direct messages with people who have to be asked."""
    rooms = (("rocketchat", "rooms", f"@{one.username}", "messages") for one in people)
    return tuple(Allowed(room, "added", {"by": AGENT}, MOST_ASKED) for room in rooms)


def room(name: str, *below: str) -> Allowed:
    """A channel, or one thing about it."""
    return Allowed(("rocketchat", "rooms", f"#{name}", *below))


def members(name: str, people: Iterable[str]) -> Allowed:
    """A channel whose members are to be these."""
    return Allowed(room(name, "members").where, "changed", frozenset(people))


def project(path: str, *below: str) -> Allowed:
    """A place in a project of GitLab, such as `issues, 3, state`."""
    return Allowed(("gitlab", "projects", path, *below))


def new(allowed: Allowed, most: int = 1, **having: object) -> Allowed:
    """Of a place, only so many new things, with these values."""
    return Allowed(allowed.where, "added", having, most)


def new_at(*where: str, **having: object) -> Allowed:
    """One new thing, with these values."""
    return Allowed(where, "added", having, 1)


def gone(allowed: Allowed) -> Allowed:
    """A thing that may be deleted."""
    return Allowed(allowed.where, "removed")


def new_issue(path: str, most: int = 1) -> Allowed:
    """Issues of a project that are made."""
    return new(project(path, "issues", "*"), most, confidential=False)


def board(name: str, *below: str) -> Allowed:
    """A place on a board of Plane, such as `issues, Fix the search, state`."""
    return Allowed(("plane", "projects", name, "tables", *below))
