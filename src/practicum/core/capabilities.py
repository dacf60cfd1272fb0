"""Optional methods of environments, sessions, curricula, codecs, samplers and conversations.

Users test for one with `isinstance`. One with a default is read through the function below it, the
only place that states the default.

A wrapper must define the methods it forwards: from Python 3.12 on, `isinstance` with a Protocol
does not see what only `__getattr__` provides.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from practicum.core.command import SystemRecipe
from practicum.core.interfaces import DiscreteSession, Environment, Sampler, Sandboxes, Session
from practicum.core.sampling import ActionForm, Actions, Completion, SamplingParams
from practicum.core.task import JSON, Outcome, Task, TaskVerdict
from practicum.core.trace import Message, ToolSpec

SessionKind = Literal["discrete", "tools"]

PAID_BY_TURN = "turns"
"""The default reward of an environment: the sum of its turn rewards."""
BY_TESTS = "code_execution"
"""The default reward of an environment whose tasks have tests of code: the share that is passed."""


@runtime_checkable
class WorksAside(Protocol):
    """A codec that one other thread may use too, and that knows how few tokens a text can be."""

    def aside(self) -> Any:
        """The same codec, for that thread."""

    def longest_token(self) -> int:
        """Characters of the longest token."""


def fewest_tokens(codec: object, messages: Sequence[Message]) -> int:
    """As many tokens as messages surely have, without making them; 0 where that is not known."""
    if not isinstance(codec, WorksAside):
        return 0
    return sum(len(message.content.strip()) for message in messages) // codec.longest_token()


@runtime_checkable
class EncodesText(Protocol):
    """A codec that encodes a text without a template around it."""

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Its tokens, special ones among them."""


@runtime_checkable
class TakesTemplateVariables(Protocol):
    """A codec whose chat template has variables, such as whether the model thinks."""

    def with_variables(self, variables: tuple[tuple[str, Any], ...]) -> Any:
        """The codec with these variables set."""


@runtime_checkable
class HasReference(Protocol):
    """An environment that knows solutions. Without them nothing can be imitated or checked."""

    def reference(self, task: Task) -> Sequence[str]:
        """See `Environment.reference`."""


@runtime_checkable
class HasSessionKind(Protocol):
    """An environment that says which sessions it opens."""

    @property
    def session_kind(self) -> SessionKind:
        """`discrete` for a `DiscreteSession`, `tools` for a `Session`."""


def session_kind(environment: Environment) -> SessionKind:
    """Which sessions an environment opens; `discrete` by default."""
    return environment.session_kind if isinstance(environment, HasSessionKind) else "discrete"


@runtime_checkable
class HasDefaultReward(Protocol):
    """An environment with a preferred reward."""

    @property
    def default_reward(self) -> str:
        """The reward's name."""


def default_reward(environment: Environment) -> str:
    """The reward an environment prefers; `turns` by default."""
    return environment.default_reward if isinstance(environment, HasDefaultReward) else PAID_BY_TURN


@runtime_checkable
class ShowsData(Protocol):
    """An environment that says whether agents may see `Task.data`."""

    @property
    def shows_data(self) -> bool:
        """True when the data does not give the solution away."""


def shows_data(environment: Environment) -> bool:
    """Whether agents may see `Task.data`; not by default, since it may hold the solution."""
    return isinstance(environment, ShowsData) and environment.shows_data


@runtime_checkable
class HasParts(Protocol):
    """An environment that is several, each with its own tasks, sessions and rewards."""

    parts: Mapping[str, Environment]
    """By the name that their tasks' `env` gives."""


def parts_of(environment: Environment) -> Mapping[str, Environment]:
    """The environments that one is made of: several, or itself."""
    if isinstance(environment, HasParts):
        return environment.parts
    return {environment.name: environment}


@runtime_checkable
class InSandboxes(Protocol):
    """An environment that runs commands in sandboxes."""

    def use_sandboxes(self, opener: Callable[[str], Sandboxes]) -> None:
        """Called once before use: `opener(kind)` gives the `Sandboxes` of that kind."""


@runtime_checkable
class HoldsStill(Protocol):
    """A sandbox that can stop what commands left running."""

    async def hold(self) -> None:
        """Stop every process inside for good; commands that are run later are not concerned.

        Raises `EnvironmentFailure` where the sandbox is gone.
        """


@runtime_checkable
class ServesPorts(Protocol):
    """A sandbox with a network of its own, in which the host can serve ports."""

    async def listen(self, ports: Sequence[int]) -> list[socket.socket]:
        """Sockets that listen at these ports inside; whoever holds them accepts the connections.

        Raises `ValueError` where a port is taken.
        """


@runtime_checkable
class BuildsSystems(Protocol):
    """Sandboxes whose machines may have other systems than that of all machines."""

    async def build_system(self, recipe: SystemRecipe) -> None:
        """Make a system, unless it has been made; `SandboxSpec.system` names it by its digest.

        Raises `UserError` where its packages cannot be had or no machine is possible here.
        """


@runtime_checkable
class HasSandboxKind(Protocol):
    """An environment whose episodes run commands; the kind is stored with a run.

    Reading the property may open the sandboxes, and on Python 3.11 `isinstance` reads it: test for
    it only where they may be opened.
    """

    @property
    def sandbox_kind(self) -> str:
        """See `Sandbox.kind`; empty where no commands are run."""


def sandbox_kind(environment: Environment) -> str:
    """The isolation of an environment's commands; empty where it runs none."""
    return environment.sandbox_kind if isinstance(environment, HasSandboxKind) else ""


@runtime_checkable
class HasLevels(Protocol):
    """An environment that lists its difficulty levels."""

    @property
    def levels(self) -> tuple[int, ...]:
        """The levels, in order."""


@runtime_checkable
class HasTaskList(Protocol):
    """An environment that may have a fixed list of tasks."""

    def every_task(self) -> Sequence[Task] | None:
        """The tasks of both splits; None when they are generated without end."""


def every_task(environment: Environment) -> Sequence[Task] | None:
    """The tasks of both splits; None where an environment has no fixed list."""
    return environment.every_task() if isinstance(environment, HasTaskList) else None


@runtime_checkable
class TellsSolution(Protocol):
    """An environment that can say in words what an episode has come to."""

    def solution(self, outcome: Outcome) -> str:
        """The solution that was reached, such as `x = 3`; empty for none."""
        ...


@runtime_checkable
class HasVerdicts(Protocol):
    """An environment of others' tasks, of which not all can be played here."""

    def verdicts(self) -> Sequence[TaskVerdict]:
        """Every task, with what is missing for it. A session can be opened of any of them."""


@runtime_checkable
class IsTestSet(Protocol):
    """A class of environments without a training task."""

    not_for_training: ClassVar[str]
    """Why, and what to train on, in a sentence."""


@runtime_checkable
class HasTasksToCheck(Protocol):
    """An environment without end that knows which of its tasks stand for all of them."""

    def tasks_to_check(self) -> Sequence[Task]:
        """Some tasks of every kind, of both splits: what `--check all` plays."""


@runtime_checkable
class FindsTasks(Protocol):
    """An environment that can look up a task."""

    def find(self, text: str) -> Task:
        """The task with this id, or one made from the text (an equation, say)."""


@runtime_checkable
class HasReferenceTurns(Protocol):
    """An environment whose reference solution depends on observations."""

    def reference_turn(self, task: Task, seen: Sequence[str]) -> str | None:
        """The next turn of the solution, given the observations so far; None when it is done."""


@runtime_checkable
class HasFullMarks(Protocol):
    """An environment that knows its highest reward."""

    def full_marks(self, task: Task) -> float:
        """The highest reward of the task, which the reference solution must earn."""


@runtime_checkable
class HasNearMisses(Protocol):
    """An environment with wrong solutions for the checker to try."""

    def near_misses(self, task: Task) -> Sequence[Sequence[str]]:
        """Plausible wrong solutions, each as the turns of an episode; none of them may succeed."""


@runtime_checkable
class OutOfProcess(Protocol):
    """An environment whose sessions run outside this process and so are expensive."""

    sessions_at_once: int
    """Sessions that the checker may keep open at once."""


@runtime_checkable
class TakesTypedLines(Protocol):
    """An environment with a shorter way for a person to type a turn."""

    def turn_from_line(self, line: str) -> str:
        """The turn that a typed line stands for."""


@runtime_checkable
class TakesTypedBlocks(Protocol):
    """An environment of which some turns are typed by a person over several lines."""

    def goes_on(self, line: str) -> bool:
        """Whether a turn that begins with this line goes on below it, up to an empty line."""


@runtime_checkable
class Closable(Protocol):
    """An environment that holds resources beyond its sessions."""

    async def close(self) -> None:
        """Release them; the next session acquires them again."""


@runtime_checkable
class ReportsMastery(Protocol):
    """A curriculum that measures how well its tasks go."""

    def metrics(self) -> dict[str, JSON]:
        """What a step's metrics show of it: success by level, shares of the draws, and the like."""


@runtime_checkable
class HasRoles(Protocol):
    """A discrete session in which several act in turn, each in a conversation of its own.

    `prompt`, `actions` and `act` are of whoever acts next. `prompt` is asked when a role acts for
    the first time; from then on it is shown the message of the turn before its own.
    """

    def role(self) -> str:
        """Who acts next; `NAME/2` is NAME in another conversation, which begins anew."""


@runtime_checkable
class CreditsRoles(Protocol):
    """An algorithm that credits each role's turns by that role's own rewards."""

    credits_roles: ClassVar[Literal[True]]


@runtime_checkable
class TakesRoles(Protocol):
    """A conversation that several can have, each on a path of its own."""

    roles: list[str]
    """Who took each sampled turn; empty where nobody was named."""

    def speak_as(self, role: str, *, learns: bool = True) -> None:
        """Go on with a role's path, or begin it; a role that does not learn only acts."""


def actions_of(session: Any) -> tuple[ActionForm, ...]:
    """The actions a session allows now; none where it has tools."""
    return tuple(session.actions()) if isinstance(session, DiscreteSession) else ()


def tools_of(session: Any) -> list[ToolSpec]:
    """The tools of a session; none where it is discrete."""
    return session.tools() if isinstance(session, Session) else []


@runtime_checkable
class ReadsTurns(Protocol):
    """A codec that parses sampled turns."""

    def read(self, token_ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        """A sampled turn as a message: its content, reasoning and tool calls."""


@runtime_checkable
class DecodesTokens(Protocol):
    """A codec that decodes tokens."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text, without special tokens."""


@runtime_checkable
class HasContextTokens(Protocol):
    """A sampler with a limited context."""

    @property
    def context_tokens(self) -> int:
        """Most tokens of prompt and completion together."""


def context_length(sampler: Sampler) -> int:
    """Most tokens of prompt and completion together; 0 where a sampler does not say."""
    return sampler.context_tokens if isinstance(sampler, HasContextTokens) else 0


@runtime_checkable
class ReportsReplicas(Protocol):
    """A sampler in other processes, which may be lost and come back."""

    def sampling_metrics(self) -> dict[str, JSON]:
        """What a step's metrics show of them."""


@runtime_checkable
class ReportsWorkers(Protocol):
    """An environment whose episodes are in other processes, which may be lost and come back."""

    def worker_metrics(self) -> dict[str, JSON]:
        """What a step's metrics show of them."""


@runtime_checkable
class LimitsEpisodes(Protocol):
    """An environment that has room for so many episodes at once."""

    def room_for_episode(self) -> AbstractAsyncContextManager[None]:
        """Room for one episode, waited for before its time counts."""


@runtime_checkable
class SamplesElsewhere(Protocol):
    """A policy with replicas, which are given up when it is closed."""

    def close(self) -> None:
        """Give them up; it samples here from then on. Idempotent."""


@runtime_checkable
class Foldable(Protocol):
    """A conversation that can go on with earlier results shortened, as another branch."""

    def fold(self, shorten: Callable[[Message], Message]) -> int:
        """Shorten every result that was answered; the tokens of the conversation afterwards."""


@runtime_checkable
class TimesSampling(Protocol):
    """A conversation that knows how long it waited for the model."""

    sampling_s: float
    """Seconds so far."""


@runtime_checkable
class HasSamplingParams(Protocol):
    """A conversation whose turns are drawn by parameters that may be changed before the first."""

    params: SamplingParams


Guide = Callable[[Sequence[Message], Actions], Completion | None]
"""Writes an assistant's turn in the model's place, as the model would have sampled it; None from
where the model goes on by itself. It is given the new messages and the actions allowed."""


@runtime_checkable
class Guidable(Protocol):
    """A conversation whose first turns may be given instead of sampled."""

    guide: Guide | None
    given_turns: int
    """Turns that were given so far."""


@runtime_checkable
class GivesJumpStarts(Protocol):
    """A curriculum that lets tasks begin further on in their reference solution."""

    def given_turns(self, task: Task) -> int:
        """How many turns of the task's reference its next episodes begin after."""
