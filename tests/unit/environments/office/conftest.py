"""Companies for tests: on the host, at free ports, each with the same small seed."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from practicum.environments.office.companies import Companies, OpenCompany
from practicum.environments.office.company_seed import (
    Channel,
    Commit,
    CompanySeed,
    Issue,
    MergeRequest,
    Person,
    Post,
    Project,
)
from practicum.environments.office.services.all_services import PORTS

SEED = CompanySeed(
    name="test",
    people=(
        Person(username="ann_lee", name="Ann Lee", role="CTO"),
        Person(username="bo_cruz", name="Bo Cruz", role="Engineer"),
    ),
    channels=(
        Channel(
            name="sales",
            members=("ann_lee",),
            posts=(Post(sender="ann_lee", text="Good morning"),),
        ),
        Channel(name="board", owners=("ann_lee",), is_private=True),
    ),
    projects=(
        Project(
            path="root/shop",
            files={"README.md": "# Shop\n", "src/price.py": "PRICE = 1\n"},
            commits=(
                Commit(message="Raise", files={"src/price.py": "PRICE = 2\n"}, branch="raise"),
            ),
            issues=tuple(Issue(title=f"Issue {n}", labels=("bug",)) for n in range(25)),
            merge_requests=(MergeRequest(title="Raise the price", source_branch="raise"),),
            members={"ann_lee": 30},
        ),
        Project(path="root/secret", visibility="private", files={"plan.txt": "hidden\n"}),
    ),
)


@dataclass(frozen=True)
class Served:
    """A company, and where its services are on the host."""

    company: OpenCompany
    ports: dict[int, int]

    def url(self, port: int) -> str:
        return f"http://127.0.0.1:{self.ports[port]}"


@pytest.fixture(scope="session")
def companies() -> Iterator[Companies]:
    opened = Companies()
    yield opened
    opened.close()


def listening() -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    return listener


def serve(companies: Companies, seed: CompanySeed = SEED) -> Served:
    listeners = {port: listening() for port in PORTS}
    places = {port: one.getsockname()[1] for port, one in listeners.items()}
    stands_for = {place: port for port, place in places.items()}
    company = companies.open_now(seed, list(listeners.values()), stands_for)
    return Served(company, places)


@pytest.fixture
def served(companies: Companies) -> Iterator[Served]:
    found = serve(companies)
    yield found
    found.company.close()
