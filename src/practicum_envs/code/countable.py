"""Which programs' operations can be counted, and the rewriting that counts them.

Counting happens in the program's own process, so it is believed only of programs that cannot reach
the counter: those in a part of Python without names that begin with an underscore, without frames,
without `eval` and its like, and with parts of some modules alone. It is looked at here, from
outside, and the program is rewritten here; any other program runs as it is, and its operations are
unknown. A way around this would earn the share of the score that operations have and nothing else:
values are compared elsewhere.

The cost of an operation: 1 for a step of a loop or a comprehension and for a call, and for a
builtin or an operator as many as the items it goes through or makes; sorting n items costs n log n.
What C code does inside of a regular expression counts as the length of the text.
"""

import ast
from typing import Any

from practicum.core.python_source import parse_python
from practicum_envs.code.inside_program import HIDDEN_BUILTINS, MODULES

MOST_PROGRAM = 6_000
"""Characters of a program."""
ALLOWED_NAMES = frozenset(("_", "__name__"))
ALLOWED_METHODS = frozenset(
    (
        *("__add__", "__bool__", "__call__", "__contains__", "__eq__", "__getitem__", "__hash__"),
        *("__init__", "__iter__", "__len__", "__lt__", "__next__", "__repr__", "__setitem__"),
        *("__str__", "__sub__"),
    )
)
FRAME_WORDS = ("gi_", "cr_", "ag_", "tb_", "f_", "co_", "func_")
"""What attributes of frames, generators and code begin with."""
REFUSED = (
    *(ast.AsyncFor, ast.AsyncFunctionDef, ast.AsyncWith, ast.Await, ast.Global),
    *(ast.Delete, ast.With, ast.Match),
)
SIZED_OPERATORS = (ast.Add, ast.Mult, ast.Pow, ast.LShift, ast.Sub, ast.BitOr, ast.BitAnd)


class NotCountable(Exception):
    """A program's operations cannot be counted; the text says what keeps it from that."""


def parsed(source: str) -> ast.Module:
    """A program as a tree; `SyntaxError` or `ValueError` in words where it is none."""
    if len(source) > MOST_PROGRAM:
        raise ValueError(f"the program has {len(source)} characters, and may have {MOST_PROGRAM}")
    try:
        tree: ast.Module = parse_python(source)
        return tree
    except (RecursionError, MemoryError):
        raise ValueError("the program is nested too deeply") from None


def counted(source: str) -> str:
    """The program with its operations counted; `NotCountable` where it could reach the counter."""
    tree = parsed(source)
    try:
        for node in ast.walk(tree):
            _look_at(node)
        return ast.unparse(ast.fix_missing_locations(_Counting().visit(tree)))
    except RecursionError:
        raise NotCountable("it is nested too deeply") from None


def _look_at(node: ast.AST) -> None:
    if isinstance(node, REFUSED):
        raise NotCountable(f"it uses {type(node).__name__.lower()}")
    if isinstance(node, ast.Import | ast.ImportFrom):
        _look_at_import(node)
    for name in _names_of(node):
        is_frame = isinstance(node, ast.Attribute) and name.startswith(FRAME_WORDS)
        method = isinstance(node, ast.FunctionDef) or (
            isinstance(node, ast.Attribute) and name == "__init__"
        )
        is_private = name.startswith("_") and name not in ALLOWED_NAMES
        if is_frame or name in HIDDEN_BUILTINS or (is_private and not _is_method(name, method)):
            raise NotCountable(f"it uses {name}")


def _is_method(name: str, may_be: bool) -> bool:
    return may_be and name in ALLOWED_METHODS


def _look_at_import(node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.ImportFrom):
        known = MODULES.get(node.module or "", ()) if not node.level else ()
        for alias in node.names:
            if alias.name not in known:
                raise NotCountable(f"it imports {alias.name} from {node.module}")
        return
    for alias in node.names:
        if alias.name not in MODULES:
            raise NotCountable(f"it imports {alias.name}")


def _names_of(node: ast.AST) -> list[str]:
    """The names that a piece of syntax says, wherever a name may stand."""
    found: list[Any] = []
    if isinstance(node, ast.Name):
        found = [node.id]
    elif isinstance(node, ast.Attribute):
        found = [node.attr]
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        found = [node.name]
    elif isinstance(node, ast.arg | ast.keyword):
        found = [node.arg]
    elif isinstance(node, ast.alias):
        found = [node.asname]
    elif isinstance(node, ast.ExceptHandler):
        found = [node.name]
    elif isinstance(node, ast.Nonlocal):
        found = list(node.names)
    return [one for one in found if one]


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def _sized(node: ast.expr) -> ast.Call:
    return _call("_sized", node)


class _Counting(ast.NodeTransformer):
    """Puts the counter into a program."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(value=_call("_tick")))
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)
        node.body = _call("_second", _call("_tick"), node.body)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(value=_call("_tick")))
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(value=_call("_tick")))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs.insert(0, _call("_tick"))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return node  # it looks at the frame that calls it
        name = ast.Name(id="_called", ctx=ast.Load())
        return ast.Call(func=name, args=[node.func, *node.args], keywords=node.keywords)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.In | ast.NotIn):
            if not isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
                node.left = _sized(node.left)
            for at, op in enumerate(node.ops):
                if isinstance(op, ast.In | ast.NotIn):  # in a chain, such as `x in xs != ys`
                    node.comparators[at] = _sized(node.comparators[at])
            return node
        found = _call("_contains", node.left, node.comparators[0])
        is_in = isinstance(node.ops[0], ast.In)
        return found if is_in else ast.UnaryOp(op=ast.Not(), operand=found)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod) and not isinstance(node.right, ast.Constant):
            return _sized(node)  # a text is filled in
        return _call("_made", node) if isinstance(node.op, SIZED_OPERATORS) else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        return _sized(node)

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = _sized(node.value)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        for at, key in enumerate(node.keys):
            if key is None:  # {**others}
                node.values[at] = _sized(node.values[at])
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        parts = [part for target in node.targets for part in ast.walk(target)]
        if any(isinstance(part, ast.Starred | ast.Slice) for part in parts):
            node.value = _sized(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        node.value = _call("_made", node.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        is_cut = isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load)
        return _call("_made", node) if is_cut else node
