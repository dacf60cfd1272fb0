"""What a program and own tests are worth, from hidden cases, mutants, lint and operations."""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from practicum_envs.code.code_lint import lint
from practicum_envs.code.code_problem import (
    MOST_OPERATIONS,
    MOST_TESTS,
    MOST_TIMES_BUDGET,
    Case,
    OwnTest,
    Problem,
    own_results,
    value_in,
)
from practicum_envs.code.inside_program import TOO_MANY, same
from practicum_envs.code.program_runner import CallResult, ProgramRunner

KEPT_GRADES = 4_096
LINT_PART = 0.1
"""Of what a right program is paid, what a clean one is paid for."""
FREE_OBJECTION = 0.5
"""Of that part, what each objection costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Shares of full marks; together they are 1."""

    program: float
    tests: float = 0.0
    operations: float = 0.0


def weights_of(problem: Problem) -> Weights:
    """What the parts of a task count for."""
    if problem.budget:
        return Weights(program=0.6, tests=0.15, operations=0.25)
    if problem.mutants:
        return Weights(program=0.8, tests=0.2)
    return Weights(program=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What a program was found to be."""

    met: int = 0
    """Hidden cases whose value is right."""
    of: int = 0
    is_right: bool = False
    """All of them, and all large inputs for which it has operations enough."""
    progress: float = 0.0
    """From 0, what can be had without the work, to 1."""
    operations: int | None = None
    """On the large inputs, the most of them; None where they are not known."""
    thrift: float = 0.0
    """From 0, as many operations as the draft, to 1, within the budget; 0 for a wrong program."""
    clean: float = 0.0
    """From 0 to 1: what a reader has to object to."""
    objections: tuple[str, ...] = ()


NOTHING = Grade()
"""Where there is no program."""


class Grader:
    """Grades programs, and remembers the grades of those it has seen."""

    def __init__(self, runner: ProgramRunner) -> None:
        self._runner = runner
        self._known: OrderedDict[tuple[str, str], Grade] = OrderedDict()

    async def grade(self, problem: Problem, source: str) -> Grade:
        """The grade of a program; `NOTHING` where there is none."""
        if not source.strip():
            return NOTHING
        key = (problem.key, source)
        if key not in self._known:
            self._known[key] = await self._graded(problem, source)
            if len(self._known) > KEPT_GRADES:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    async def _graded(self, problem: Problem, source: str) -> Grade:
        hidden = await self._runner.run(
            source, [problem.call(case.args) for case in problem.hidden], MOST_OPERATIONS
        )
        met = count_met(hidden, problem.hidden)
        is_right = met == len(problem.hidden)
        progress = max(0.0, (met / len(problem.hidden) - problem.base) / (1.0 - problem.base))
        operations: int | None = None
        if is_right and problem.large:
            large = await self.measured(problem, source)
            stopped = any(one.error == TOO_MANY for one in large)
            is_right = stopped or count_met(large, problem.large) == len(problem.large)
            operations = most_operations(large) if is_right and not stopped else None
        objections = lint(source) if is_right else []
        return Grade(
            met=met,
            of=len(problem.hidden),
            is_right=is_right,
            progress=progress,
            operations=operations,
            thrift=_thrift(problem, operations) if is_right else 0.0,
            clean=max(0.0, 1.0 - FREE_OBJECTION * len(objections)) if is_right else 0.0,
            objections=tuple(objections[:4]),
        )

    async def measured(self, problem: Problem, source: str) -> list[CallResult]:
        """What a program gives for the large inputs, with its operations."""
        calls = [problem.call(case.args) for case in problem.large]
        return await self._runner.run(source, calls, MOST_TIMES_BUDGET * problem.budget)

    async def results(
        self, problem: Problem, source: str, cases: Sequence[Case]
    ) -> list[CallResult]:
        """What a program gives for some cases."""
        return await self._runner.run(
            source, [problem.call(case.args) for case in cases], MOST_OPERATIONS
        )


def count_met(results: Sequence[CallResult], cases: Sequence[Case]) -> int:
    """How many results are what is expected."""
    return sum(is_met(one, case) for one, case in zip(results, cases, strict=True))


def is_met(result: CallResult, case: Case) -> bool:
    """Whether a call gave the expected value."""
    return not result.error and same(result.value, case.expected)


def most_operations(results: Sequence[CallResult]) -> int | None:
    """The most operations of some calls; None where they are not known of all."""
    counts = [one.operations for one in results if one.operations is not None]
    return max(counts) if counts and len(counts) == len(results) else None


def _thrift(problem: Problem, operations: int | None) -> float:
    """How much of the way from the draft's operations to the budget was gone, by their logarithms.

    Fewer operations than inputs have items cannot be: whoever says so is not believed.
    """
    if operations is None or not problem.budget or operations < 2:
        return 0.0
    over = math.log(max(operations, problem.budget) / problem.budget)
    return max(0.0, 1.0 - over / math.log(problem.slow_operations / problem.budget))


@dataclass(slots=True)
class OwnSuite:
    """The tests that a policy wrote in an episode: the first few, each input once."""

    problem: Problem
    tests: list[OwnTest] = field(default_factory=list)
    _caught: set[int] = field(default_factory=set)
    _valid: int = 0

    def add(self, test: OwnTest) -> str:
        """Take a test in; why it does not count, or nothing where it does."""
        if any(one.case.args == test.case.args for one in self.tests):
            return "an input counts once"
        if len(self.tests) >= MOST_TESTS:
            return f"only {MOST_TESTS} tests count"
        self.tests.append(test)
        args = [test.case.args]
        if not same(
            value_in(own_results(self.problem, self.problem.program, args)[0]), test.case.expected
        ):
            return ""
        self._valid += 1
        for number, mutant in enumerate(self.problem.mutants):
            found = value_in(own_results(self.problem, mutant, args)[0])
            if not same(found, test.case.expected):
                self._caught.add(number)
        return ""

    @property
    def caught(self) -> int:
        """How many mutants its right tests catch."""
        return len(self._caught)

    @property
    def worth(self) -> float:
        """The share of mutants that are caught, times the share of tests that are right."""
        if not self.tests or not self.problem.mutants:
            return 0.0
        return self.caught / len(self.problem.mutants) * self._valid / len(self.tests)
