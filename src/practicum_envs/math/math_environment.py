"""The `math` environment: linear equations solved by named actions such as `subtract_terms 7`."""

from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar, Literal

from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import Outcome, Split, Task
from practicum.core.trace import Message
from practicum.environments.selection import LevelOptions
from practicum_envs.math.problems import (
    ENV,
    LEVELS,
    Problem,
    find_problem,
    generate,
    problem_of,
)
from practicum_envs.math.rules import (
    NAMED_ACTIONS,
    WRITTEN_ACTIONS,
    full_marks,
    play,
    reference_actions,
)

INSTRUCTION = (
    "Solve for x. Reply with one action a turn: identify_operation, set_up_equation, add_terms, "
    "subtract_terms, multiply_terms, divide_terms, simplify, state_answer. "
    "State the answer once x is alone. Your first reply is identify_operation."
)
WRITTEN_INSTRUCTION = (
    f"{INSTRUCTION} The terms actions and state_answer take a number or term: "
    "subtract_terms 7, add_terms 2x, divide_terms 3, state_answer 3/4."
)


class MathOptions(LevelOptions):
    """Options of the `math` environment."""

    level: int | list[int] = 1
    """Difficulty from 1 to 5, or several levels, evenly mixed."""
    actions: Literal["constrained", "free"] = "constrained"
    """`constrained`: the policy can only write an action; `free`: it writes text, which is read."""

    all_levels: ClassVar[Collection[int]] = LEVELS


class MathSession:
    """One episode of one problem; implements `DiscreteSession`."""

    def __init__(self, problem: Problem, *, constrained: bool) -> None:
        self._problem = problem
        self._constrained = constrained
        self._state = problem.start()
        self._turns: list[tuple[str, float]] = []
        self._is_open = True

    def prompt(self) -> list[Message]:
        """The rules as system prompt, and the problem."""
        rules = WRITTEN_INSTRUCTION if self._state.written else INSTRUCTION
        return [
            Message(role="system", content=rules),
            Message(role="user", content=self._problem.statement),
        ]

    def actions(self) -> tuple[ActionForm, ...]:
        """All eight actions at every turn; none with `actions: free`."""
        if not self._constrained:
            return ()
        return WRITTEN_ACTIONS if self._state.written else NAMED_ACTIONS

    async def act(self, text: str) -> Observation:
        """Carry out one action; an invalid one costs a turn too."""
        if not self._is_open or self._state.ending is not None:
            raise RuntimeError("the episode is over; open a new session for another one")
        self._state, pay, observation = play(self._state, text)
        self._turns.append((text, pay))
        return Observation(
            message=Message(role="user", content=observation),
            reward=pay,
            terminated=self._state.ending is not None,
        )

    async def outcome(self) -> Outcome:
        """Success, the reward of each turn, and the final equation."""
        state = self._state
        return Outcome(
            success=state.ending == "right",
            turn_rewards=tuple(pay for _, pay in self._turns),
            evidence={
                "problem": self._problem.statement,
                "final_equation": state.shown,
                "solution": str(state.solution),
                "stated_answer": None if state.stated is None else str(state.stated),
                "ending": state.ending,
                "actions": [text for text, _ in self._turns],
            },
        )

    def close(self) -> None:
        """Refuse further actions."""
        self._is_open = False


class MathEnvironment:
    """Linear equations solved step by step; implements `Environment`.

    >>> environment = MathEnvironment(MathOptions(level=1))
    >>> environment.reference(environment.find("3x + 7 = 16"))
    ('identify_operation', 'subtract_terms', 'divide_terms', 'state_answer')
    """

    name: str = ENV
    Options: ClassVar[type[MathOptions]] = MathOptions
    all_levels: ClassVar[tuple[int, ...]] = tuple(LEVELS)

    def __init__(self, options: MathOptions) -> None:
        self._options = options

    def tasks(self, split: Split, seed: int) -> Iterator[Task]:
        """Generated tasks: `train` is endless, `heldout` ends with its last task.

        No task repeats before all tasks of its level have come.
        """
        for problem in generate(self._options.levels, split, seed):
            yield problem.task()

    def open(self, task: Task) -> AbstractAsyncContextManager[MathSession]:
        """Start one episode of a task."""
        return self._session(task)

    @asynccontextmanager
    async def _session(self, task: Task) -> AsyncIterator[MathSession]:
        constrained = self._options.actions == "constrained"
        session = MathSession(problem_of(task), constrained=constrained)
        try:
            yield session
        finally:
            session.close()

    def reference(self, task: Task) -> Sequence[str]:
        """The actions that earn full marks."""
        return reference_actions(problem_of(task).start())

    def full_marks(self, task: Task) -> float:
        """The total reward of the reference, which no episode can exceed."""
        return full_marks(problem_of(task).start())

    def solution(self, outcome: Outcome) -> str:
        """The stated answer as an equation, or the equation that is left."""
        stated = outcome.evidence.get("stated_answer")
        return (
            str(outcome.evidence.get("final_equation", "")) if stated is None else f"x = {stated}"
        )

    def find(self, text: str) -> Task:
        """The task with this id, or one made from an equation such as `3x + 7 = 16`."""
        return find_problem(text).task()
