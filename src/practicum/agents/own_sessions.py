"""What a session of the user's own code must be, told before a model is loaded."""

import inspect
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from practicum.agents.waiting import (
    ANSWER_TIMEOUT_S,
    answer_timeout,
    interrupting_blocked_answers,
    timed_boundary,
)
from practicum.core.capabilities import HasReference, actions_of
from practicum.core.errors import EnvironmentFailure, UserError
from practicum.core.interfaces import DiscreteSession, Environment, Observation
from practicum.core.sampling import ActionForm, Actions, action_problems
from practicum.core.task import Outcome, Task
from practicum.core.trace import Message
from practicum.core.user_code import names_code, place_of

WAYS = (("actions", "act"), ("tools", "call"))
LOOK_TURNS = 8
LOOK_S = 2.0
"""How much of the first solution is played to see which actions there are."""


async def check_own_session(
    name: str, environment: Environment, seconds: float = ANSWER_TIMEOUT_S
) -> set[Actions]:
    """Open a session of the user's own code, take some turns, and raise where no agent could.

    What the code raises by itself, and that it does not answer, is left to episodes, which tell
    it with its line.

    Returns:
        The actions that it offered; the model of a run must be able to choose among them.
    """
    offered: set[Actions] = set()
    if not names_code(name):
        return offered
    timer = interrupting_blocked_answers(seconds)
    with suppress(EnvironmentFailure), answer_timeout(seconds), timer:
        async with timed_boundary(EnvironmentFailure, f"environment {name!r}"):
            await check_session(environment, offered)
    return offered


async def check_session(environment: Environment, offered: set[Actions]) -> None:
    """Raise `UserError` for a session that is not what agents work with; add what it offers."""
    for task in islice(environment.tasks("train", 0), 1):
        opening: Any = environment.open(task)
        if not hasattr(opening, "__aenter__"):
            raise UserError(
                f"`open`{place_of(environment.open)} gives {_said(opening)}, which `async "
                "with` cannot enter; write @contextlib.asynccontextmanager above it"
            )
        async with opening as session:
            await _take_turns(session, _solution(environment, task), offered)


def _solution(environment: Environment, task: Task) -> list[str]:
    """The first turns of the reference; none where there is none, or it fails."""
    if isinstance(environment, HasReference):
        with suppress(Exception):  # user code; --check and episodes tell what it raises
            return list(environment.reference(task))[:LOOK_TURNS]
    return []


async def _take_turns(session: Any, solution: Sequence[str], offered: set[Actions]) -> None:
    if missing := _missing(session):
        raise UserError(
            f"the session, a {type(session).__name__}{place_of(session)}, has no {missing}; it "
            "needs prompt, outcome, and either actions and act or tools and call"
        )
    _all_are(Message, session.prompt, session.prompt())
    if isinstance(session, DiscreteSession):
        until = time.monotonic() + LOOK_S
        forms = _actions(session)
        plain = [form.name for form in forms if form.argument is None]
        for text in solution or plain[:1]:
            offered |= {forms} if forms else set()
            seen = await _answer(Observation, session.act, text)
            if seen.terminated or time.monotonic() > until:
                break
            forms = _actions(session)
    await _answer(Outcome, session.outcome)


def _actions(session: DiscreteSession) -> Actions:
    """The actions that a session offers now, if their names will do."""
    _all_are(ActionForm, session.actions, session.actions())
    forms = actions_of(session)
    for problem in action_problems(forms):
        raise UserError(f"`actions`{place_of(session.actions)}: {problem}")
    return forms


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
            is_plain = kind is ActionForm and isinstance(one, str)
            form = f", such as practicum.ActionForm(name={one!r})" if is_plain else ""
            raise _wrong(method, one, f"a practicum.{kind.__name__} for each of its list{form}")


async def _answer(kind: type, method: Any, *arguments: str) -> Any:
    given = method(*arguments)
    if not inspect.isawaitable(given):
        raise _wrong(method, given, f"something to await: write `async def {method.__name__}`")
    answer = await given
    if not isinstance(answer, kind):
        raise _wrong(method, answer, f"a practicum.{kind.__name__}")
    return answer


def _wrong(method: Any, given: Any, wanted: str) -> UserError:
    where = f"`{method.__name__}`{place_of(method)}"
    return UserError(f"{where} gives {_said(given)}, and should give {wanted}")


def _said(given: Any) -> str:
    return repr(given) if isinstance(given, str | int | float) else f"one {type(given).__name__}"
