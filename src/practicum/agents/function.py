"""An agent that is a Python function of the user's: `async def rollout(task, client) -> float`."""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from practicum.agents.clients import open_client
from practicum.agents.function_threads import FunctionThreads
from practicum.agents.lent_session import LentSession
from practicum.core.conversing import ReachableConversation
from practicum.core.errors import AgentFailure
from practicum.core.score import Score
from practicum.core.trace import StopReason
from practicum.core.working import AgentReport, Assignment, Limited

__all__ = ["FunctionAgent", "score_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAgent:
    """Calls `function(task, client)`, or `function(task, client, session)` if it takes three.

    What it returns is its score; one that takes the session may return None, and the environment's
    evidence is scored. The function may be async or not. It runs in a thread apart from the
    model's, so that one that blocks or hangs holds up neither the model nor the run.
    """

    function: Callable[..., Any]
    name: str = "the function"
    """What it is called in messages."""
    success_at: float = 1.0
    """The score from which an episode counts as a success."""
    threads: FunctionThreads = field(default_factory=FunctionThreads)

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Call the function; what it returns is its score."""
        is_async = inspect.iscoroutinefunction(self.function)
        more = (LentSession.of(session, blocking=not is_async),) if self._takes_session else ()
        endpoint = conversation.endpoint()

        async def call() -> Any:
            async with open_client(endpoint, blocking=False) as client:
                return await self.function(assignment.task, client, *more)

        def call_blocking() -> Any:
            with open_client(endpoint, blocking=True) as client:
                return self.function(assignment.task, client, *more)

        try:
            found = await (
                self.threads.run(call) if is_async else self.threads.run_blocking(call_blocking)
            )
        except Exception as error:
            said = f"{self.name}: {type(error).__name__}: {error}"
            limit = conversation.limit_met() if isinstance(conversation, Limited) else None
            if limit is None:
                raise AgentFailure(said) from error
            # A limit of the episode is behind the error: not a failure, but there is no score.
            return AgentReport(stop=limit, score=None if more else Score.unscored(said))
        if found is None and more:
            return AgentReport(stop=StopReason.FINISHED)
        score = score_of(found, self.name)
        value = score.value
        return AgentReport(
            stop=StopReason.FINISHED,
            score=score,
            success=None if value is None else value >= self.success_at,
        )

    @property
    def _takes_session(self) -> bool:
        return takes_three(self.function)


def takes_three(function: Callable[..., Any]) -> bool:
    """Whether a function can be given three arguments.

    >>> takes_three(lambda task, client: 0.0), takes_three(lambda task, client, session: 0.0)
    (False, True)
    """
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    return True


def score_of(found: Any, name: str) -> Score:
    """What a function returned as a score; `AgentFailure` where it is none.

    >>> score_of({"right": 1, "short": 0.5}, "rollout").value
    1.5
    """
    if isinstance(found, Score):
        score = found
    elif isinstance(found, Mapping) and found:
        score = Score(components={str(k): _number(v, name) for k, v in found.items()})
    else:
        score = Score(components={"score": _number(found, name)})
    if score.value is not None and not math.isfinite(score.value):
        raise AgentFailure(f"{name} returned {score.value}; a score is a finite number")
    return score


def _number(value: Any, name: str) -> float:
    if hasattr(value, "item"):  # a number of numpy's or torch's
        value = value.item()
    if not isinstance(value, int | float):
        raise AgentFailure(
            f"{name} returned {type(value).__name__}; return a number, a dict of numbers or a Score"
        )
    return float(value)
