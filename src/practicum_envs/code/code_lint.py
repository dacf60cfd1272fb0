"""What a reader would object to in a program, whatever it does."""

import ast
import builtins
import warnings
from collections.abc import Iterator
from itertools import pairwise

from practicum.core.python_source import parse_python

LONGEST_LINE = 120
BUILTINS = frozenset(name for name in dir(builtins) if name.islower())


def lint(source: str) -> list[str]:
    r"""Each objection, a clause.

    >>> lint("def f(x):\n    y = 1\n    return x\n")
    ['y is assigned and never used']
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = parse_python(source)
    return sorted({*_about_lines(source), *_about_syntax(tree), *_about_names(tree)})


def _about_lines(source: str) -> Iterator[str]:
    for number, line in enumerate(source.splitlines(), 1):
        if len(line) > LONGEST_LINE:
            yield f"line {number} is longer than {LONGEST_LINE} characters"
        if "\t" in line:
            yield f"line {number} has a tab"


def _about_syntax(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield "an except catches everything"
        if isinstance(node, ast.Compare) and _compares_none(node):
            yield "None is compared with =="
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(one, ast.List | ast.Dict | ast.Set) for one in node.args.defaults
        ):
            yield f"{node.name} has a default value that can change"
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            yield from _about_body(body)


def _compares_none(node: ast.Compare) -> bool:
    return isinstance(node.ops[0], ast.Eq | ast.NotEq) and any(
        isinstance(one, ast.Constant) and one.value is None for one in node.comparators
    )


def _about_body(body: object) -> Iterator[str]:
    if not isinstance(body, list):
        return
    for one, other in pairwise(body):
        if isinstance(one, ast.Return | ast.Raise | ast.Break | ast.Continue):
            yield "something can never be reached"
        names = [getattr(both, "name", "") for both in (one, other)]
        if isinstance(one, ast.FunctionDef) and names[0] == names[1]:
            yield f"{one.name} is defined twice"


def _about_names(tree: ast.Module) -> Iterator[str]:
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = (alias.asname or alias.name).split(".")[0]
                if name not in read:
                    yield f"{name} is imported and never used"
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and target.id not in read:
                    yield f"{target.id} is assigned and never used"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in BUILTINS:
            yield f"{node.id} is the name of a builtin"
        if isinstance(node, ast.FunctionDef):
            for arg in node.args.args:
                if arg.arg in BUILTINS:
                    yield f"{arg.arg} is the name of a builtin"
