"""Budgets: what fits on a few screens is read, what does not is not."""

import ast
import functools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
TREES = ("src", "tests", "benchmarks", "examples")
FILES = sorted(path for tree in TREES for path in (REPOSITORY / tree).rglob("*.py"))

MODULE_LINES = 600
FUNCTION_LINES = 60
PARAMETERS = 8
VAGUE = {"util", "utils", "common", "helper", "helpers", "misc"}
"""Names that take in everything; a file is named after the thing it holds."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def functions(path: Path) -> list[Function]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def length(function: Function) -> int:
    """Lines from `def` to the last one, decorators left out."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def parameters(function: Function) -> int:
    """How many there are; a kernel's are not counted, since it can be given nothing but numbers."""
    if any(ast.unparse(d).startswith("triton.") for d in function.decorator_list):
        return 0
    spec = function.args
    named = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    gathered = [a for a in (spec.vararg, spec.kwarg) if a is not None]
    return len([name for name in named if name not in {"self", "cls"}]) + len(gathered)


def over(budget: int, measure: Callable[[Function], int]) -> list[str]:
    """Functions beyond the budget, each with its place and its size."""
    return [
        f"{path.relative_to(REPOSITORY)}:{function.lineno} {function.name}: {measure(function)}"
        for path in FILES
        for function in functions(path)
        if measure(function) > budget
    ]


def test_modules_keep_to_their_lines() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {path: lines for path, lines in sizes.items() if lines > MODULE_LINES} == {}


def test_no_two_source_files_have_one_name() -> None:
    sources = [path for path in FILES if path.is_relative_to(REPOSITORY / "src")]
    names = Counter(path.name for path in sources if "tests" not in path.parts)
    assert [name for name, count in names.items() if count > 1] == ["__init__.py"]


def test_functions_keep_to_their_lines() -> None:
    found = over(FUNCTION_LINES, length)
    assert not found, "\n".join(found)


def test_functions_keep_to_their_parameters() -> None:
    found = over(PARAMETERS, parameters)
    assert not found, "\n".join(found)


def test_names_of_files_and_folders_say_what_is_in_them() -> None:
    places = [path.relative_to(REPOSITORY).with_suffix("") for path in FILES]
    words = {place: {word for part in place.parts for word in part.split("_")} for place in places}
    assert [place for place in places if words[place] & VAGUE] == []


def test_what_is_measured_is_there() -> None:
    assert REPOSITORY / "src" / "practicum" / "core" / "trace.py" in FILES
    source = "class A:\n    async def f(self, a, /, b, *c, d, **e):\n        return (\n        a)\n"
    [function] = [node for node in ast.walk(ast.parse(source)) if isinstance(node, Function)]
    assert parameters(function) == 5
    assert length(function) == 3
