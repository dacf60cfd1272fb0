"""One task to one scored episode. A failure inside is recorded on the trace, never raised."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from practicum.core.conversing import ReachableConversation
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
from practicum.core.working import AgentReport, Assignment, WorkingAgent
from practicum.rollouts.reported import with_report

__all__ = ["Reach", "RecordedConversation", "RolloutParts", "run_episode"]


class RecordedConversation(Protocol):
    """A conversation that keeps what went through it."""

    nodes: list[Node]
    tools: tuple[ToolSpec, ...]

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
        """See `core.interfaces.Conversation`."""
        ...


class Reach(Protocol):
    """Makes conversations reachable for programs, as long as their episodes last."""

    def __call__(self, conversation: Any) -> AbstractAsyncContextManager[ReachableConversation]:
        """The conversation with an address and a key, which are good inside the block."""
        ...

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Stay reachable for all conversations of the block, rather than for each on its own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutParts:
    """What an episode is made with."""

    environment: Environment
    agent: Agent | WorkingAgent
    reward: Reward
    converse: Callable[[Task, int], RecordedConversation]
    """Opens a recorded conversation with the policy about a task, given a seed."""
    model: str = ""
    group_reward: GroupReward | None = None
    """Has the last word on the scores of a group, once all its episodes are there."""
    reach: Reach | None = None
    """Needed by agents that are programs of their own."""
    deadline_s: float | None = None
    """Seconds an agent may take before its episode counts as failed; None is no limit."""
    retries: int = 0
    """How often a failed episode of a group is tried again, with another seed."""
    places: asyncio.Semaphore | None = None
    """How many episodes of groups are under way together; None is no limit."""


async def run_episode(parts: RolloutParts, task: Task, trace_id: str, seed: int) -> Episode:
    """Open a session, let the agent work in it, collect the evidence, score it."""
    started, clock = time.time(), time.monotonic()
    conversation = parts.converse(task, seed)
    outcome: Outcome | None = None
    failure: Failure | None = None
    try:
        outcome, stop = await _play(parts, Assignment(task=task, trace_id=trace_id), conversation)
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
    parts: RolloutParts, assignment: Assignment, conversation: RecordedConversation
) -> tuple[Outcome, StopReason]:
    with boundary(EnvironmentFailure, f"environment {parts.environment.name!r}"):
        opening = parts.environment.open(assignment.task)
        session = await opening.__aenter__()
    try:
        with boundary(AgentFailure, f"agent {type(parts.agent).__name__}"):
            report = await _work(parts, assignment, session, conversation)
        with boundary(EnvironmentFailure, f"environment {parts.environment.name!r}"):
            outcome = await session.outcome()
    except BaseException:
        # What went wrong first is what is reported, and a cancelled episode stays cancelled.
        with suppress(Exception):
            await opening.__aexit__(None, None, None)
        raise
    with boundary(EnvironmentFailure, f"closing environment {parts.environment.name!r}"):
        await opening.__aexit__(None, None, None)
    return with_report(outcome, report), report.stop


async def _work(
    parts: RolloutParts,
    assignment: Assignment,
    session: Any,
    conversation: RecordedConversation,
) -> AgentReport:
    """Let the agent do its work; when its time is over that is a failure of the agent."""
    agent = parts.agent
    limit = asyncio.timeout(parts.deadline_s)
    try:
        if isinstance(agent, WorkingAgent):
            if parts.reach is None:
                raise RuntimeError("there is no gateway through which it could reach the model")
            async with parts.reach(conversation) as reachable, limit:
                return await agent.work(assignment, session, reachable)
        async with limit:
            return AgentReport(stop=await agent.run(session, conversation))
    except TimeoutError:
        if not limit.expired():
            raise
        raise AgentFailure(f"the agent was not done after {parts.deadline_s:g} seconds") from None


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
