"""One episode of a generated programming task.

Rewards, of full marks 1 (see `code_grading.Weights`):

* A program is worth 0.4 of its share times the square of its progress over the hidden cases, which
  begins at what a constant, the argument itself or the given draft meets. A turn earns what it adds
  to that or loses what it takes away, so that no way of turns pays more than its end.
* Own tests are worth the share of mutants they catch, paid in the same way.
* `submit` with a program that is right pays the other 0.6 of its share (a tenth of that for being
  clean, in `code_lint`) and the share of operations. It costs 0.05 with a wrong program and 0.2
  with none, and ends the episode.
* A turn that changes nothing and tells nothing new costs 0.02.
"""

import ast
from dataclasses import dataclass, field
from textwrap import indent

from practicum.core.interfaces import Observation
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message
from practicum_envs.code.code_grading import (
    LINT_PART,
    NOTHING,
    Grade,
    Grader,
    OwnSuite,
    is_met,
    most_operations,
    weights_of,
)
from practicum_envs.code.code_problem import MOST_TIMES_BUDGET, Case, OwnTest, Problem, read_tests
from practicum_envs.code.code_turns import FORMS, read_turn
from practicum_envs.code.countable import parsed
from practicum_envs.code.inside_program import TOO_MANY
from practicum_envs.code.program_runner import CallResult

ON_THE_WAY = 0.4
"""Of the program's share, what progress is worth before it is handed in."""
USELESS, WRONG, EMPTY = -0.02, -0.05, -0.2
SHOWN = 150
"""Characters of a case that are shown: all, unless a program has made much of it."""
SHOWN_TESTS = 4
SHOULD = "it should be"

RULES = """You write a Python program. Reply with one action a turn: its name on the first line, \
and code on the lines below it where it has some.
analyze_requirements: read every requirement
write_function: the whole program
add_logic: lines to put at the start of the function
test_code: tests of yours, one a line, such as {example}
debug: see a case that fails
optimize: a faster program; operations are counted
submit: hand it in, once"""


@dataclass(slots=True)
class _Work:
    """What an episode has come to."""

    source: str
    grade: Grade
    worth: float = 0.0
    """Of the program and the tests, as far as it was paid."""
    has_analyzed: bool = False
    shown_cases: int = 0
    debugged: str | None = None
    tested: str | None = None
    is_over: bool = False
    turns: list[tuple[str, float]] = field(default_factory=list)


class CodeSession:
    """One episode of one task; implements `DiscreteSession`."""

    def __init__(self, task: Task, problem: Problem, grader: Grader, *, constrained: bool) -> None:
        self._task = task
        self._problem = problem
        self._grader = grader
        self._constrained = constrained
        self._suite = OwnSuite(problem)
        self._weights = weights_of(problem)
        self._work = _Work(source=problem.draft, grade=NOTHING)
        self._is_open = True

    def prompt(self) -> list[Message]:
        """The rules as system prompt, and the task."""
        case = self._problem.visible[0]
        example = shortened(f"{self._problem.shown(case.args)} == {case.expected!r}")
        return [
            Message(role="system", content=RULES.format(example=example)),
            Message(role="user", content=self._task.instruction),
        ]

    def actions(self) -> tuple[ActionForm, ...]:
        """The seven actions; none where the policy writes freely."""
        return FORMS if self._constrained else ()

    async def act(self, text: str) -> Observation:
        """Carry out one turn; one that names no action is useless."""
        if not self._is_open or self._work.is_over:
            raise RuntimeError("the episode is over; open a new session for another one")
        turn = read_turn(text)
        says, cost = await self._carry_out(turn.action, turn.code)
        pay = cost + self._new_worth() + self._ending()
        self._work.turns.append((turn.action or "unreadable", pay))
        return Observation(
            message=Message(role="user", content=says), reward=pay, terminated=self._work.is_over
        )

    async def _carry_out(self, action: str, code: str) -> tuple[str, float]:
        """What the policy is told, and what the turn costs by itself."""
        if action == "analyze_requirements":
            return self._analyze()
        if action in ("write_function", "add_logic"):
            return await self._write(code if action == "write_function" else self._with_logic(code))
        if action == "test_code":
            return await self._test(code)
        if action == "debug":
            return await self._debug()
        if action == "optimize":
            return await self._optimize(code)
        if action == "submit":
            self._work.is_over = True
            return self._verdict(), 0.0
        return "Begin with the name of an action, such as write_function or submit.", USELESS

    def _analyze(self) -> tuple[str, float]:
        cost = USELESS if self._work.has_analyzed else 0.0
        self._work.has_analyzed = True
        problem = self._problem
        examples = [f"{problem.shown(c.args)} == {c.expected!r}" for c in problem.visible]
        told = [problem.requirement, *(f"For example {shortened(one)}" for one in examples)]
        return "\n".join(one for one in told if one), cost

    def _with_logic(self, code: str) -> str:
        """The program with lines at the start of its function, or definitions before it."""
        if not self._work.source.strip() or not code.strip():
            return code
        if code.lstrip().startswith(("def ", "class ", "import ", "from ")):
            return f"{code}\n\n{self._work.source}"
        try:
            tree = parsed(self._work.source)
        except (SyntaxError, ValueError):
            return f"{self._work.source}{code}"
        at = next(
            (
                node.body[0].lineno
                for node in tree.body
                if isinstance(node, ast.FunctionDef) and node.name == self._problem.function
            ),
            None,
        )
        if at is None:
            return f"{self._work.source}{code}"
        lines = self._work.source.splitlines()
        return (
            "\n".join([*lines[: at - 1], indent(_dedented(code), "    "), *lines[at - 1 :]]) + "\n"
        )

    async def _write(self, source: str) -> tuple[str, float]:
        problem = self._problem
        if (wrong := why_no_program(source, problem.function)) is not None:
            return f"Nothing is changed: {wrong}.", USELESS
        source = source.rstrip() + "\n"
        if source == self._work.source:
            return "That is what is there already.", USELESS
        self._work.source = source
        self._work.grade = await self._grader.grade(problem, source)
        count = len(source.splitlines())
        return f"{problem.function} is written, {count} lines. test_code runs it.", 0.0

    async def _test(self, code: str) -> tuple[str, float]:
        if not self._work.source.strip():
            return "There is no program yet; write_function writes it.", USELESS
        says: list[str] = []
        added = 0
        cases: list[Case] = list(self._problem.visible)
        for one in read_tests(code, self._problem):
            if isinstance(one, OwnTest):
                refused = self._suite.add(one)
                added += not refused
                says += [f"Not counted: {refused}."] if refused else []
                cases.append(one.case)
            else:
                says.append(f"Not run: {one}.")
        if not added and self._work.tested == self._work.source:
            return "\n".join(["Nothing new to test.", *says[:2]]), USELESS
        self._work.tested = self._work.source
        cases = cases[: len(self._problem.visible) + SHOWN_TESTS]
        results = await self._grader.results(self._problem, self._work.source, cases)
        met = sum(map(is_met, results, cases))
        failed = [
            self._compared(
                case,
                result,
                "your test says" if at >= len(self._problem.visible) else SHOULD,
            )
            for at, (case, result) in enumerate(zip(cases, results, strict=True))
            if not is_met(result, case)
        ]
        return "\n".join([f"{met} of {len(cases)} tests pass.", *failed[:2], *says[:2]]), 0.0

    def _compared(self, case: Case, result: CallResult, what: str) -> str:
        gives = (
            f"raises {result.error}" if result.error else f"gives {shortened(repr(result.value))}"
        )
        call = shortened(self._problem.shown(case.args))
        return f"{call} {shortened(gives)}, {what} {shortened(repr(case.expected))}."

    async def _debug(self) -> tuple[str, float]:
        if not self._work.source.strip():
            return "There is no program yet; write_function writes it.", USELESS
        if self._work.debugged == self._work.source:
            return "The program has not changed since.", USELESS
        self._work.debugged = self._work.source
        cases = [*self._problem.visible, *self._problem.pool]
        results = await self._grader.results(self._problem, self._work.source, cases)
        for case, result in zip(cases, results, strict=True):
            if not is_met(result, case):
                return self._compared(case, result, SHOULD), 0.0
        return "No case that was tried fails.", 0.0

    async def _optimize(self, code: str) -> tuple[str, float]:
        problem = self._problem
        if not problem.budget:
            says, cost = await self._write(code) if code.strip() else ("", USELESS)
            return f"{says} There is nothing to be made faster here.".strip(), cost
        before = await self._operations()
        if not code.strip():
            return f"Operations: {before}; at most {problem.budget} are wanted.", USELESS
        says, cost = await self._write(code)
        if cost:
            return says, cost
        now = await self._operations()
        return f"Operations: {before} before, {now} now; at most {problem.budget} are wanted.", 0.0

    async def _operations(self) -> str:
        """The operations of the program as it is, in words."""
        if not self._work.source.strip():
            return "none"
        found = await self._grader.measured(self._problem, self._work.source)
        count = most_operations(found)
        if any(one.error == TOO_MANY for one in found):
            return f"over {MOST_TIMES_BUDGET * self._problem.budget}"
        return "unknown" if count is None else f"{count}"

    def _new_worth(self) -> float:
        """What program and tests are worth more than before."""
        weights, grade = self._weights, self._work.grade
        worth = ON_THE_WAY * weights.program * grade.progress**2 + weights.tests * self._suite.worth
        gained, self._work.worth = worth - self._work.worth, worth
        return gained

    def _ending(self) -> float:
        """What handing in pays; nothing where the episode goes on."""
        grade, weights = self._work.grade, self._weights
        if not self._work.is_over:
            return 0.0
        if grade.is_right:
            clean = 1.0 - LINT_PART * (1.0 - grade.clean)
            return (1.0 - ON_THE_WAY) * weights.program * clean + weights.operations * grade.thrift
        return EMPTY if self._work.source in ("", self._problem.draft) else WRONG

    @property
    def _is_solved(self) -> bool:
        caught = self._suite.worth == 1.0 or not self._problem.mutants
        is_fast = self._work.grade.thrift == 1.0 or not self._problem.budget
        return self._work.is_over and self._work.grade.is_right and caught and is_fast

    def _verdict(self) -> str:
        """How it went, for whoever watches."""
        grade, problem = self._work.grade, self._problem
        said = [f"{grade.met} of {len(problem.hidden)} hidden cases are right."]
        if problem.mutants:
            said.append(f"Your tests catch {self._suite.caught} of {len(problem.mutants)} mutants.")
        if problem.budget:
            said.append(f"Operations: {grade.operations or 'unknown'}, wanted {problem.budget}.")
        return " ".join([*said, *(f"A reader objects: {one}." for one in grade.objections)])

    async def outcome(self) -> Outcome:
        """Success, the reward of each turn, and what the program and the tests came to."""
        grade = self._work.grade
        evidence: dict[str, JSON] = {
            "program": self._work.source,
            "hidden_met": grade.met,
            "hidden": len(self._problem.hidden),
            "mutants": len(self._problem.mutants),
            "mutants_caught": self._suite.caught,
            "own_tests": [one.text for one in self._suite.tests],
            "operations": grade.operations,
            "budget": self._problem.budget or None,
            "objections": list(grade.objections),
            "actions": [action for action, _ in self._work.turns],
            "submitted": self._work.is_over,
        }
        paid = tuple(pay for _, pay in self._work.turns)
        return Outcome(success=self._is_solved, turn_rewards=paid, evidence=evidence)

    def close(self) -> None:
        """Refuse further turns."""
        self._is_open = False


def shortened(text: str) -> str:
    """A text with its middle left out where it is long."""
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 30]} ... {text[-24:]}"


def _dedented(code: str) -> str:
    """Lines without the indentation of the first of them."""
    lines = code.splitlines()
    first = next(line for line in lines if line.strip())
    margin = first[: len(first) - len(first.lstrip())]
    return "\n".join(line.removeprefix(margin) for line in lines)


def why_no_program(source: str, function: str) -> str | None:
    """Why a text is no program that defines a name; None where it is one."""
    if not source.strip():
        return "there is no code; write it on the lines below the action"
    try:
        tree = parsed(source)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except ValueError as error:
        return str(error)
    defined = {
        name
        for node in tree.body
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            else [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
        )
    }
    return None if function in defined else f"it does not define {function}"


def instruction_of(problem: Problem) -> str:
    """A task in words, as the policy sees it."""
    what = {"call": "function", "class": "", "sql": "function"}[problem.via]
    told = [f"Write the {what} {problem.signature}.".replace("  ", " "), problem.says]
    case = problem.visible[0]
    if problem.level == 1:
        told.append(f"For example {shortened(f'{problem.shown(case.args)} == {case.expected!r}')}")
    elif problem.draft:
        fault = "slow and wrong" if problem.budget else "wrong"
        told.append(f"There is a program, which is {fault}:\n{problem.draft.rstrip()}")
    if problem.requirement:
        told.append("There is one more requirement: see analyze_requirements.")
    if problem.via == "class":
        told.append("A test gives the arguments of the object and the calls: see the example.")
    if problem.via == "sql":
        told.append("A test gives the rows of the table.")
    return "\n".join(told)
