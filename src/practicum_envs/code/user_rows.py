r"""A user's file of programming tasks: rows in the shapes of HumanEval and MBPP, or with `tests`.

{"task_id": "HumanEval/0", "prompt": "def f(x):\n    ...", "entry_point": "f",
"test": "def check(candidate):\n    assert candidate(1) == 2", "canonical_solution": "..."}
{"task_id": 11, "text": "Write a function ...", "code": "def f(x): ...",
"test_list": ["assert f(1) == 2", "assert f(2) == 3"]}
{"prompt": "Write a function f(x) ...", "tests": [{"call": "f(1)", "expect": 2}]}
"""

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.errors import UserError
from practicum.core.task import JSON, Split, Task

ROW = "row"
"""Key of the row in `Task.data`."""
SHAPES = (
    "rows are objects in the shape of HumanEval (task_id, prompt, entry_point, test), of MBPP "
    '(task_id, text, test_list), or {"prompt": ..., "tests": [{"call": "f(1)", "expect": 2}]}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProblem:
    """One task of a user's file."""

    says: str
    function: str
    """The name that tests call; empty where they are programs or expressions."""
    setup: str
    """Runs before each assertion, where programs cannot see it."""
    shown: tuple[str, ...]
    """Assertions that the policy sees."""
    assertions: tuple[str, ...]
    """Assertions that score."""
    cases: tuple[Mapping[str, Any], ...]
    """Tests of the forms {"call", "expect"} and {"stdin", "stdout"}, which score too."""
    beginning: str
    """What a program may leave out: the signature of a HumanEval prompt."""
    solution: str
    """Empty where the row has none."""


def user_tasks(data: str, env: str, heldout_share: float) -> list[Task]:
    """Every task of a file, in its order; `UserError` for one that cannot be read."""
    tasks: dict[str, Task] = {}
    for number, row in enumerate(_rows(data), 1):
        where = f"{data}, row {number}"
        problem = read_row(row, where)
        named = str(row.get("task_id", row.get("id", "")))
        named = named or hashlib.blake2b(json.dumps(row).encode(), digest_size=6).hexdigest()
        if named in tasks:
            raise UserError(f"{data} has two rows that are called {named!r}; rename one of them")
        digest = int(hashlib.blake2b(named.encode(), digest_size=6).hexdigest(), 16)
        split: Split = "heldout" if digest / 16**12 < heldout_share else "train"
        data_of_task: dict[str, JSON] = {ROW: dict(row)}
        tasks[named] = Task(
            id=named, env=env, split=split, instruction=problem.says, data=data_of_task
        )
    if not tasks:
        raise UserError(f"there are no tasks in {data}; {SHAPES}")
    return list(tasks.values())


def _rows(data: str) -> Iterator[Any]:
    path = Path(data).expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"env.data: {data} cannot be read ({error}); give a .jsonl file") from None
    if text.lstrip().startswith("["):
        try:
            yield from json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{data} is not valid JSON: {error}; mend it") from None
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{data}, line {number} is not valid JSON: {error}; write one object a line"
            ) from None


def read_row(row: Any, where: str) -> UserProblem:
    """The task in a row; `UserError` where it has none of the shapes."""
    if not isinstance(row, Mapping):
        raise UserError(f"{where} is no object; {SHAPES}")
    says = row.get("text") if isinstance(row.get("text"), str) else row.get("prompt")
    if not isinstance(says, str) or not says.strip():
        raise UserError(f"{where} has no prompt; {SHAPES}")
    if isinstance(row.get("test"), str) and isinstance(row.get("entry_point"), str):
        return _human_eval(row, says, where)
    if isinstance(row.get("test_list"), list):
        return _mbpp(row, says, where)
    if isinstance(row.get("tests"), list) and row["tests"]:
        return _with_tests(row, says, where)
    raise UserError(f"{where} has no tests; {SHAPES}")


def _human_eval(row: Mapping[str, Any], says: str, where: str) -> UserProblem:
    setup, assertions = _assertions_of_check(row["test"], where)
    solution = str(row.get("canonical_solution") or "")
    return UserProblem(
        says=f"Complete this Python program:\n{says.rstrip()}",
        function=row["entry_point"],
        setup=setup,
        shown=(),
        assertions=assertions,
        cases=(),
        beginning=says,
        solution=f"{says}{solution}" if solution else "",
    )


def _assertions_of_check(test: str, where: str) -> tuple[str, tuple[str, ...]]:
    """What stands around and in `check`, and each of its assertions with what comes before it."""
    try:
        tree = ast.parse(test)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: its test is no Python ({error}); mend it") from None
    checks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if not checks:
        raise UserError(f"{where}: its test defines no check(candidate); write one")
    setup = "\n".join(ast.unparse(n) for n in tree.body if n is not checks[0])
    before: list[str] = []
    assertions: list[str] = []
    for node in checks[0].body:
        if isinstance(node, ast.Assert) or _holds_assertion(node):
            assertions.append("\n".join([*before, ast.unparse(node)]))
        else:
            before.append(ast.unparse(node))
    if not assertions:
        raise UserError(f"{where}: its check(candidate) asserts nothing; write an assertion")
    return setup, tuple(assertions)


def _holds_assertion(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Assert) for one in ast.walk(node))


def _mbpp(row: Mapping[str, Any], says: str, where: str) -> UserProblem:
    tests = [str(one) for one in row["test_list"]]
    if not tests:
        raise UserError(f"{where} has no test in its test_list; write one")
    hidden = tests[1:] + [str(one) for one in row.get("challenge_test_list") or []]
    setup = row.get("test_setup_code") or "\n".join(row.get("test_imports") or [])
    return UserProblem(
        says=f"{says.strip()}\nYour program should meet this test:\n{tests[0]}",
        function=_called_in(tests[0], where),
        setup=str(setup),
        shown=(tests[0],),
        assertions=tuple(hidden or tests),
        cases=(),
        beginning="",
        solution=str(row.get("code") or ""),
    )


def _called_in(test: str, where: str) -> str:
    """The function that an assertion is about: the first it calls that is no builtin."""
    import builtins

    try:
        calls = [n for n in ast.walk(ast.parse(test)) if isinstance(n, ast.Call)]
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: {test[:80]!r} is no Python ({error}); mend it") from None
    names = [n.func.id for n in calls if isinstance(n.func, ast.Name)]
    own = [name for name in names if not hasattr(builtins, name)]
    if not own:
        raise UserError(f"{where}: {test[:80]!r} calls no function; write assert f(...) == ...")
    return own[0]


def _with_tests(row: Mapping[str, Any], says: str, where: str) -> UserProblem:
    for test in row["tests"]:
        is_call = isinstance(test, Mapping) and isinstance(test.get("call"), str)
        is_program = isinstance(test, Mapping) and isinstance(test.get("stdout"), str)
        if not (is_call and "expect" in test) and not is_program:
            raise UserError(
                f"{where} has the test {json.dumps(test)[:80]}; write "
                '{"call": "f(1)", "expect": 2} or {"stdin": "1", "stdout": "2"}'
            )
    return UserProblem(
        says=says.strip(),
        function="",
        setup="",
        shown=(),
        assertions=(),
        cases=tuple(row["tests"]),
        beginning="",
        solution=str(row.get("solution") or ""),
    )
