"""The environment of OpenHands: how a Python is found, and what is left of half an installation."""

import json
import sys
from pathlib import Path

import pytest

from practicum.agents import installation as openhands
from practicum.agents.installation import (
    PACKAGES,
    environment_folder,
    find_new_python,
    install,
    installed,
    installed_python,
)
from practicum.core.errors import UserError

PRETENDER = """#!{python}
import json, pathlib, shutil, sys
words = sys.argv[1:]
folder = pathlib.Path(__file__).parent
with open({log!r}, "a") as log:
    print(json.dumps(words), file=log)
if words[:2] == ["-m", "venv"]:
    target = pathlib.Path(words[-1]) / "bin"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(__file__, target / "python")
elif words[:2] == ["-m", "pip"]:
    print("Collecting openhands-sdk")
    if {fails}:
        print("ERROR: No matching distribution found for openhands-sdk")
        print("a hint")
        sys.exit(1)
elif "-I" in words:
    print(json.dumps({{"openhands-sdk": "1.2.3", "attrs": "26.1"}}))
else:
    print({version!r})
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no Python but what a test puts on PATH or under pyenv."""
    monkeypatch.setenv("PRACTICUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(openhands, "NEEDS", (9, 1))  # newer than the one that runs the tests
    return tmp_path / "cache"


def put(place: Path, version: str = "9 2", *, fails: bool = False) -> Path:
    """An executable that does as Python would, and writes down what it was asked."""
    place.parent.mkdir(parents=True, exist_ok=True)
    text = PRETENDER.format(
        python=sys.executable, log=str(place.parent / "log"), version=version, fails=fails
    )
    place.write_text(text)
    place.chmod(0o755)
    return place


def test_a_python_is_found_on_path_and_under_pyenv_but_not_one_that_does_not_run(
    cache: Path, tmp_path: Path
) -> None:
    put(tmp_path / "path" / "python3.12", "9 0")
    shim = tmp_path / "path" / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    with pytest.raises(UserError, match=r"needs Python 9\.1 or newer.*pyenv install"):
        find_new_python()
    kept = put(tmp_path / "pyenv/versions/3.13.1/bin/python3.13")
    assert find_new_python() == kept
    on_path = put(tmp_path / "path" / "python3.12")
    assert find_new_python() == on_path


def test_an_installation_is_recorded_with_its_versions_and_made_once(
    cache: Path, tmp_path: Path
) -> None:
    put(tmp_path / "path" / "python3.12")
    assert installed() is None
    told: list[str] = []
    made = install(told.append)
    assert made.version == "1.2.3"
    assert made.packages == {"attrs": "26.1", "openhands-sdk": "1.2.3"}
    assert made.python == environment_folder() / "bin" / "python" == installed_python()
    assert environment_folder().is_relative_to(cache)
    assert "Collecting openhands-sdk" in told
    log = tmp_path / "path" / "log"
    asked = [json.loads(line) for line in log.read_text().splitlines()]
    (pip,) = [words for words in asked if words[:3] == ["-m", "pip", "install"]]
    assert tuple(pip[-2:]) == PACKAGES
    assert all("==" in package for package in PACKAGES)
    assert install() == made == installed()
    assert len(log.read_text().splitlines()) == len(asked), "nothing is run a second time"


def test_a_failed_installation_says_why_and_does_not_count(cache: Path, tmp_path: Path) -> None:
    put(tmp_path / "path" / "python3.12", fails=True)
    with pytest.raises(UserError, match=r"pip install failed: ERROR: No matching distribution"):
        install()
    assert environment_folder().exists()
    assert installed() is None
    with pytest.raises(UserError, match=r"type: practicum agents install openhands"):
        installed_python()
    put(tmp_path / "path" / "python3.12")
    assert install().version == "1.2.3"
