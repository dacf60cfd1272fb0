"""One episode of a task of a user's file; scored by the file's tests.

Tests that are met are worth 0.4 times the square of their share as soon as the program is written;
handing in a program that meets all of them pays the other 0.6.
"""

from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message
from practicum_envs.code.code_session import (
    EMPTY,
    ON_THE_WAY,
    USELESS,
    WRONG,
    shortened,
    why_no_program,
)
from practicum_envs.code.code_turns import FENCED, FORMS, Turn, read_turn
from practicum_envs.code.user_judging import UserJudge
from practicum_envs.code.user_rows import UserProblem

RULES = """You write Python. Reply with one action a turn: its name on the first line, and code on \
the lines below it where it has some.
write_function: the whole program
test_code: assertions of yours, one a line
debug: whether the shown test fails
submit: hand it in, once
A turn that is nothing but code writes it and hands it in."""
OFFERED = ("write_function", "test_code", "debug", "submit")
MOST_ASSERTIONS = 8


class UserCodeSession:
    """One episode; implements `DiscreteSession`."""

    def __init__(
        self, task: Task, problem: UserProblem, judge: UserJudge, *, constrained: bool
    ) -> None:
        self._task = task
        self._problem = problem
        self._judge = judge
        self._constrained = constrained
        self._source = ""
        self._met: list[bool] = []
        self._worth = 0.0
        self._paid: list[float] = []
        self._is_over = False
        self._is_open = True

    def prompt(self) -> list[Message]:
        """The rules as system prompt, and the row's text."""
        return [
            Message(role="system", content=RULES),
            Message(role="user", content=self._task.instruction),
        ]

    def actions(self) -> tuple[ActionForm, ...]:
        """Four actions; none where the policy writes freely."""
        return tuple(f for f in FORMS if f.name in OFFERED) if self._constrained else ()

    async def act(self, text: str) -> Observation:
        """Carry out one turn."""
        if not self._is_open or self._is_over:
            raise RuntimeError("the episode is over; open a new session for another one")
        turn = read_turn(text)
        fenced = FENCED.search(text)
        if turn.action not in OFFERED and (fenced or text.lstrip().startswith(("def ", "class "))):
            says, cost = await self._write(fenced["code"] if fenced else text)
            self._is_over = not cost
        else:
            says, cost = await self._carry_out(turn)
        share = sum(self._met) / len(self._met) if self._met else 0.0
        worth = ON_THE_WAY * share**2
        pay = cost + worth - self._worth
        self._worth = worth
        if self._is_over:
            pay += (1.0 - ON_THE_WAY) if self._is_right else WRONG if self._source else EMPTY
            says = f"{sum(self._met)} of {len(self._met)} tests are met."
        self._paid.append(pay)
        message = Message(role="user", content=says)
        return Observation(message=message, reward=pay, terminated=self._is_over)

    async def _carry_out(self, turn: Turn) -> tuple[str, float]:
        if turn.action == "write_function":
            return await self._write(turn.code)
        if turn.action == "submit":
            self._is_over = True
            return "", 0.0
        if turn.action in ("test_code", "debug"):
            return await self._test(turn)
        return "Begin with the name of an action, such as write_function or submit.", USELESS

    async def _write(self, code: str) -> tuple[str, float]:
        problem = self._problem
        whole = code
        if problem.function and why_no_program(code, problem.function) is not None:
            whole = f"{problem.beginning}{code}" if problem.beginning else code
        wrong = why_no_program(whole, problem.function) if problem.function else _why_no_code(whole)
        if wrong is not None:
            return f"Nothing is changed: {wrong}.", USELESS
        if whole == self._source:
            return "That is what is there already.", USELESS
        self._source = whole
        self._met = await self._judge.met(problem, whole)
        return "The program is written. test_code runs it.", 0.0

    async def _test(self, turn: Turn) -> tuple[str, float]:
        if not self._source:
            return "There is no program yet; write_function writes it.", USELESS
        own = [line for line in turn.code.splitlines() if line.strip()][:MOST_ASSERTIONS]
        own = [one if one.lstrip().startswith("assert") else f"assert {one}" for one in own]
        asked = [*self._problem.shown, *own] if self._problem.function else []
        if not asked:
            return "There is no assertion to run.", USELESS
        met = await self._judge.assertions(self._problem, self._source, asked)
        failed = [
            f"It fails: {shortened(one)}" for one, ok in zip(asked, met, strict=True) if not ok
        ]
        return "\n".join([f"{sum(met)} of {len(met)} assertions hold.", *failed[:2]]), 0.0

    @property
    def _is_right(self) -> bool:
        return bool(self._met) and all(self._met)

    async def outcome(self) -> Outcome:
        """Success, the reward of each turn, and how many tests are met."""
        evidence: dict[str, JSON] = {
            "program": self._source,
            "tests_met": sum(self._met),
            "tests": len(self._problem.assertions) + len(self._problem.cases),
            "submitted": self._is_over,
        }
        success = self._is_over and self._is_right
        return Outcome(success=success, turn_rewards=tuple(self._paid), evidence=evidence)

    def close(self) -> None:
        """Refuse further turns."""
        self._is_open = False


def _why_no_code(source: str) -> str | None:
    """As `why_no_program`, where no name has to be defined."""
    wrong = why_no_program(source, "")
    return None if wrong is not None and wrong.startswith("it does not define") else wrong
