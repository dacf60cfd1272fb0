"""Abilities are asked for with `isinstance` and a Protocol, never by the name of an attribute."""

import ast
from collections.abc import Iterator
from pathlib import Path

from practicum.core import capabilities
from practicum.core.interfaces import DiscreteSession, Session

ROOT = Path(__file__).parents[2] / "src" / "practicum"
PROBES = {"getattr", "hasattr"}


def ability_names() -> set[str]:
    """What the abilities and both kinds of session are made of."""
    offered = [a for a in vars(capabilities).values() if getattr(a, "_is_protocol", False)]
    abilities = [a for a in offered if a.__module__ == capabilities.__name__]
    named = [*abilities, DiscreteSession, Session]
    return {
        name
        for one in named
        for name in (*vars(one), *vars(one).get("__annotations__", {}))
        if not name.startswith("_")
    }


def probes(source: str) -> Iterator[tuple[int, str]]:
    """Lines that ask for an ability by name."""
    names = ability_names()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in PROBES
            and len(node.args) > 1
            and isinstance(node.args[1], ast.Constant)
            and node.args[1].value in names
        ):
            yield node.lineno, str(node.args[1].value)


def test_no_ability_is_asked_for_by_the_name_of_an_attribute() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in sorted(ROOT.rglob("*.py"))
        for line, name in probes(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_probe_is_seen() -> None:
    assert list(probes('x = 1\ny = getattr(env, "session_kind", "discrete")')) == [
        (2, "session_kind")
    ]
    assert list(probes('hasattr(session, "act")')) == [(1, "act")]
    assert list(probes('getattr(env, "sessions_at_once", 1)')) == [(1, "sessions_at_once")]
    assert list(probes('getattr(config, "head_dim", None)')) == []
