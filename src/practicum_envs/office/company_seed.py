"""`CompanySeed`: what a company has when an episode begins, as plain records.

Everything has a default, so that a task writes only what it is about:

    CompanySeed(
        channels=(Channel(name="sales", members=("ann_lee",)),),
        projects=(Project(path="root/shop", files={"README.md": "# Shop"}),),
        files={"Documents/prices.csv": "item,price"},
    )

`a + b` has all of both. `build_company` turns a seed into a snapshot.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

AGENT = "theagentcompany"
"""The account of the agent in RocketChat, ownCloud and Plane; its password is the same."""
PASSWORD = "theagentcompany"
GITLAB_ADMIN = "root"
GITLAB_TOKEN = "root-token"
PLANE_KEY = "plane_api_83f868352c6f490aba59b869ffdae1cf"
PLANE_WORKSPACE = "tac"
NOW = "2026-03-02T09:00:00+00:00"
"""A Monday morning: the time when a company's working day begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Someone with an account in every service."""

    username: str
    """Such as `sarah_johnson`."""
    name: str
    role: str = ""
    """The job, such as `CTO`."""
    about: str = ""
    password: str = PASSWORD
    is_admin: bool = False
    plane_id: str = ""
    """Made up where it is empty."""

    @property
    def email(self) -> str:
        """The address, which is also the login and the password in Plane.

        >>> Person(username="sarah_johnson", name="Sarah Johnson").email
        'sarah.johnson@agentcompany.com'
        """
        return f"{self.username.replace('_', '.')}@agentcompany.com"

    def knows(
        self, *facts: "Fact", sends_to: "Person | None" = None, greeting: str = ""
    ) -> "Colleague":
        """This person as one who answers in chat."""
        other = sends_to.username if sends_to else ""
        return Colleague(username=self.username, facts=facts, sends_to=other, greeting=greeting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """A message in a channel or between two people."""

    sender: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A channel of RocketChat; the first owner made it."""

    name: str
    members: tuple[str, ...] = ()
    """Besides the owners, moderators and leaders."""
    owners: tuple[str, ...] = (AGENT,)
    moderators: tuple[str, ...] = ()
    leaders: tuple[str, ...] = ()
    topic: str = ""
    description: str = ""
    announcement: str = ""
    is_private: bool = False
    is_read_only: bool = False
    posts: tuple[Post, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Direct messages between two people."""

    between: tuple[str, str]
    posts: tuple[Post, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A change of a repository; a file of None is deleted."""

    message: str
    files: Mapping[str, str | None]
    author: str = GITLAB_ADMIN
    branch: str = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue of GitLab; `notes` are comments."""

    title: str
    description: str = ""
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    author: str = GITLAB_ADMIN
    milestone: str = ""
    due_date: str | None = None
    is_closed: bool = False
    notes: tuple[Post, ...] = ()
    number: int | None = None
    """The number in its address; the next free one where it is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """A merge request; its source branch has commits of its own."""

    title: str
    source_branch: str
    target_branch: str = ""
    """The project's default branch unless given."""
    description: str = ""
    author: str = GITLAB_ADMIN
    assignees: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    notes: tuple[Post, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project of GitLab with its repository; `files` are the first commit on main."""

    path: str
    """With its namespace, such as `root/shop`."""
    description: str = ""
    visibility: Literal["private", "internal", "public"] = "public"
    files: Mapping[str, str] = field(default_factory=dict)
    commits: tuple[Commit, ...] = ()
    members: Mapping[str, int] = field(default_factory=dict)
    """Access level by username: 10 guest, 20 reporter, 30 developer, 40 maintainer, 50 owner."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Colour by name."""
    milestones: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()
    merge_requests: tuple[MergeRequest, ...] = ()
    wikis: Mapping[str, str] = field(default_factory=dict)
    """Content by title."""
    origin: str = ""
    """A folder with a clone whose history is taken instead of `files`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardIssue:
    """An issue of Plane."""

    name: str
    description: str = ""
    state: str = "Backlog"
    priority: Literal["none", "low", "medium", "high", "urgent"] = "none"
    assignees: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    cycle: str = ""
    module: str = ""
    start_date: str | None = None
    target_date: str | None = None
    id: str = ""
    """Made up where it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """A sprint of Plane."""

    name: str
    start_date: str | None = None
    end_date: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A project of Plane, with the five states it always has."""

    name: str
    identifier: str = ""
    """Letters before an issue's number; the name's own where it is empty."""
    description: str = ""
    members: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    cycles: tuple[Cycle, ...] = ()
    modules: tuple[str, ...] = ()
    issues: tuple[BoardIssue, ...] = ()
    id: str = ""
    """The one in its pages' addresses; made up where it is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something a colleague tells when a message asks for it."""

    when: tuple[str, ...]
    """Words; a message that has one word of each of these (`budget|money`), or a synonym of it,
    asks for the fact."""
    say: str
    again: tuple[str, ...] = ()
    """Said in turn when it is asked for again; the last of them ever after."""
    needs: tuple[str, ...] = ()
    """Words that must have been in an earlier or this message, such as a reason or an approval;
    who has asked before is told as soon as they are there."""
    otherwise: str = "I cannot tell you that yet."
    """Said when `needs` is not met; where it is empty, as if there were no such fact."""
    also: tuple[str, ...] = ()
    """Words of which one is enough where no fact's `when` fits, the surest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Colleague:
    """How a person answers in chat. Without one, a person does not answer."""

    username: str
    facts: tuple[Fact, ...] = ()
    sends_to: str = ""
    """The username of who knows more; named when nothing else fits."""
    greeting: str = ""
    """Said to what asks for nothing it knows; a plain sentence where it is empty."""
    otherwise: str = ""
    """Said to a question that it has no answer to, instead of the greeting."""
    is_silent: bool = False
    """Reads and never answers."""
    is_brief: bool = False
    """Where a question fits several facts equally, only the first is told."""
    persona: str = ""
    goal: str = ""
    """For colleagues that a model plays: who they are, and what they know and want."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanySeed:
    """A company at the beginning of an episode."""

    name: str = "company"
    people: tuple[Person, ...] = ()
    channels: tuple[Channel, ...] = ()
    talks: tuple[Talk, ...] = ()
    projects: tuple[Project, ...] = ()
    boards: tuple[Board, ...] = ()
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    """The files in ownCloud, by path; bytes for what is no text."""
    folders: tuple[str, ...] = ()
    """Folders in ownCloud that may be empty."""
    colleagues: tuple[Colleague, ...] = ()
    clock: Literal["ticking", "real"] = "ticking"
    """`ticking`: the time is the same in every episode; `real`: the machine's."""

    def __add__(self, other: "CompanySeed") -> "CompanySeed":
        """All of both; the name and the clock are the first one's."""
        return CompanySeed(
            name=self.name,
            people=(*self.people, *other.people),
            channels=(*self.channels, *other.channels),
            talks=(*self.talks, *other.talks),
            projects=(*self.projects, *other.projects),
            boards=(*self.boards, *other.boards),
            files={**self.files, **other.files},
            folders=(*self.folders, *other.folders),
            colleagues=(*self.colleagues, *other.colleagues),
            clock=self.clock,
        )

    def fingerprint(self) -> str:
        """The same for equal seeds: the name of the snapshot built from it."""
        return hashlib.sha256(json.dumps(asdict(self), default=_hashed).encode()).hexdigest()[:32]


def _hashed(value: Any) -> Any:
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()
    return dict(value)
