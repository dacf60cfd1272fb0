"""Makes a task of what a family draws: names, cases, mutants, a draft, and the tests of a solution.

Expected values come from the family's own answer, which never runs the program. The programs that
run here are the environment's, counted and with a limit, so that a mutant without end ends.
"""

import ast
import hashlib
import random
import re
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from textwrap import indent
from typing import Any, Literal

from practicum.core.python_source import parse_python
from practicum_envs.code.countable import counted
from practicum_envs.code.families.all_code_families import code_families
from practicum_envs.code.families.drafting import Draft, Family, Twist, Via
from practicum_envs.code.inside_program import decoded, encoded, results_of, same
from practicum_envs.code.mutants import mutants_of

LEVELS = (1, 2, 3)
VISIBLE, HIDDEN, POOL = 2, 16, 12
"""Cases that are shown, that score, and that `debug` and a solution's own tests draw from."""
SMALL, LARGE = 7, 240
"""How large the inputs of cases are, and those on which operations are counted."""
MOST_OPERATIONS = 100_000
"""Of one call on a small input; a loop that uses them up has no end."""
MUTANT_OPERATIONS = 4_000
LEAST_TIMES_BUDGET, MOST_TIMES_BUDGET = 3, 12
"""Operations of a draft, and those after which a program on a large input is stopped."""
MOST_MUTANTS = 4
MOST_TESTS = 6
"""Own tests that count."""
MOST_TEST_CHARACTERS = 150
HELDOUT_PART = 5
"""One task in so many is held out where names are."""
TRIES = 400
DRAWN_CASES = 48
"""Of which those are chosen in which a further requirement matters."""
LARGEST_BASE = 0.82
"""The share of hidden cases that may be met without the work."""

Series = Literal["train", "names", "kinds"]
"""Training tasks, held-out tasks of trained families, held-out tasks of other families."""

PREFIXES = ("", "get", "find", "make", "give", "work_out", "build", "show", "quick", "our", "new")
ARGUMENTS = {
    "xs": ("xs", "numbers", "nums", "values", "items"),
    "s": ("s", "text", "line", "source"),
    "words": ("words", "tokens", "terms"),
    "n": ("n", "num", "value"),
    "days": ("days", "dates"),
    "day": ("day", "when"),
    "edges": ("edges", "links", "ties"),
}
"""The names an argument of a kind may have; no program uses them for anything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Arguments and the value that is right for them."""

    args: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One generated task, with all it is judged by."""

    family: str
    domain: str
    level: int
    function: str
    signature: str
    says: str
    requirement: str
    """Told by `analyze_requirements`; empty at level 1."""
    program: str
    """That meets everything."""
    first_program: str
    """Without the line that the requirement adds; the same where it adds none."""
    line: str
    """The line that the requirement adds at the start of the function; empty for none."""
    draft: str
    """That the session begins with; empty below level 3."""
    via: Via
    schema: str
    visible: tuple[Case, ...]
    hidden: tuple[Case, ...]
    pool: tuple[Case, ...]
    large: tuple[Case, ...]
    """Inputs on which operations are counted; none where there is nothing to be gained."""
    budget: int
    """Operations that they may take; 0 where they are not counted."""
    slow_operations: int
    """Operations of the draft on them."""
    mutants: tuple[str, ...]
    """Wrong programs that own tests must catch; first those that the visible cases do not catch."""
    own_tests: tuple[str, ...]
    """Tests that catch all of them."""
    base: float = 0.0
    """The share of hidden cases that is met without the work: by a constant, by giving the argument
    back, by the draft."""
    key: str = ""
    """What it was drawn from."""

    def call(self, args: Sequence[Any]) -> dict[str, Any]:
        """A call as it is given to `results_of`."""
        given = [encoded(one) for one in args]
        return {"function": self.function, "via": self.via, "schema": self.schema, "args": given}

    def shown(self, args: Sequence[Any]) -> str:
        """A call as it is shown."""
        return f"{self.function}({', '.join(map(repr, args))})"


def own_results(
    problem: Problem, source: str, args: Sequence[Sequence[Any]], most: int = MUTANT_OPERATIONS
) -> list[dict[str, Any]]:
    """What one of the environment's own programs gives for some arguments, in this process."""
    calls = [problem.call(one) for one in args]
    return list(results_of(counted(source), calls, most))


def value_in(result: dict[str, Any]) -> Any:
    """The value of a result; an object equal to nothing where there is none."""
    try:
        return decoded(result["value"])
    except (KeyError, ValueError, RecursionError, TypeError):
        return object()


def _meets(problem: Problem, source: str, cases: Sequence[Case]) -> list[bool]:
    found = own_results(problem, source, [case.args for case in cases])
    return [same(value_in(one), case.expected) for one, case in zip(found, cases, strict=True)]


def draw_problem(family: Family, level: int, seed: str, series: Series) -> Problem:
    """The task of a family, a level, a seed and a series; the same for the same."""
    for attempt in range(TRIES):
        rng = random.Random(f"{family.name} {level} {series} {seed} {attempt}")
        draft = family.draw(rng, level)
        for twist in _twists(draft, level, rng):
            problem = _build(family, draft, twist, series, level, rng)
            if problem is not None and (base := _base(problem)) <= LARGEST_BASE:
                key = f"{family.name} {level} {series} {seed}"
                return replace(problem, base=base, key=key)
    raise RuntimeError(f"no task of family {family.name!r} at level {level} was found")


def _base(problem: Problem) -> float:
    constant = Tally(repr(case.expected) for case in problem.hidden).most_common(1)[0][1]
    given = sum(len(case.args) > 0 and same(case.args[0], case.expected) for case in problem.hidden)
    drafted = sum(_meets(problem, problem.draft, problem.hidden)) if problem.draft else 0
    return max(constant, given, drafted) / len(problem.hidden)


@lru_cache(maxsize=512)
def problem_of(family: str, level: int, seed: str, series: Series) -> Problem:
    """As `draw_problem`, by the name of the family; kept for a while."""
    return draw_problem(code_families()[family], level, seed, series)


def content_hash(problem: Problem) -> int:
    """A number for what the task asks, whatever its cases are."""
    asked = "\n".join([problem.family, problem.signature, problem.says, problem.requirement])
    return int(hashlib.blake2b(asked.encode(), digest_size=6).hexdigest(), 16)


def _belongs(problem: Problem, series: Series) -> bool:
    """Whether a task is of the series: by a hash of what it asks where names are held out."""
    is_heldout = content_hash(problem) % HELDOUT_PART == 0
    return series == "kinds" or is_heldout == (series == "names")


def _twists(draft: Draft, level: int, rng: random.Random) -> list[Twist | None]:
    if level == 1 or not draft.twists:
        return [None]
    return list(rng.sample(draft.twists, len(draft.twists)))


def _build(
    family: Family,
    draft: Draft,
    twist: Twist | None,
    series: Series,
    level: int,
    rng: random.Random,
) -> Problem | None:
    """The task, or None where these draws make a poor one."""
    names = _Naming(family, draft, rng)
    first, line = names.program(draft.body), names.renamed(twist.line) if twist else ""
    program = names.program(draft.body, line)
    cases = _cases(draft, twist, rng)
    if cases is None:
        return None
    visible, hidden, pool = cases
    made = Problem(
        family=family.name,
        domain=family.domain,
        level=level,
        function=names.function,
        signature=names.signature,
        says=names.told(draft.says),
        requirement=(twist.says if twist else draft.more) if level > 1 else "",
        program=program,
        first_program=first,
        line=line,
        draft="",
        via=draft.via,
        schema=draft.schema,
        visible=visible,
        hidden=hidden,
        pool=pool,
        large=(),
        budget=0,
        slow_operations=0,
        mutants=(),
        own_tests=(),
    )
    if not _belongs(made, series):
        return None
    if not all(_meets(made, program, hidden)):
        raise RuntimeError(f"the program of family {family.name!r} is wrong: {program}")
    if level > 1 and (tested := _with_mutants(made, rng)) is not None:
        made = tested
    elif level > 1:
        return None
    return made if level < 3 else _with_draft(made, draft, twist, names, rng)


class _Naming:
    """The names of one task."""

    def __init__(self, family: Family, draft: Draft, rng: random.Random) -> None:
        self._arguments = {name: rng.choice(ARGUMENTS[name]) for name in draft.args}
        self._via = draft.via
        if draft.names:
            self.function = rng.choice(draft.names)
        else:
            prefix = rng.choice(PREFIXES)
            self.function = f"{prefix}_{family.name}" if prefix else family.name
        arguments = ", ".join(self._arguments[name] for name in draft.args)
        self.signature = (
            f"class {self.function}" if draft.via == "class" else f"{self.function}({arguments})"
        )

    def renamed(self, text: str) -> str:
        """A piece of a program with the task's names."""
        for name, other in self._arguments.items():
            text = re.sub(rf"(?<![.\w'\"]){name}\b(?!=[^=])", other, text)
        return text

    def told(self, says: str) -> str:
        """The statement; of the arguments it names n alone."""
        return re.sub(r"\bn\b", self._arguments.get("n", "n"), says)

    def program(self, body: str, line: str = "") -> str:
        """The whole program with this body."""
        if self._via == "class":
            return re.sub(r"^class \w+", f"class {self.function}", body) + "\n"
        whole = f"{line}\n{self.renamed(body)}" if line else self.renamed(body)
        return f"def {self.signature}:\n{indent(whole, '    ')}\n"


def _cases(
    draft: Draft, twist: Twist | None, rng: random.Random
) -> tuple[tuple[Case, ...], tuple[Case, ...], tuple[Case, ...]] | None:
    """Visible, hidden and other cases, all different; None where they tell too little."""
    found: dict[str, tuple[tuple[Any, ...], Any, bool]] = {}
    for _ in range(DRAWN_CASES * 4):
        args = draft.sample(rng, SMALL)
        changed = (twist.change(args[0]), *args[1:]) if twist else args
        expected = draft.answer(*changed)
        matters = twist is not None and not same(expected, draft.answer(*args))
        found.setdefault(repr(args), (args, expected, matters))
        if len(found) == DRAWN_CASES:
            break
    drawn = list(found.values())
    if len(drawn) < VISIBLE + HIDDEN:
        return None
    shown = sorted(range(len(drawn)), key=lambda at: (not drawn[at][0][0], len(repr(drawn[at]))))
    middle = shown[len(shown) // 3 :]
    first = middle[0]
    other = next((at for at in middle if not same(drawn[at][1], drawn[first][1])), None)
    if other is None:
        return None
    rest = [one for at, one in enumerate(drawn) if at not in (first, other)]
    matter = [one for one in rest if one[2]]
    first_of_pool = matter[2::3]
    scored = (matter[0::3] + matter[1::3])[: HIDDEN // 2]
    others = [one for one in rest if one not in first_of_pool and one not in scored]
    hidden = (scored + others)[:HIDDEN]
    pool = (first_of_pool + others[HIDDEN - len(scored) :])[:POOL]
    commonest = Tally(repr(one[1]) for one in hidden).most_common(1)[0][1]
    if commonest > 0.7 * HIDDEN or (twist and sum(one[2] for one in hidden) < 3):
        return None

    def cases(some: Sequence[tuple[tuple[Any, ...], Any, bool]]) -> tuple[Case, ...]:
        return tuple(Case(args=args, expected=expected) for args, expected, _ in some)

    return cases([drawn[first], drawn[other]]), cases(hidden), cases(pool)


def _with_mutants(problem: Problem, rng: random.Random) -> Problem | None:
    """The task with mutants and tests that catch them; None where too few can be had."""
    everywhere = [*problem.visible, *problem.hidden, *problem.pool]
    candidates = list(mutants_of(problem.program))
    rng.shuffle(candidates)
    if problem.first_program != problem.program:
        candidates.insert(0, problem.first_program)
    short = [
        at
        for at, case in enumerate(everywhere)
        if len(_test(problem, case)) <= MOST_TEST_CHARACTERS
    ]
    candidates.sort(key=lambda one: not all(_meets(problem, one, problem.visible)))
    chosen: dict[str, list[bool]] = {}
    for mutant in candidates:
        met = _meets(problem, mutant, everywhere)
        is_found = not all(met[len(problem.visible) :][: len(problem.hidden)])
        if is_found and not all(met[at] for at in short) and met not in chosen.values():
            chosen[mutant] = met
        if len(chosen) == MOST_MUTANTS:
            break
    if len(chosen) < 2:
        return None
    tests: list[int] = []
    left = list(chosen.values())
    while left:
        best = max(short, key=lambda at: sum(not met[at] for met in left))
        tests.append(best)
        left = [met for met in left if met[best]]
    if len(tests) > MOST_TESTS:
        return None
    return replace(
        problem,
        mutants=tuple(chosen),
        own_tests=tuple(_test(problem, everywhere[at]) for at in tests),
    )


def _test(problem: Problem, case: Case) -> str:
    return f"{problem.shown(case.args)} == {case.expected!r}"


def _with_draft(
    problem: Problem, draft: Draft, twist: Twist | None, names: _Naming, rng: random.Random
) -> Problem | None:
    """The task with a draft that is wrong, and slow where the family has a slow body."""
    if not draft.slow or twist is None:
        candidates = list(mutants_of(problem.program))
        rng.shuffle(candidates)
        wrong = next((one for one in candidates if _is_wrong(problem, one)), None)
        return None if wrong is None else replace(problem, draft=wrong + "\n")
    slow = names.program(draft.slow)
    if not _is_wrong(problem, slow):
        return None
    large = [_large_case(draft, twist, rng) for _ in range(2)]
    args = [case.args for case in large]
    budget = 2 * max(
        one["operations"] for one in own_results(problem, problem.program, args, 10**6)
    )
    most = MOST_TIMES_BUDGET * budget
    operations = max(one["operations"] for one in own_results(problem, slow, args, most))
    if operations < LEAST_TIMES_BUDGET * budget:
        return None
    return replace(
        problem, draft=slow, large=tuple(large), budget=budget, slow_operations=operations
    )


def _is_wrong(problem: Problem, source: str) -> bool:
    """Whether a draft has something to mend, of which the cases that `debug` draws from tell."""
    met = _meets(problem, source, problem.hidden)
    return sum(met) <= LARGEST_BASE * HIDDEN and not all(_meets(problem, source, problem.pool))


def _large_case(draft: Draft, twist: Twist, rng: random.Random) -> Case:
    drawn = [draft.sample(rng, LARGE) for _ in range(8)]
    args = max(drawn, key=lambda one: len(repr(one)))
    return Case(args=args, expected=draft.answer(twist.change(args[0]), *args[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTest:
    """A test that a policy wrote: arguments, and the value that it expects."""

    text: str
    case: Case


def read_tests(text: str, problem: Problem) -> Iterator[OwnTest | str]:
    """The tests in a text, one a line; for a line that is none, what is wrong with it."""
    for line in filter(None, (one.strip() for one in text.splitlines())):
        yield _read_test(line.removeprefix("assert "), problem)


def _read_test(line: str, problem: Problem) -> OwnTest | str:
    example = f"{problem.function}(...) == ..."
    if len(line) > 2 * MOST_TEST_CHARACTERS:
        return f"a test has at most {2 * MOST_TEST_CHARACTERS} characters"
    try:
        found = parse_python(line, "eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"{line[:60]!r} is no test; write {example}"
    if (
        not isinstance(found, ast.Compare)
        or [type(op) for op in found.ops] != [ast.Eq]
        or not isinstance(found.left, ast.Call)
        or not isinstance(found.left.func, ast.Name)
        or found.left.func.id != problem.function
        or found.left.keywords
    ):
        return f"{line[:60]!r} is no test; write {example}"
    try:
        args = tuple(ast.literal_eval(one) for one in found.left.args)
        expected = ast.literal_eval(found.comparators[0])
        encoded([args, expected])
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return f"{line[:60]!r} is no test: its values must be written out"
    if not _is_bounded((args, expected)) or not _fits(problem, args):
        return f"{line[:60]!r} is no test of this task: look at the examples"
    return OwnTest(text=line, case=Case(args=args, expected=expected))


def _is_bounded(value: Any) -> bool:
    """Whether every number in a value is small enough for the environment's own programs."""
    if isinstance(value, list | tuple | set):
        return all(map(_is_bounded, value))
    if isinstance(value, dict):
        return all(map(_is_bounded, (*value, *value.values())))
    return not isinstance(value, int | float | complex) or abs(value) <= 10**6


def _fits(problem: Problem, args: tuple[Any, ...]) -> bool:
    """Whether arguments have the types of the task's own: the programs are made for no others."""
    given = problem.visible[0].args
    if len(args) != len(given) or any(
        type(a) is not type(b) for a, b in zip(args, given, strict=True)
    ):
        return False
    if problem.via == "class":
        return all(
            isinstance(step, list)
            and len(step) == 2
            and isinstance(step[0], str)
            and step[0].isidentifier()
            and not step[0].startswith("_")
            and isinstance(step[1], list)
            for step in args[1]
        )
    return True
