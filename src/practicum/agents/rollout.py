"""Rollouts: runs agents on tasks and scores the episodes, several at once (`run_groups`).

A failure of an agent, an environment or a reward is recorded in its episode and not raised.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from practicum.agents.waiting import (
    ANSWER_TIMEOUT_S,
    answer_timeout,
    interrupting_blocked_answers,
    timed_boundary,
)
from practicum.core.capabilities import (
    Guidable,
    Guide,
    HasSamplingParams,
    LimitsEpisodes,
    TakesRoles,
    TimesSampling,
)
from practicum.core.conversation import (
    REPORTED,
    AgentReport,
    Assignment,
    ProgramAgent,
    ReachableConversation,
    ScoresItself,
)
from practicum.core.errors import (
    AgentFailure,
    ContextFull,
    EnvironmentFailure,
    MachineFailure,
    MessageTooLong,
    PracticumError,
    RolloutFailure,
    UserError,
    boundary,
)
from practicum.core.interfaces import Agent, Environment, GroupReward, Reward
from practicum.core.sample import GIVEN_TURNS, TURN_ROLES, Episode, EpisodeSeconds, Group
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Failure, Node, StopReason, ToolSpec, Trace


class RecordedConversation(Protocol):
    """A conversation that records its tokens."""

    nodes: list[Node]
    tools: tuple[ToolSpec, ...]

    async def complete(self, messages: Any, actions: Any = (), tools: Any = ()) -> Any:
        """See `core.interfaces.Conversation`."""
        ...


class ServesRollouts(Protocol):
    """Serves conversations over HTTP to agents that are programs (`gateway.RolloutServer`)."""

    def __call__(self, conversation: Any) -> AbstractAsyncContextManager[ReachableConversation]:
        """The conversation with a URL and a key that are valid inside the block."""
        ...

    def serving(self) -> AbstractAsyncContextManager[None]:
        """Keeps one server running for all conversations of the block."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutParts:
    """The parts that every episode of a run shares."""

    environment: Environment
    agent: Agent | ProgramAgent
    reward: Reward
    converse: Callable[[Task, int], RecordedConversation]
    """Opens a recorded conversation with the policy, from a task and a seed."""
    model: str = ""
    group_reward: GroupReward | None = None
    """Rescores a group once all its episodes are there."""
    server: ServesRollouts | None = None
    """Needed by a `ProgramAgent`."""
    deadline_s: float | None = None
    """Seconds an agent may take before its episode is cut off as failed; None for no limit."""
    retries: int = 0
    """How often a failed episode of a group is repeated, with another seed."""
    answer_timeout_s: float = ANSWER_TIMEOUT_S
    """Seconds that the environment and the reward have for each answer."""
    success_at: float | None = None
    """The score from which an episode counts as a success; None for what its outcome says."""
    slots: asyncio.Semaphore | None = None
    """Limits the episodes of groups that run at once; None for no limit."""
    guide: Callable[[Task, int], Guide] | None = None
    """Gives so many first turns of a task's reference solution; None where nobody asks for it."""
    done: Mapping[str, Episode] = field(default_factory=dict)
    """Episodes of an earlier attempt that was cut off, by trace id: they are not run again."""


def warmed(parts: RolloutParts, factor: float) -> RolloutParts:
    """The same parts with turns drawn at so many times their temperature."""

    def converse(task: Task, seed: int) -> RecordedConversation:
        opened = parts.converse(task, seed)
        if isinstance(opened, HasSamplingParams):
            warmer = opened.params.temperature * factor
            opened.params = replace(opened.params, temperature=warmer)
        return opened

    return replace(parts, converse=converse)


def jump_started(parts: RolloutParts, turns: Mapping[str, int]) -> RolloutParts:
    """The same parts with episodes that begin after so many turns of their task's reference.

    Args:
        parts: With a `guide`, and conversations that follow one.
        turns: By the id of the task; 0 begins at the beginning.
    """

    def converse(task: Task, seed: int) -> RecordedConversation:
        opened = parts.converse(task, seed)
        if given := turns.get(task.id, 0):
            assert parts.guide is not None
            assert isinstance(opened, Guidable)
            opened.guide = parts.guide(task, given)
        return opened

    return replace(parts, converse=converse)


async def run_episode(parts: RolloutParts, task: Task, trace_id: str, seed: int) -> Episode:
    """Opens a session, runs the agent in it, collects the outcome and scores it."""
    with answer_timeout(parts.answer_timeout_s):
        return await _run_episode(parts, task, trace_id, seed)


async def _run_episode(parts: RolloutParts, task: Task, trace_id: str, seed: int) -> Episode:
    started, clock = time.time(), time.monotonic()
    conversation, judging = parts.converse(task, seed), Stopwatch()
    outcome: Outcome | None = None
    failure: Failure | None = None
    try:
        outcome, stop = await _run_session(
            parts, Assignment(task=task, trace_id=trace_id), conversation, judging
        )
    except RolloutFailure as error:
        is_environment = isinstance(error, EnvironmentFailure)
        stop = StopReason.ENVIRONMENT_FAILED if is_environment else StopReason.AGENT_FAILED
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
    if outcome is not None and isinstance(conversation, Guidable) and conversation.given_turns:
        outcome = _after_given(outcome, conversation.given_turns)
    if outcome is not None and isinstance(conversation, TakesRoles) and conversation.roles:
        roles: list[JSON] = [*conversation.roles]
        outcome = replace(outcome, evidence={**outcome.evidence, TURN_ROLES: roles})
    with judging:
        score = await _score(parts.reward, task, trace, outcome)
    sampling = conversation.sampling_s if isinstance(conversation, TimesSampling) else 0.0
    elsewhere = max(0.0, time.monotonic() - clock - sampling - judging.seconds)
    episode = Episode(
        trace=trace,
        outcome=outcome,
        score=score,
        seconds=EpisodeSeconds(sampling, elsewhere, judging.seconds),
    )
    return _with_success(episode, parts.success_at)


class Stopwatch:
    """Adds up the seconds of the blocks it is used for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.monotonic() - self._started


def _after_given(outcome: Outcome, turns: int) -> Outcome:
    """The outcome of an episode whose first turns were given: their rewards are not the policy's.

    Its evidence says how many there were.
    """
    own = outcome.turn_rewards[turns:]
    evidence: dict[str, JSON] = {**outcome.evidence, GIVEN_TURNS: turns}
    return replace(outcome, turn_rewards=own, evidence=evidence)


def _with_success(episode: Episode, success_at: float | None) -> Episode:
    """The episode with what its score says of success, where that is what counts."""
    if success_at is None or episode.outcome is None or episode.score.value is None:
        return episode
    is_late = episode.trace.stop is StopReason.TIMED_OUT
    is_success = episode.score.value >= success_at and not is_late
    return replace(episode, outcome=replace(episode.outcome, success=is_success))


async def _run_session(
    parts: RolloutParts,
    assignment: Assignment,
    conversation: RecordedConversation,
    judging: Stopwatch,
) -> tuple[Outcome, StopReason]:
    name = f"environment {parts.environment.name!r}"
    async with timed_boundary(EnvironmentFailure, name):
        opening = parts.environment.open(assignment.task)
        session = await opening.__aenter__()
    try:
        with boundary(AgentFailure, f"agent {type(parts.agent).__name__}"):
            report = await _run_agent(parts, assignment, session, conversation)
        with judging:
            outcome = await _judge(session, name, is_late=report.stop is StopReason.TIMED_OUT)
    except BaseException:
        # The first error is the one reported, so errors of closing are dropped; cancellation
        # passes through.
        with suppress(Exception):
            async with timed_boundary(EnvironmentFailure, f"closing {name}"):
                await opening.__aexit__(None, None, None)
        raise
    async with timed_boundary(EnvironmentFailure, f"closing {name}"):
        await opening.__aexit__(None, None, None)
    outcome = with_report(outcome, report)
    if report.stop is StopReason.TIMED_OUT:
        outcome = _too_late(outcome, parts.deadline_s)
    return outcome, report.stop


async def _judge(session: Any, name: str, *, is_late: bool) -> Outcome:
    """The session's outcome.

    An episode that was cut off at its deadline has failed even where the cut left its session in no
    state to be judged: else being late would be a way not to be counted.
    """
    try:
        async with timed_boundary(EnvironmentFailure, name):
            outcome: Outcome = await session.outcome()
    except EnvironmentFailure as failure:
        if not is_late:
            raise
        return Outcome(success=False, evidence={NOT_JUDGED: str(failure)})
    return outcome


CUT_OFF = "cut_off"
"""Key of the evidence that says why an episode was cut off, where that is worth telling."""
NOT_JUDGED = "not_judged"
"""Key of the evidence of a late one whose session could not say what was done."""


def _too_late(outcome: Outcome, deadline_s: float | None) -> Outcome:
    """The outcome of an episode that was cut off at its deadline: no success, whatever was done.

    Success that is unknown for every episode stays so: a few known failures would be all there is.
    """
    said = f"the agent was not done after {deadline_s or 0.0:g} seconds, which is agent.deadline_s"
    success = None if outcome.success is None else False
    return replace(outcome, success=success, evidence={**outcome.evidence, CUT_OFF: said})


async def _run_agent(
    parts: RolloutParts,
    assignment: Assignment,
    session: Any,
    conversation: RecordedConversation,
) -> AgentReport:
    """Runs the agent to its end or its deadline."""
    agent = parts.agent
    limit = asyncio.timeout(parts.deadline_s)
    try:
        if isinstance(agent, ProgramAgent):
            if parts.server is None:
                raise RuntimeError("there is no gateway through which it could reach the model")
            async with parts.server(conversation) as reachable, limit:
                return await agent.work(assignment, session, reachable)
        async with limit:
            return AgentReport(stop=await agent.run(session, conversation))
    except TimeoutError:
        if not limit.expired():
            raise
        return agent.cut_off(StopReason.TIMED_OUT) if isinstance(agent, ScoresItself) else LATE
    except ContextFull as full:
        if not any(node.sampled for node in conversation.nodes):
            raise EnvironmentFailure(
                f"the task's prompt does not fit the model: {full}, or shorten the task's prompt, "
                "or take a model with a longer context"
            ) from full
        is_one = isinstance(full, MessageTooLong)
        told: dict[str, JSON] = (
            {CUT_OFF: f"an observation is too long: {full}, or cut it there"} if is_one else {}
        )
        return AgentReport(stop=StopReason.CONTEXT_FULL, evidence=told)


LATE = AgentReport(stop=StopReason.TIMED_OUT)
"""Of an agent whose work the environment judges: by what was done until then."""


async def _score(reward: Reward, task: Task, trace: Trace, outcome: Outcome | None) -> Score:
    """The reward's score; an episode without an outcome, or whose reward fails, is unscored.

    So is a score that is not finite or beyond `LARGEST_SCORE`, which would spoil the advantages of
    its whole group. One that was late and could not be judged gets what its reward pays for a
    failure without any evidence, and else 0.
    """
    if outcome is None:
        return Score.unscored(trace.failure.message if trace.failure else "no outcome")
    name = f"reward {type(reward).__name__}"
    try:
        async with timed_boundary(RolloutFailure, name):
            score = await reward.score(task, trace, outcome)
    except UserError:
        raise
    except PracticumError as failure:
        return Score.unscored(_named(name, failure))
    numbers = [score.value, *score.components.values(), *score.turn_values]
    wild = [n for n in numbers if n is not None and not abs(n) <= LARGEST_SCORE]
    if wild:
        return Score.unscored(f"{name} gave {wild[0]}; a score is at most {LARGEST_SCORE:g}")
    if score.value is None and NOT_JUDGED in outcome.evidence:
        return Score(components={"timed_out": 0.0}, reason=str(outcome.evidence[CUT_OFF]))
    return score


def _named(name: str, failure: PracticumError) -> str:
    """A failure's sentence, with the name of what failed where it is not there yet."""
    said = str(failure)
    return said if said.startswith(name) else f"{name}: {type(failure).__name__}: {said}"


LARGEST_SCORE = 1e9
"""Means and squares of scores and their components must stay finite in float32."""


async def run_groups(
    parts: RolloutParts,
    tasks: Sequence[Task],
    group_size: int,
    *,
    label: str,
    seed: int,
    on_episode: Callable[[Episode], None] = lambda episode: None,
) -> list[Group]:
    """Runs `group_size` episodes for each task; the groups are in the order of the tasks.

    `label`, such as `step-3`, is part of the trace ids and of every seed. `on_episode` is given
    each episode that has ended, and again at once if its group's reward leaves it unscored.
    """

    async def one(task: Task, position: int, number: int) -> Episode:
        trace_id = f"{label}/{position}/{task.id}/{number}"
        known = parts.done.get(trace_id)
        episode = known or await run_with_retries(parts, task, trace_id, seed)
        on_episode(episode)
        return episode

    try:
        with interrupting_blocked_answers(parts.answer_timeout_s):
            async with _serving(parts), asyncio.TaskGroup() as jobs:
                running = [
                    [jobs.create_task(one(task, position, number)) for number in range(group_size)]
                    for position, task in enumerate(tasks)
                ]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None  # the first to fail; it stopped the others
    groups = [
        Group(task=task, episodes=tuple(job.result() for job in group))
        for task, group in zip(tasks, running, strict=True)
    ]
    if parts.group_reward is None:
        return groups
    seconds = parts.answer_timeout_s
    with interrupting_blocked_answers(seconds), answer_timeout(seconds):
        scored = await _rescore_all(groups, parts.group_reward, on_episode)
    return [
        replace(group, episodes=tuple(_with_success(e, parts.success_at) for e in group.episodes))
        for group in scored
    ]


async def run_with_retries(parts: RolloutParts, task: Task, trace_id: str, seed: int) -> Episode:
    """Runs an episode, and repeats it with another seed if its agent or environment failed.

    Only the last attempt is kept, so that a group has the size that was asked for.
    """
    room = parts.environment
    place = room.room_for_episode() if isinstance(room, LimitsEpisodes) else nullcontext()
    async with parts.slots or nullcontext(), place:
        episode = await _on_machines(parts, task, trace_id, episode_seed(seed, trace_id))
        for attempt in range(1, parts.retries + 1):
            if episode.trace.failure is None:
                break
            other = episode_seed(seed, f"{trace_id} again {attempt}")
            episode = await _on_machines(parts, task, trace_id, other)
    return episode


async def _on_machines(parts: RolloutParts, task: Task, trace_id: str, seed: int) -> Episode:
    """An episode, begun anew with the same seed wherever its machine is lost under it."""
    for _ in range(MOST_MACHINES):
        episode = await run_episode(parts, task, trace_id, seed)
        failure = episode.trace.failure
        if failure is None or failure.kind != MachineFailure.__name__:
            break
    return episode


MOST_MACHINES = 8
"""Machines that one episode may be lost with before it is masked."""


def _serving(parts: RolloutParts) -> AbstractAsyncContextManager[None]:
    """One HTTP server for all episodes, if their agent needs one."""
    return nullcontext() if parts.server is None else parts.server.serving()


async def _rescore_all(
    groups: Sequence[Group], reward: GroupReward, on_unscored: Callable[[Episode], None]
) -> list[Group]:
    """The groups as rescored by a group reward."""

    async def one(group: Group) -> Group:
        scored = await _rescore(group, reward)
        for before, after in zip(group.episodes, scored.episodes, strict=True):
            if not after.is_usable and before.trace.failure is None:
                on_unscored(after)
        return scored

    try:
        async with asyncio.TaskGroup() as jobs:
            running = [jobs.create_task(one(group)) for group in groups]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [job.result() for job in running]


async def _rescore(group: Group, reward: GroupReward) -> Group:
    """One group rescored; if its reward fails, all its episodes are unscored."""
    name = f"reward {type(reward).__name__}"
    try:
        async with timed_boundary(RolloutFailure, name):
            return await reward.rescore(group)
    except UserError:
        raise
    except PracticumError as failure:
        unscored = Score.unscored(_named(name, failure))
        return replace(group, episodes=tuple(replace(e, score=unscored) for e in group.episodes))


def episode_seed(seed: int, trace_id: str) -> int:
    """The seed of one episode, from the run's seed and the trace id only."""
    digest = hashlib.blake2b(f"{seed}/{trace_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def with_report(outcome: Outcome, report: AgentReport) -> Outcome:
    """The environment's outcome with the agent's evidence, score and success added.

    >>> from practicum.core.trace import StopReason
    >>> half = AgentReport(stop=StopReason.FINISHED, score=Score(components={"tidy": 0.5}))
    >>> with_report(Outcome(success=None), half).evidence["reported"]["components"]
    {'tidy': 0.5}
    """
    if report.score is None and report.success is None and not report.evidence:
        return outcome
    evidence: dict[str, JSON] = {**outcome.evidence, **report.evidence}
    if report.score is not None:
        evidence[REPORTED] = _as_json(report.score)
    success = outcome.success if report.success is None else report.success
    return replace(outcome, success=success, evidence=evidence)


def _as_json(score: Score) -> JSON:
    return {
        "components": dict(score.components),
        "weights": dict(score.weights),
        "turn_values": list(score.turn_values),
        "reason": score.reason,
    }
