"""Episodes without a model: the solution of a task, and plausible wrong ones."""

from collections import Counter as Tally
from collections.abc import Sequence
from dataclasses import dataclass

from practicum_envs.code.code_problem import Case, Problem, own_results, value_in
from practicum_envs.code.code_turns import write_turn
from practicum_envs.code.inside_program import same
from practicum_envs.code.mutants import mutants_of

Turns = Sequence[str]


@dataclass(frozen=True, slots=True)
class Scripts:
    """Scripted episodes of one task; `between` stands between an action and its code."""

    problem: Problem
    between: str = "\n"

    def turn(self, action: str, code: str = "") -> str:
        """A turn as this task's session takes it."""
        return write_turn(action, code, self.between)

    def reference(self) -> Turns:
        """The turns that earn full marks."""
        problem = self.problem
        if problem.level == 1:
            return (self.turn("write_function", problem.program), "submit")
        if problem.draft:
            action = "optimize" if problem.budget else "write_function"
            change = self.turn(action, problem.program)
            return ("analyze_requirements", "debug", change, *self._tests(), "submit")
        first = self.turn("write_function", problem.first_program)
        more = (self.turn("add_logic", problem.line),) if problem.line else ()
        return ("analyze_requirements", first, *more, *self._tests(), "submit")

    def _tests(self) -> Turns:
        tests = "\n".join(self.problem.own_tests)
        return (self.turn("test_code", tests),) if tests else ()

    def handing_in(self, program: str) -> Turns:
        """Writes a program, runs the right tests and hands it in."""
        return (self.turn("write_function", program), *self._tests(), "submit")

    def near_misses(self) -> dict[str, Turns]:
        """Wrong solutions by what is wrong with them."""
        problem = self.problem
        found = {"the shown cases alone": self.handing_in(lookup(problem, problem.visible))}
        if (mutant := self._wrong_mutant()) is not None:
            found["a small mistake"] = self.handing_in(mutant)
        if problem.line:
            found["without the further requirement"] = self.handing_in(problem.first_program)
        if problem.mutants:
            found["no tests of its own"] = (
                self.turn("write_function", problem.program),
                "submit",
            )
            expected = "\n".join(
                f"{one.rpartition(' == ')[0]} == 'no'" for one in problem.own_tests
            )
            found["tests that are wrong"] = (
                self.turn("write_function", problem.program),
                self.turn("test_code", expected),
                "submit",
            )
        if problem.draft:
            found["the draft as it is"] = (*self._tests(), "submit")
        if problem.budget:
            found["right and slow"] = (
                self.turn("add_logic", problem.line),
                *self._tests(),
                "submit",
            )
        return found

    def _wrong_mutant(self) -> str | None:
        """The mutant that meets the most hidden cases, and not all."""
        problem = self.problem
        best: tuple[int, str] | None = None
        args = [case.args for case in problem.hidden]
        for mutant in mutants_of(problem.program):
            results = own_results(problem, mutant, args)
            met = sum(
                same(value_in(one), case.expected)
                for one, case in zip(results, problem.hidden, strict=True)
            )
            if met < len(args) and (best is None or met > best[0]):
                best = (met, mutant)
        return best[1] if best else None


def lookup(problem: Problem, cases: Sequence[Case]) -> str:
    """A program that knows the answers of some cases, and the commonest of them for all others."""
    commonest = Tally(repr(case.expected) for case in cases).most_common(1)[0][0]
    if problem.via == "class":
        return (
            f"class {problem.function}:\n    def __init__(self, *given):\n"
            f"        self.left = list({cases[0].expected!r})\n\n"
            "    def __getattr__(self, name):\n"
            "        return lambda *given: self.left.pop(0) if self.left else None\n"
        )
    if problem.via == "sql":
        rows = cases[0].expected or [[0]]
        values = " union all ".join(f"select {', '.join(map(repr, row))}" for row in rows)
        return f"def {problem.function}():\n    return {values!r}\n"
    table = ", ".join(f"{case.args!r}: {case.expected!r}" for case in map(_as_texts, cases))
    return (
        f"def {problem.function}(*given):\n    known = {{{table}}}\n"
        f"    return known.get(repr(given), {commonest})\n"
    )


def _as_texts(case: Case) -> Case:
    return Case(args=repr(case.args), expected=case.expected)  # type: ignore[arg-type]
