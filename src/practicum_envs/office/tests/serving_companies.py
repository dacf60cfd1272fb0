"""Companies for tests: on the host, at free ports, each with the same small seed."""

import socket
from dataclasses import dataclass

from practicum_envs.office.companies import Companies, OpenCompany
from practicum_envs.office.company_seed import (
    Board,
    BoardIssue,
    Channel,
    Colleague,
    Commit,
    CompanySeed,
    Cycle,
    Fact,
    Issue,
    MergeRequest,
    Person,
    Post,
    Project,
)
from practicum_envs.office.services.all_services import PORTS

SEED = CompanySeed(
    name="test",
    people=(
        Person(username="ann_lee", name="Ann Lee", role="CTO"),
        Person(username="bo_cruz", name="Bo Cruz", role="Engineer"),
        Person(username="cy_holm", name="Cy Holm", role="Finance"),
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
    boards=(
        Board(
            name="Shop",
            members=("ann_lee",),
            cycles=(Cycle(name="Sprint 1", start_date="2026-03-01", end_date="2026-03-14"),),
            issues=(BoardIssue(name="Pay by card", state="Todo", cycle="Sprint 1"),),
        ),
    ),
    files={"Documents/Data Analysis/prices.csv": "item,price\n", "Documents/logo.png": b"\x89PNG"},
    colleagues=(
        Colleague(
            username="bo_cruz",
            facts=(
                Fact(
                    when=("password|key", "server"),
                    needs=("approved|approval",),
                    say="It is correct-horse.",
                    otherwise="Ann must approve that first.",
                ),
            ),
            sends_to="cy_holm",
        ),
        Colleague(
            username="cy_holm",
            facts=(Fact(when=("budget",), say="It is $500.", again=("As I said, $500.",)),),
            greeting="Hello, Cy here.",
        ),
    ),
)


@dataclass(frozen=True)
class Served:
    """A company, and where its services are on the host."""

    company: OpenCompany
    ports: dict[int, int]

    def url(self, port: int) -> str:
        return f"http://127.0.0.1:{self.ports[port]}"


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
