"""A company for each test, and the process that all of them share."""

from collections.abc import Iterator

import pytest
from tests.unit.environments.office.serving_companies import Served, serve

from practicum.environments.office.companies import Companies
from practicum.environments.office.office_client import Office


@pytest.fixture(scope="session")
def companies() -> Iterator[Companies]:
    opened = Companies()
    yield opened
    opened.close()


@pytest.fixture
def served(companies: Companies) -> Iterator[Served]:
    found = serve(companies)
    yield found
    faults = found.company.faults
    found.company.close()
    assert not faults


@pytest.fixture
def office(served: Served) -> Office:
    return served.company.office
