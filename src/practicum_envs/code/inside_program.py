"""Runs programs on inputs and gives their values as data; the text of this file runs in a sandbox.

It gets inputs and never what is expected of them, so there is nothing in its process that a program
could look up. Values leave it as JSON in which each type has a sign of its own; whoever asked
compares them elsewhere. It imports only the standard library and is also imported by the
environment, for programs of the environment's own.

A countable program (see `countable`) was rewritten so that it reports its operations here. Whatever
else a program does to this process, it can at most change what it says its own values are.
"""

import builtins
import collections
import importlib
import itertools
import json
import math
from types import (
    BuiltinFunctionType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodType,
    SimpleNamespace,
)
from typing import Any

MOST_CHARACTERS = 12_000
"""Of one value; a longer one is no value."""
MOST_DEPTH = 12

MODULES: dict[str, tuple[str, ...]] = {
    "bisect": ("bisect", "bisect_left", "bisect_right", "insort"),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"),
    "datetime": ("date", "datetime", "time", "timedelta"),
    "functools": ("cache", "lru_cache", "reduce"),
    "heapq": ("heapify", "heappop", "heappush", "nlargest", "nsmallest"),
    "itertools": ("accumulate", "chain", "groupby", "islice", "pairwise", "zip_longest"),
    "math": (
        *("ceil", "comb", "factorial", "floor", "gcd", "hypot", "inf", "isqrt", "lcm", "log"),
        *("log2", "log10", "pi", "prod", "sqrt"),
    ),
    "re": ("findall", "finditer", "fullmatch", "match", "search", "split", "sub"),
    "string": ("ascii_letters", "ascii_lowercase", "ascii_uppercase", "digits", "punctuation"),
    "typing": ("Any", "Iterable", "Iterator", "Optional", "Sequence", "Union"),
}
"""What a countable program may import, and of it what its operations are known of."""

HIDDEN_BUILTINS = (
    *("__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr"),
    *("globals", "help", "hasattr", "id", "input", "locals", "memoryview", "open"),
    *("quit", "setattr", "type", "vars", "__build_class__", "__loader__", "__spec__"),
)
"""Builtins that a countable program does not name."""

CHEAP_METHODS = frozenset(
    (
        *("add", "append", "appendleft", "discard", "get", "isalnum", "isalpha", "isdigit"),
        *("islower", "isspace", "isupper", "items", "keys", "popitem", "popleft", "setdefault"),
        "values",
    )
)
CHEAP_FUNCTIONS = frozenset(
    (
        *("abs", "bisect", "bisect_left", "bisect_right", "chr", "divmod", "hash", "heappop"),
        *("heappush", "isinstance", "issubclass", "iter", "len", "next", "ord", "range", "round"),
    )
)
SEQUENCES = (str, bytes, list, tuple)
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
CONTAINERS = (
    *(*SEQUENCES, dict, set, frozenset, range, *VIEWS),
    *(collections.deque, collections.Counter, collections.OrderedDict, collections.defaultdict),
)
LOOKED_THROUGH: tuple[type, ...] = (*SEQUENCES, collections.deque, type({}.values()))
"""In which membership goes from item to item."""
COUNTED_ITERATORS = (
    *(GeneratorType, zip, enumerate, map, filter, reversed),
    *(itertools.accumulate, itertools.groupby, itertools.islice, itertools.pairwise),
    itertools.zip_longest,
)
"""Iterators whose items were counted where they were made, or are where they are asked for."""


TOO_MANY = "it takes too many operations"


class OutOfOperations(BaseException):
    """A program has used all the operations it may use; no `except Exception` catches it."""


class Counter:
    """Counts the operations of one program: steps of loops, and what builtins go through."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0

    def tick(self, count: int = 1) -> bool:
        """Count; always true, so that it can stand in a comprehension."""
        self.count += count
        if self.count > self.most:
            raise OutOfOperations
        return True

    def called(self, function: Any, /, *args: Any, **named: Any) -> Any:
        """Call a function and count what it goes through, what it asks for and what it makes."""
        cost = cost_of_call(function, args)
        self.tick(1 + (cost or 0))
        if cost is None or is_cheap(function, args):
            return function(*args, **named)
        takes_function = function in (map, filter)
        given = [self._watched(one, takes_function and not at) for at, one in enumerate(args)]
        result = function(
            *given, **{name: self._watched(one, name == "key") for name, one in named.items()}
        )
        if type(result) is str and len(result) > cost:
            self.tick(len(result) - cost)
        return result

    def _watched(self, value: Any, may_be_type: bool = False) -> Any:
        """An argument of a builtin, whose own calls and items are counted if it has any."""
        kind = type(value)
        if kind in (BuiltinFunctionType, MethodDescriptorType) or (may_be_type and kind is type):
            return lambda *args, **named: self.called(value, *args, **named)
        is_iterator = hasattr(kind, "__next__") and kind.__module__ != "solution"
        if is_iterator and kind not in COUNTED_ITERATORS:
            return (one for one in value if self.tick())
        return value

    def contains(self, one: Any, container: Any) -> bool:
        """Membership: a set or a dict is not gone through, all else is."""
        kind = type(container)
        self.tick(1 + (len(container) if kind in LOOKED_THROUGH else 0))
        if hasattr(kind, "__contains__"):
            return one in container
        return any(self.tick() and (item is one or item == one) for item in container)

    def made(self, value: Any) -> Any:
        """A value that an operator made: as many operations as it is long."""
        if type(value) in CONTAINERS:
            self.tick(len(value))
        elif type(value) is int:
            self.tick(1 + value.bit_length() // 64)
        return value

    def sized(self, value: Any) -> Any:
        """A value that is gone through by syntax: spread out, compared, put into a text."""
        if type(value) in CONTAINERS and len(value) > 1:
            self.tick(len(value))
        return self._watched(value)

    def second(self, _: bool, value: Any) -> Any:
        """The value of a lambda whose call was counted first."""
        return value


def own_of(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The container whose method a function is, and its arguments; None where it is of none."""
    if type(function) is MethodDescriptorType and args:  # `list.count(xs, 1)`
        own, args = args[0], args[1:]
    else:
        own = getattr(function, "__self__", None)
    return (own if type(own) in CONTAINERS else None), args


def is_cheap(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a builtin goes through nothing that it is given."""
    name, (own, rest) = function.__name__, own_of(function, args)
    if own is None:
        return name in CHEAP_FUNCTIONS
    return name in CHEAP_METHODS or (name == "pop" and (not rest or type(own) is not list))


def cost_of_call(function: Any, args: tuple[Any, ...]) -> int | None:
    """How many items a call of a builtin goes through; None for functions of the program itself."""
    place = getattr(function, "__module__", None)
    is_builtin = type(function) in (BuiltinFunctionType, MethodDescriptorType, type)
    is_library = type(function) in (FunctionType, MethodType) and place in MODULES
    if not (is_builtin or is_library) or place == "solution":
        return None
    if is_cheap(function, args):
        return 0
    name, (own, rest) = function.__name__, own_of(function, args)
    if own is not None:
        cost = len(own) + (0 if name in ("count", "index") else lengths(rest))
    else:
        own = args[0] if args and type(args[0]) in CONTAINERS else ()
        cost = lengths(args)
    return cost * (1 + len(own).bit_length()) if name in ("sort", "sorted") else cost


def lengths(args: tuple[Any, ...]) -> int:
    """How many items the containers among some arguments hold."""
    return sum(len(one) for one in args if type(one) in CONTAINERS)


def encoded(value: Any, depth: int = 0) -> Any:
    """A value as JSON: a text as itself, everything else as a list that begins with its type.

    >>> encoded([1, (True, "a")])
    ['list', ['int', '1'], ['tuple', ['bool', True], 'a']]
    """
    kind = type(value)
    if depth > MOST_DEPTH:
        raise ValueError("it is nested too deeply")
    if kind is str:
        return value
    if value is None:
        return ["none"]
    if kind is bool:
        return ["bool", value]
    if kind is int:
        if value.bit_length() > MOST_CHARACTERS:
            raise ValueError("the number is too large")
        return ["int", str(value)]
    if kind is float:
        return ["float", repr(value)]
    if kind in (list, tuple, set, frozenset):
        if len(value) > MOST_CHARACTERS:
            raise ValueError("it is too long")
        return [kind.__name__, *(encoded(one, depth + 1) for one in value)]
    if kind is dict:
        pairs = ([encoded(k, depth + 1), encoded(v, depth + 1)] for k, v in value.items())
        return ["dict", *pairs]
    raise ValueError(f"a {kind.__name__} is not plain data")


def decoded(data: Any, depth: int = 0) -> Any:
    """The value that `encoded` gave; `ValueError` for anything else."""
    if isinstance(data, str):
        return data
    if not isinstance(data, list) or not data or depth > MOST_DEPTH + 1:
        raise ValueError("this is no encoded value")
    kind, rest = data[0], data[1:]
    if kind == "none" and not rest:
        return None
    if kind == "bool" and rest in ([True], [False]):
        return bool(rest[0])
    if kind == "int" and len(rest) == 1 and isinstance(rest[0], str):
        return int(rest[0])
    if kind == "float" and len(rest) == 1 and isinstance(rest[0], str):
        return float(rest[0])
    plain: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
    try:
        if kind in plain:
            return plain[kind](decoded(one, depth + 1) for one in rest)
        if kind == "dict":
            return {decoded(k, depth + 1): decoded(v, depth + 1) for k, v in rest}
    except TypeError as error:
        raise ValueError(f"this is no encoded value: {error}") from None
    raise ValueError("this is no encoded value")


def known_import(name: str, *_: Any) -> Any:
    """What a countable program gets for `import name`."""
    whole = importlib.import_module(name)
    return SimpleNamespace(**{one: getattr(whole, one) for one in MODULES[name]})


def names_for(counter: Counter | None) -> dict[str, Any]:
    """The global names that a program begins with."""
    if counter is None:
        return {"__name__": "solution", "__builtins__": builtins}
    known = {
        name: value
        for name, value in vars(builtins).items()
        if name not in HIDDEN_BUILTINS or name == "__build_class__"
    }
    known |= {"__import__": known_import, "print": lambda *values, **named: None}
    counting = {
        "_tick": counter.tick,
        "_called": counter.called,
        "_contains": counter.contains,
        "_made": counter.made,
        "_sized": counter.sized,
        "_second": counter.second,
    }
    return {"__name__": "solution", "__builtins__": known, **counting}


def run_call(names: dict[str, Any], call: dict[str, Any]) -> Any:
    """The value of one call: a function, an object's steps, an SQL statement, an expression."""
    if call["via"] == "expression":
        return eval(call["expression"], names)
    args = [decoded(one) for one in call["args"]]
    made = names[call["function"]]
    if call["via"] == "class":
        thing = made(*args[0])
        return [getattr(thing, method)(*given) for method, given in args[1]]
    if call["via"] == "sql":
        return rows_of(made(), call["schema"], args[0])
    return made(*args, **{key: decoded(one) for key, one in call.get("named", {}).items()})


def rows_of(statement: Any, schema: str, rows: list[list[Any]]) -> list[list[Any]]:
    """The rows that an SQL statement gives on a table with these rows."""
    import sqlite3

    base = sqlite3.connect(":memory:")
    try:
        base.execute(schema)
        signs = ", ".join("?" for _ in rows[0]) if rows else ""
        for row in rows:
            base.execute(f"insert into {schema.split()[2].partition('(')[0]} values ({signs})", row)
        base.execute("pragma query_only = on")
        return [list(row) for row in base.execute(statement).fetchmany(1000)]
    finally:
        base.close()


def results_of(source: str, calls: list[dict[str, Any]], most: int) -> Any:
    """Run a program, and yield for each call its value or error, and its operations.

    Args:
        source: The program; a countable one is rewritten already.
        calls: What to call, and with which arguments.
        most: The operations of each call; 0 for a program that is not counted.
    """
    counter = Counter(most) if most else None
    try:
        names = names_for(counter)
        exec(compile(source, "solution.py", "exec"), names)
    except (Exception, OutOfOperations, SystemExit) as error:  # noqa: BLE001 - the program's own
        names, broken = {}, said(error)
    else:
        broken = ""
    begun = 0 if counter is None else counter.count
    for call in calls:
        if counter is not None:
            counter.count = begun  # what was made ready before is part of every call
        result: dict[str, Any] = {}
        try:
            if broken:
                raise ImportError(broken)
            text = json.dumps(encoded(run_call(names, call)))
            if len(text) > MOST_CHARACTERS:
                raise ValueError("the value is too long")
            if counter is not None and counter.count > counter.most:
                raise OutOfOperations  # it was caught and ignored
            result["value"] = json.loads(text)
        except (Exception, OutOfOperations, SystemExit) as error:  # noqa: BLE001 - its own
            result["error"] = broken or said(error)
        result["operations"] = 0 if counter is None else counter.count
        yield result


def said(error: BaseException) -> str:
    """An error in a few words."""
    if isinstance(error, OutOfOperations):
        return TOO_MANY
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - the program's own class
        words = ""
    return f"{type(error).__name__}: {words}"[:160].encode("utf-8", "replace").decode()


def same(value: Any, expected: Any) -> bool:
    """Whether two plain values are equal, types and all; floats to nine digits."""
    if type(value) is not type(expected):
        return False
    if isinstance(value, float):
        close = math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9)
        return close or (math.isnan(value) and math.isnan(expected))
    if isinstance(value, list | tuple):
        return len(value) == len(expected) and all(map(same, value, expected))
    if isinstance(value, dict):
        return list(map(repr, sorted(value, key=repr))) == list(
            map(repr, sorted(expected, key=repr))
        ) and all(same(value[key], expected[key]) for key in value)
    return bool(value == expected)


def main() -> None:
    """Read programs and calls from standard input, and write a line for each result."""
    import os
    import resource
    import sys

    given = json.loads(sys.stdin.buffer.read())
    out = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    resource.setrlimit(resource.RLIMIT_CPU, (given["cpu_s"], given["cpu_s"]))
    sys.setrecursionlimit(2000)
    for result in results_of(given["source"], given["calls"], given["most"]):
        os.write(out, json.dumps(result).encode() + b"\n")
    os._exit(0)
