"""Every module imports, and what a folder says it offers is what it offers."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "practicum"


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = sorted(module_name(path) for path in ROOT.rglob("*.py"))
FOLDERS = sorted(module_name(path) for path in ROOT.rglob("__init__.py"))


def order(name: str) -> tuple[int, str]:
    """The linter's order: CONSTANTS, then Classes, then functions."""
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name


def reexported(folder: str) -> set[str]:
    """Public names that the folder's `__init__` imports."""
    path = ROOT.parent.joinpath(*folder.split("."), "__init__.py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    names = (alias.asname or alias.name for node in imported for alias in node.names)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("name", MODULES)
def test_the_module_imports_and_its_all_is_true(name: str) -> None:
    if name.startswith("practicum.cluster."):
        pytest.importorskip("ray", reason="needs ray; pip install 'practicum[ray]'")
    module = importlib.import_module(name)
    missing = [n for n in getattr(module, "__all__", ()) if not hasattr(module, n)]
    assert not missing, f"{name}.__all__ names what is not there"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_lists_what_it_offers_once_and_in_order(name: str) -> None:
    listed = list(getattr(importlib.import_module(name), "__all__", ()))
    assert listed == sorted(set(listed), key=order)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_lists_everything_it_reexports(name: str) -> None:
    assert reexported(name) <= set(getattr(importlib.import_module(name), "__all__", ()))


PUBLIC = {"practicum", "practicum.compat", "practicum.compat.art"}
"""Folders that users import names from; everywhere else an import names the defining module."""


@pytest.mark.parametrize("name", sorted(set(FOLDERS) - PUBLIC))
def test_a_folder_holds_its_modules_and_nothing_besides(name: str) -> None:
    path = ROOT.parent.joinpath(*name.split("."), "__init__.py")
    [docstring] = ast.parse(path.read_text(encoding="utf-8")).body
    assert isinstance(docstring, ast.Expr)


def test_every_name_of_the_public_api_is_there() -> None:
    import practicum

    assert all(getattr(practicum, name) is not None for name in practicum.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Taks'"):
        practicum.Taks  # noqa: B018 - asked for to be refused


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_says_what_it_is_for(name: str) -> None:
    assert importlib.import_module(name).__doc__
