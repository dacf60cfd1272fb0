"""Mutants of a program, as in mutation testing: each is the program with one small change."""

import ast
from collections.abc import Iterator
from typing import Any

from practicum.core.python_source import parse_python

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Is: ast.IsNot,
}
OTHER_NAMES = {"max": "min", "min": "max", "sorted": "list", "sum": "len", "set": "list"}
OTHER_METHODS = {"lower": "upper", "upper": "lower", "strip": "lstrip"}
SQL_SWAPS = (
    *(("sum(", "max("), ("max(", "min("), ("min(", "max("), (">=", ">"), (" desc", "")),
    *(("count(*)", "count(*) + 1"), (" order by ", " order by -"), (" where ", " where not ")),
)


def mutants_of(source: str) -> Iterator[str]:
    """Every mutant of one change, in the order of the program's text."""
    tree = parse_python(source)
    seen = {ast.unparse(tree)}
    for node in list(ast.walk(tree)):
        for name, other in _changes(node):
            own = getattr(node, name)
            setattr(node, name, other)
            text = ast.unparse(tree)
            setattr(node, name, own)
            if text not in seen:
                seen.add(text)
                yield text


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """The changes of a piece of syntax: the name of what is changed in it, and what it becomes."""
    if isinstance(node, ast.Constant):
        yield from (("value", other) for other in _other_constants(node.value))
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield "ops", [SWAPS[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPS:
        yield "op", SWAPS[type(node.op)]()
    elif isinstance(node, ast.Name) and node.id in OTHER_NAMES:
        yield "id", OTHER_NAMES[node.id]
    elif isinstance(node, ast.Attribute) and node.attr in OTHER_METHODS:
        yield "attr", OTHER_METHODS[node.attr]


def _other_constants(value: Any) -> Iterator[Any]:
    if type(value) is int:
        yield value + 1
        yield value - 1
    elif isinstance(value, str) and value.startswith("select"):
        yield from (value.replace(a, b, 1) for a, b in SQL_SWAPS if a in value)
    elif isinstance(value, str) and value:
        yield value[1:] or value * 2
