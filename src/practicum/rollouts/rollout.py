"""One task to one scored episode. A failure inside is recorded on the trace, never raised."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from practicum.core.errors import (
    AgentFailure,
    EnvironmentFailure,
    RolloutFailure,
    UserError,
    boundary,
)
from practicum.core.interfaces import Agent, Environment, GroupReward, Reward
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import Outcome, Task
from practicum.core.trace import Failure, Node, StopReason, ToolSpec, Trace

__all__ = ["RecordedConversation", "RolloutParts", "run_episode"]


class RecordedConversation(Protocol):
    """A conversation that keeps what went through it."""

    nodes: list[Node]
    tools: tuple[ToolSpec, ...]

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
        """See `core.interfaces.Conversation`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutParts:
    """What an episode is made with."""

    environment: Environment
    agent: Agent
    reward: Reward
    converse: Callable[[Task, int], RecordedConversation]
    """Opens a recorded conversation with the policy about a task, given a seed."""
    model: str = ""
    group_reward: GroupReward | None = None
    """Has the last word on the scores of a group, once all its episodes are there."""


async def run_episode(parts: RolloutParts, task: Task, trace_id: str, seed: int) -> Episode:
    """Open a session, let the agent work in it, collect the evidence, score it."""
    started, clock = time.time(), time.monotonic()
    conversation = parts.converse(task, seed)
    outcome: Outcome | None = None
    failure: Failure | None = None
    try:
        outcome, stop = await _play(parts, task, conversation)
    except RolloutFailure as error:
        stop = (
            StopReason.ENVIRONMENT_FAILED
            if isinstance(error, EnvironmentFailure)
            else StopReason.AGENT_FAILED
        )
        failure = Failure(kind=type(error).__name__, message=str(error))
    trace = Trace(
        id=trace_id,
        task_id=task.id,
        env=task.env,
        nodes=tuple(conversation.nodes),
        stop=stop,
        failure=failure,
        model=parts.model,
        started_at=started,
        duration_s=time.monotonic() - clock,
        tools=conversation.tools,
    )
    score = await _score(parts.reward, task, trace, outcome)
    return Episode(trace=trace, outcome=outcome, score=score)


async def _play(
    parts: RolloutParts, task: Task, conversation: RecordedConversation
) -> tuple[Outcome, StopReason]:
    with boundary(EnvironmentFailure, f"environment {parts.environment.name!r}"):
        opening = parts.environment.open(task)
        session = await opening.__aenter__()
    try:
        with boundary(AgentFailure, f"agent {type(parts.agent).__name__}"):
            stop = await parts.agent.run(session, conversation)
        with boundary(EnvironmentFailure, f"environment {parts.environment.name!r}"):
            outcome = await session.outcome()
    except BaseException:
        # What went wrong first is what is reported, and a cancelled episode stays cancelled.
        with suppress(Exception):
            await opening.__aexit__(None, None, None)
        raise
    with boundary(EnvironmentFailure, f"closing environment {parts.environment.name!r}"):
        await opening.__aexit__(None, None, None)
    return outcome, stop


async def _score(reward: Reward, task: Task, trace: Trace, outcome: Outcome | None) -> Score:
    """The reward's score; an episode without evidence, or whose reward fails, is unscored.

    A score that is not a finite number is no score: it would reach every advantage of its group.
    """
    if outcome is None:
        return Score.unscored(trace.failure.message if trace.failure else "no outcome")
    name = f"reward {type(reward).__name__}"
    try:
        score = await reward.score(task, trace, outcome)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - a reward is user code; its failure is data
        return Score.unscored(f"{name}: {type(error).__name__}: {error}")
    if score.value is not None and not math.isfinite(score.value):
        return Score.unscored(f"{name} gave {score.value}")
    return score
