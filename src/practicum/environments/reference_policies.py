"""Policies without a model (reference solution, script, random), to check and compare with."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from practicum.core.capabilities import HasReferenceTurns
from practicum.core.errors import EnvironmentFailure, UserError, boundary
from practicum.core.interfaces import ChatCodec, DiscreteSession, Environment, Observation
from practicum.core.sampling import (
    ActionForm,
    Actions,
    Completion,
    NextCharacters,
    SamplingParams,
    SamplingRequest,
)
from practicum.core.task import Outcome, Task
from practicum.core.tool_calls import MalformedCall, read_tool_call
from practicum.core.trace import Message, Node, Tools
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.scripted_conversation import ScriptedConversation

MAX_TURNS = 8
"""The default turn limit of a rollout."""


class Actor(Protocol):
    """A policy that needs no model. One actor may act in many sessions at the same time."""

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """The text of the next action, or None to stop."""
        ...


class ReferenceActor:
    """Acts out the environment's reference solution."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        # Weak: a session that is gone takes its entry with it.
        self._solutions: WeakKeyDictionary[DiscreteSession, Reference] = WeakKeyDictionary()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """The next turn of the solution."""
        if session not in self._solutions:
            self._solutions[session] = Reference(self._environment, task)
        return self._solutions[session].next_turn()

    def observe(self, session: DiscreteSession, content: str) -> None:
        """Take the observation of the last turn."""
        self._solutions[session].observe(content)


class Reference:
    """The reference solution of one task, turn by turn; a turn may depend on observations."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self._environment = environment
        self._task = task
        self._remaining = iter(environment.reference(task))
        self._observations: list[str] = []

    def next_turn(self) -> str | None:
        """The next turn; None at the end."""
        if isinstance(self._environment, HasReferenceTurns):
            return self._environment.reference_turn(self._task, tuple(self._observations))
        return next(self._remaining, None)

    def require_turn(self) -> str:
        """The next turn, which there must be."""
        turn = self.next_turn()
        if turn is None:
            raise UserError(
                f"the solution of {self._task.id!r} has no more turns, or is not known; "
                "choose another policy or another task"
            )
        return turn

    def observe(self, content: str) -> None:
        """Take the observation of the last turn."""
        self._observations.append(content)


class ScriptActor:
    """Takes the same turns in every session."""

    def __init__(self, turns: Sequence[str]) -> None:
        self._turns = tuple(turns)
        self._played: WeakKeyDictionary[DiscreteSession, int] = WeakKeyDictionary()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """The next turn."""
        at = self._played.get(session, 0)
        self._played[session] = at + 1
        return self._turns[at] if at < len(self._turns) else None


class RepeatingActor:
    """Takes one action again and again, or several in turn, as far as they are on offer."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._at: WeakKeyDictionary[DiscreteSession, int] = WeakKeyDictionary()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """The next of its actions that is on offer; None where none is."""
        offered = {form.name for form in session.actions() if form.argument is None}
        first = self._at.get(session, 0)
        for at in range(first, first + len(self._names)):
            name = self._names[at % len(self._names)]
            if name in offered:
                self._at[session] = at + 1
                return name
        return None


class RandomActor:
    """Draws actions uniformly.

    The draws depend on the seed, the task and how many sessions of the task came before, not on
    other sessions: results do not depend on the order of concurrent episodes.
    """

    def __init__(self, seed: int = 0, among: Callable[[ActionForm], bool] = lambda _: True) -> None:
        self._seed = seed
        self._among = among
        self._sessions_of: Counter[str] = Counter()
        self._rngs: WeakKeyDictionary[DiscreteSession, random.Random] = WeakKeyDictionary()

    def next_text(self, session: DiscreteSession, task: Task) -> str | None:
        """An action; never None."""
        if session not in self._rngs:
            key = f"{self._seed} {task.id} {self._sessions_of[task.id]}"
            self._sessions_of[task.id] += 1
            self._rngs[session] = random.Random(key)
        offered = session.actions()
        forms = [form for form in offered if self._among(form)] or offered
        return random_action_text(forms, self._rngs[session])


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeResult:
    """One finished episode of an actor; a text and a reward for each turn."""

    texts: tuple[str, ...]
    rewards: tuple[float | None, ...]
    terminated: bool
    outcome: Outcome

    @property
    def total_reward(self) -> float:
        """The sum of the turns' rewards."""
        return sum(r for r in self.rewards if r is not None)


async def play_episode(
    environment: Environment, task: Task, actor: Actor, max_turns: int = MAX_TURNS
) -> EpisodeResult:
    """Run one episode until the actor stops, the session terminates or `max_turns` is reached."""
    texts: list[str] = []
    rewards: list[float | None] = []
    terminated = False
    with boundary(EnvironmentFailure, f"task {task.id!r}"):
        async with environment.open(task) as session:
            while not terminated and len(texts) < max_turns:
                text = actor.next_text(session, task)
                if text is None:
                    break
                with boundary(EnvironmentFailure, f"task {task.id!r}, after {texts}, {text!r}"):
                    seen = await take_turn(session, text)
                texts.append(text)
                rewards.append(seen.reward)
                if isinstance(actor, ReferenceActor):
                    actor.observe(session, seen.message.content)
                terminated = seen.terminated
            outcome = await session.outcome()
    return EpisodeResult(
        texts=tuple(texts), rewards=tuple(rewards), terminated=terminated, outcome=outcome
    )


async def take_turn(session: Any, text: str) -> Observation:
    """Take a turn given as text: an action of a discrete session, or a tool call as JSON."""
    if isinstance(session, DiscreteSession):
        return await session.act(text)
    try:
        call = read_tool_call(text, session.tools())
    except MalformedCall as wrong:
        raise ValueError(f"{text!r} is not a call: {wrong}") from None
    answer: Observation = await session.call(call)
    return answer


class _FollowsReference:
    """Tells the solution what was observed: a turn of it may depend on that."""

    _reference: Reference
    nodes: list[Node]

    async def complete(
        self, messages: Sequence[Message], actions: Actions = (), tools: Tools = ()
    ) -> Completion:
        """See `Conversation`."""
        if self.nodes:
            self._reference.observe(messages[-1].content)
        completed: Completion = await super().complete(messages, actions, tools)  # type: ignore[misc]
        return completed


class ReferenceConversation(_FollowsReference, ScriptedConversation):
    """A `Conversation` that writes the turns of the reference solution."""

    def __init__(self, environment: Environment, task: Task) -> None:
        self._reference = Reference(environment, task)
        super().__init__(lambda actions: self._reference.require_turn(), name="reference")


class Imitator(NamedTuple):
    """The model that is to imitate solutions."""

    model: str
    spell: Callable[[str, Actions], Completion]
    """A turn as it would have sampled it."""
    codec: ChatCodec


class SpelledReference(_FollowsReference, CapturedConversation):
    """The turns of the reference solution with the tokens of a model."""

    def __init__(self, imitator: Imitator, environment: Environment, task: Task, seed: int) -> None:
        self._reference = Reference(environment, task)
        self._spell = imitator.spell
        super().__init__(self, imitator.codec, SamplingParams(), seed)

    async def sample(self, request: SamplingRequest) -> Completion:
        """The solution's next turn: the conversation is its own sampler."""
        return self._spell(self._reference.require_turn(), request.actions)

    def fingerprint(self) -> str:
        """Of no weights."""
        return "reference"

    def forget(self) -> None:
        """There is nothing to forget."""


class ReferenceGuide:
    """The first turns of a task's reference solution, with the tokens of a model."""

    def __init__(
        self, imitator: Imitator, environment: Environment, task: Task, turns: int
    ) -> None:
        self._reference = Reference(environment, task)
        self._spell = imitator.spell
        self._left = turns
        self._has_begun = False

    def __call__(self, messages: Sequence[Message], actions: Actions) -> Completion | None:
        """The next turn; None once as many as were asked for are given."""
        if self._has_begun:
            self._reference.observe(messages[-1].content)
        self._has_begun = True
        turn = self._reference.next_turn() if self._left else None
        self._left -= 1
        return None if turn is None else self._spell(turn, actions)


def random_conversation(seed: int) -> ScriptedConversation:
    """A `Conversation` that writes uniformly random actions."""
    rng = random.Random(seed)
    return ScriptedConversation(lambda actions: random_action_text(actions, rng), name="random")


LONGEST_ARGUMENT = 200
"""Characters; a random argument that gets longer means that its syntax never ends."""


def is_writable(forms: Sequence[ActionForm], text: str) -> bool:
    """Whether constrained decoding over these forms could produce the text.

    >>> is_writable((ActionForm(name="switch lamp 1"),), "switch lamp 1")
    True
    """
    return any(
        text == form.name
        if form.argument is None
        else text.startswith(f"{form.name} ")
        and accepts(form.argument, text.removeprefix(f"{form.name} "))
        for form in forms
    )


def accepts(syntax: Callable[[str], NextCharacters], argument: str) -> bool:
    """Whether a syntax allows each character of an argument in turn, and the end after the last."""
    for at, character in enumerate(argument):
        if character not in syntax(argument[:at]).allowed:
            return False
    return syntax(argument).may_end


def random_action_text(forms: Sequence[ActionForm], rng: random.Random) -> str:
    """An action drawn uniformly; its argument character by character, uniformly too."""
    if not forms:
        raise UserError(
            "acting at random needs a list of actions, and this environment lists none; "
            "use it with constrained actions, as in env.actions=constrained"
        )
    form = rng.choice(forms)
    if form.argument is None:
        return form.name
    written = ""
    while len(written) < LONGEST_ARGUMENT:
        following = form.argument(written)
        options = [*following.allowed, *([""] if following.may_end else [])]
        if not options:
            raise ValueError(f"the syntax of {form.name!r} has no way on after {written!r}")
        character = rng.choice(options)
        if not character:
            return f"{form.name} {written}"
        written += character
    raise ValueError(f"the argument of {form.name!r} has no end: {written[:20]!r}...")
