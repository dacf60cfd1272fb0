"""What a company has besides the task: talk, documents, projects and boards of others.

Levels 3 and 4 have it in every service that they need: what a task is about has to be found.
"""

import random
from collections.abc import Collection
from dataclasses import replace

from practicum_envs.office.company_seed import (
    Board,
    BoardIssue,
    Channel,
    CompanySeed,
    Issue,
    Post,
    Project,
)
from practicum_envs.office.generated_company import (
    AREAS,
    CITIES,
    CUSTOMERS,
    DAYS,
    PRODUCTS,
)

TALK = (
    "The {product} in the meeting room is broken again.",
    "{customer} called about {area}; I will call back on {day}.",
    "Who is in {city} on {day}?",
    "The numbers of {area} look better than last week.",
    "I have moved the notes on {customer} to the folder Minutes.",
    "Lunch on {day} is at twelve.",
    "We changed {area} yesterday, please tell me if something is odd.",
    "{count} people have signed up for the visit to {city}.",
)
CODE = "def step_{n}(value):\n    return value * {n} + {more}\n"


def background(rng: random.Random, company: CompanySeed, services: Collection[str]) -> CompanySeed:
    """The company with all that goes on in these services besides."""
    found = company
    if "rocketchat" in services:
        found = replace(found, channels=tuple(_talking(rng, one, found) for one in found.channels))
    if "owncloud" in services:
        found = replace(found, files={**_documents(rng, found), **found.files})
    if "gitlab" in services:
        found = found + CompanySeed(projects=(_project(rng),))
    if "plane" in services:
        found = found + CompanySeed(boards=(_board(rng),))
    return found


def _sentence(rng: random.Random) -> str:
    return rng.choice(TALK).format(
        product=rng.choice(PRODUCTS),
        customer=rng.choice(CUSTOMERS),
        area=rng.choice(AREAS),
        day=rng.choice(DAYS),
        city=rng.choice(CITIES),
        count=rng.randrange(2, 30),
    )


def _talking(rng: random.Random, channel: Channel, company: CompanySeed) -> Channel:
    """A channel in which people talk; those of the task stay as the task has them."""
    if channel.posts:
        return channel
    who = channel.members or tuple(one.username for one in company.people)
    said = (Post(sender=rng.choice(who), text=_sentence(rng)) for _ in range(rng.randrange(4, 12)))
    return replace(channel, posts=tuple(said))


def _documents(rng: random.Random, company: CompanySeed) -> dict[str, str]:
    """Minutes of some meetings."""
    found = {}
    for week in rng.sample(range(1, 53), 8):
        there = ", ".join(one.name for one in rng.sample(company.people, 4))
        lines = [f"{n}. {_sentence(rng)}" for n in range(1, rng.randrange(20, 50))]
        found[f"Minutes/2025-week-{week:02d}.txt"] = "\n".join((f"There: {there}", "", *lines, ""))
    return found


def _project(rng: random.Random) -> Project:
    titles = [f"Look at {area} in {rng.choice(CITIES)}" for area in AREAS]
    return Project(
        path=f"root/tools-of-{rng.choice(CITIES).lower()}",
        description="Scripts that we share",
        files={
            "README.md": "# Tools\n\nOne file for each step.\n",
            **{
                f"steps/step_{n}.py": CODE.format(n=n, more=rng.randrange(100)) for n in range(1, 9)
            },
        },
        issues=tuple(Issue(title=one, is_closed=rng.random() < 0.4) for one in titles),
    )


def _board(rng: random.Random) -> Board:
    names = [f"Prepare {area} for {rng.choice(CUSTOMERS)}" for area in AREAS]
    states = ("Backlog", "Todo", "In Progress", "Done")
    return Board(
        name=f"Visits to {rng.choice(CITIES)}",
        issues=tuple(BoardIssue(name=one, state=rng.choice(states)) for one in names),
    )
