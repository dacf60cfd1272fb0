"""The policy that clients of this folder talk to, and the table of what they did."""

from collections.abc import Iterator

import pytest
from tests.clients.client_table import write_table
from tests.unit.engine.reference import build_policy

from practicum.engine.models import tiny
from practicum.engine.policy import TorchPolicy

CONTEXT_TOKENS = 32_768
"""The tiny model has a token for each byte, and frameworks write long prompts."""


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "CONTEXT_TOKENS", CONTEXT_TOKENS)
        return build_policy()


@pytest.fixture(scope="session", autouse=True)
def _table() -> Iterator[None]:
    yield
    write_table()
