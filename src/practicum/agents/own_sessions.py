"""What a session of the user's own code must be, told before a model is loaded."""

import inspect
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

from practicum.agents.waiting import (
    ANSWER_TIMEOUT_S,
    answer_timeout,
    interrupting_blocked_answers,
    timed_boundary,
)
from practicum.core.capabilities import actions_of
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import DiscreteSession, Environment, Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome
from practicum.core.trace import Message
from practicum.core.user_code import names_code, place_of

WAYS = (("actions", "act"), ("tools", "call"))


async def check_own_session(
    name: str, environment: Environment, seconds: float = ANSWER_TIMEOUT_S
) -> None:
    """Open a session of the user's own code, take one turn, and raise where no agent could.

    What the code raises by itself, and that it does not answer, is left to episodes, which tell
    it with its line.
    """
    if not names_code(name):
        return
    timer = interrupting_blocked_answers(seconds)
    with suppress(EnvironmentFailure), answer_timeout(seconds), timer:
        async with timed_boundary(EnvironmentFailure, f"environment {name!r}"):
            await check_session(environment)


async def check_session(environment: Environment) -> None:
    """Raise `UserError` for a session that is not what agents work with."""
    for task in islice(environment.tasks("train", 0), 1):
        opening: Any = environment.open(task)
        if not hasattr(opening, "__aenter__"):
            raise UserError(
                f"`open`{place_of(environment.open)} gives {_said(opening)}, which `async "
                "with` cannot enter; write @contextlib.asynccontextmanager above it"
            )
        async with opening as session:
            await _take_one_turn(session)


async def _take_one_turn(session: Any) -> None:
    if missing := _missing(session):
        raise UserError(
            f"the session, a {type(session).__name__}{place_of(session)}, has no {missing}; it "
            "needs prompt, outcome, and either actions and act or tools and call"
        )
    _all_are(Message, session.prompt, session.prompt())
    if isinstance(session, DiscreteSession):
        _all_are(ActionForm, session.actions, session.actions())
    plain = [form.name for form in actions_of(session) if form.argument is None]
    if plain:
        await _answer(Observation, session.act, plain[0])
    await _answer(Outcome, session.outcome)


def _missing(session: Any) -> str:
    """The methods that it lacks, of the way of acting that it has more of."""

    def lacks(names: Iterable[str]) -> list[str]:
        return [name for name in names if not callable(getattr(session, name, None))]

    return " and no ".join(lacks(("prompt", "outcome")) + min(map(lacks, WAYS), key=len))


def _all_are(kind: type, method: Any, given: Any) -> None:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise _wrong(method, given, f"a list of practicum.{kind.__name__}")
    for one in given:
        if not isinstance(one, kind):
            raise _wrong(method, one, f"a practicum.{kind.__name__} for each of its list")


async def _answer(kind: type, method: Any, *arguments: str) -> None:
    given = method(*arguments)
    if not inspect.isawaitable(given):
        raise _wrong(method, given, f"something to await: write `async def {method.__name__}`")
    answer = await given
    if not isinstance(answer, kind):
        raise _wrong(method, answer, f"a practicum.{kind.__name__}")


def _wrong(method: Any, given: Any, wanted: str) -> UserError:
    where = f"`{method.__name__}`{place_of(method)}"
    return UserError(f"{where} gives {_said(given)}, and should give {wanted}")


def _said(given: Any) -> str:
    return repr(given) if isinstance(given, str | int | float) else f"one {type(given).__name__}"
