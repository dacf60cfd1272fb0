"""The Python environment of OpenHands: made once, kept in the cache, never imported from."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from practicum.core.errors import UserError
from practicum.policy.catalog import cache_root

__all__ = [
    "PACKAGES",
    "Installed",
    "environment_folder",
    "find_new_python",
    "install",
    "installed",
    "installed_python",
]

VERSION = "1.58.0"
PACKAGES = (f"openhands-sdk=={VERSION}", f"openhands-tools=={VERSION}")
NEEDS = (3, 12)
"""The oldest Python that these packages take."""
RECORD = "installed.json"
"""Written last: a folder without it is half an installation."""
INSTALL = "practicum agents install openhands"

PROBE = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
LIST = (
    "import json, importlib.metadata as m; "
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """An environment that is ready."""

    python: Path
    packages: dict[str, str]
    """Every package in it, and its version."""

    @property
    def version(self) -> str:
        """Of the SDK."""
        return self.packages.get("openhands-sdk", "unknown")


def environment_folder() -> Path:
    """Where the environment is, or would be."""
    return cache_root() / "agents" / f"openhands-{VERSION}"


def installed() -> Installed | None:
    """What is installed; None where nothing is, or only half of it."""
    folder = environment_folder()
    try:
        packages = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Installed(python=_python_in(folder), packages=packages)


def installed_python() -> Path:
    """The Python that runs OpenHands."""
    found = installed()
    if found is None:
        raise UserError(
            "the agent openhands needs the OpenHands SDK in an environment of its own, and there "
            f"is none in {environment_folder()}; type: {INSTALL}"
        )
    return found.python


def install(say: Callable[[str], None] = lambda line: None) -> Installed:
    """Make the environment unless it is there; `say` is told what is going on."""
    found = installed()
    if found is not None:
        return found
    python = find_new_python()
    folder = environment_folder()
    say(f"making an environment with {python} in {folder}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    _run([str(python), "-m", "venv", "--clear", str(folder)], say)
    own = _python_in(folder)
    say(f"installing {' and '.join(PACKAGES)}: a few minutes and about 800 MB")
    pip = [str(own), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar=off"]
    _run([*pip, *PACKAGES], say)
    listed = subprocess.run([str(own), "-I", "-c", LIST], capture_output=True, text=True)
    if listed.returncode != 0:
        raise UserError(f"{own} does not run: {_last_line(listed.stderr)}; type: {INSTALL}")
    packages = dict(sorted(json.loads(listed.stdout).items()))
    half = folder / f"{RECORD}.new"
    half.write_text(json.dumps(packages, indent=1) + "\n", encoding="utf-8")
    half.replace(folder / RECORD)
    return Installed(python=own, packages=packages)


def find_new_python() -> Path:
    """A Python that is new enough: this one, one on PATH, or one of pyenv's."""
    for candidate in _candidates():
        # A name on PATH may be a shim of a version manager that leads nowhere, so each is tried.
        tried = subprocess.run([str(candidate), "-c", PROBE], capture_output=True, text=True)
        words = tried.stdout.split()
        if tried.returncode == 0 and tuple(int(word) for word in words) >= NEEDS:
            return candidate
    raise UserError(
        f"OpenHands needs Python {'.'.join(map(str, NEEDS))} or newer with venv, and there is none "
        "on PATH or under pyenv; install one, such as with: pyenv install 3.12, then type: "
        f"{INSTALL}"
    )


def _candidates() -> Iterator[Path]:
    if sys.version_info >= NEEDS:
        yield Path(sys.executable)
    for minor in ("3.12", "3.13"):
        if found := shutil.which(f"python{minor}"):
            yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for minor in ("3.12", "3.13"):
        yield from sorted(pyenv.glob(f"versions/{minor}.*/bin/python{minor}"))


def _python_in(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(command: list[str], say: Callable[[str], None]) -> None:
    """Run a command, telling its lines; `UserError` with its last words when it fails."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        last, error = "", ""
        for line in running.stdout or ():
            last = line.strip() or last
            error = last if last.startswith("ERROR") else error
            say(last)
    if running.returncode != 0:
        raise UserError(
            f"{' '.join(command[1:4])} failed: {(error or last)[:300]}; see to that, then type: "
            f"{INSTALL}"
        )


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300]
