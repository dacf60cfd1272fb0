"""`Colleagues`: the people of a company who answer in chat.

By default they are scripted and deterministic: a colleague tells a fact when a message asks for it,
refuses while what it needs has not been said, and otherwise says who may know. With an endpoint, a
model plays those with a persona or a goal.
"""

from typing import Any

from practicum.environments.office.company_state import Company
from practicum.environments.office.services.web import Document


class Colleagues:
    """Answers for all colleagues of a company."""

    def __init__(self, company: Company, endpoint: dict[str, Any] | None = None) -> None:
        self._company = company
        self._endpoint = endpoint

    def on_message(self, room: Document, message: Document) -> None:
        """Let whoever was spoken to answer."""
