"""`scripts/try_wheel.py`: it finds the Pythons that are here, and asks for commands that exist."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from practicum.cli.main import app

REPOSITORY = Path(__file__).parents[2]


def script() -> ModuleType:
    place = REPOSITORY / "scripts" / "try_wheel.py"
    spec = importlib.util.spec_from_file_location("try_wheel", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pythons_from_3_11_are_found_each_once() -> None:
    found = script().pythons()
    assert all(tuple(map(int, version.split("."))) >= (3, 11) for version in found)
    assert len(set(found.values())) == len(found)
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in found


def test_what_is_tried_is_understood() -> None:
    module, command = script(), typer.main.get_command(app)
    commands: dict[str, Any] = command.commands  # type: ignore[attr-defined]
    lines = [*module.BASE, *module.TRAINING, module.WITHOUT_TORCH]
    for line in lines:
        words = shlex.split(line)
        if words[0] == "practicum" and not words[1].startswith("--"):
            commands[words[1]].make_context(words[1], words[2:])


def test_torch_is_the_pinned_one() -> None:
    assert script().TORCH in (REPOSITORY / "pyproject.toml").read_text()


def test_the_devcontainer_runs_a_command_that_make_has() -> None:
    found = json.loads((REPOSITORY / ".devcontainer" / "devcontainer.json").read_text())
    target = found["postCreateCommand"].removeprefix("make ")
    assert f"\n{target}:" in (REPOSITORY / "Makefile").read_text()
    [schema] = found["customizations"]["vscode"]["settings"]["yaml.schemas"]
    assert (REPOSITORY / schema).is_file()
