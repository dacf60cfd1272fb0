"""A company for each test, and the process that all of them share."""

from collections.abc import Iterator

import pytest

from practicum_envs.office.companies import Companies
from practicum_envs.office.office_client import Office
from practicum_envs.office.tests.serving_companies import Served, serve


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
