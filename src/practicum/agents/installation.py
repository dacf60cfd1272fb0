"""The list of agents (`known_agents`), and the installation of the OpenHands SDK.

OpenHands needs a newer Python and many packages, so it gets a virtual environment of its own.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from practicum.core.cache_folder import cache_root
from practicum.core.errors import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEntry:
    """An agent in the list of `practicum agents`."""

    name: str
    about: str
    ready: bool = True
    missing: str = ""
    """What to type if it is not ready."""


ABOUT = {
    "auto": "the built-in loop that the environment is made for",
    "actions": "one action a turn, in environments whose turns are actions",
    "tools": "a loop over tool calls: native, text or ReAct",
    "function": "a Python function of yours: async def rollout(task, client) -> float",
    "command": "any executable that takes the model's address from environment variables",
    "openhands": "the OpenHands SDK, working in the sandbox of a shell task",
}
PROGRAMS = frozenset({"function", "command", "openhands"})


def has_gateway() -> bool:
    """Whether the packages of the gateway are installed, which programs need."""
    return all(find_spec(name) is not None for name in ("httptools", "starlette", "uvicorn"))


def known_agents() -> list[AgentEntry]:
    """Every agent that a config can name, and whether it is ready."""
    found = []
    for name, about in ABOUT.items():
        missing = ""
        if name in PROGRAMS and not has_gateway():
            missing = "type: pip install 'practicum[gateway]'"
        elif name == "openhands" and installed() is None:
            missing = "type: practicum agents install openhands"
        found.append(AgentEntry(name=name, about=about, ready=not missing, missing=missing))
    return found


def install_agent(name: str, say: Callable[[str], None]) -> dict[str, str]:
    """Installs an agent; `say` is called with lines of progress."""
    if name != "openhands":
        known = "needs no installing" if name in ABOUT else "is no agent"
        raise UserError(
            f"{name!r} {known}; only openhands does: practicum agents install openhands"
        )
    done = install(say)
    return {"name": name, "version": done.version, "python": str(Path(done.python))}


VERSION = "1.58.0"
PACKAGES = (f"openhands-sdk=={VERSION}", f"openhands-tools=={VERSION}")
NEEDS = (3, 12)
"""The oldest Python version for these packages."""
RECORD = "installed.json"
"""Written last: a folder without it is an incomplete installation."""
INSTALL = "practicum agents install openhands"

PROBE = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
LIST = (
    "import json, importlib.metadata as m; "
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A complete virtual environment."""

    python: Path
    packages: dict[str, str]
    """Version of every package in it."""

    @property
    def version(self) -> str:
        """The SDK's version."""
        return self.packages.get("openhands-sdk", "unknown")


def environment_folder() -> Path:
    """The folder of the virtual environment, whether it exists or not."""
    return cache_root() / "agents" / f"openhands-{VERSION}"


def installed() -> Installed | None:
    """The installation; None if there is none, or an incomplete one."""
    folder = environment_folder()
    try:
        packages = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Installed(python=_python_in(folder), packages=packages)


def installed_python() -> Path:
    """The Python executable of the installation; raises `UserError` if there is none."""
    found = installed()
    if found is None:
        raise UserError(
            "the agent openhands needs the OpenHands SDK in an environment of its own, and there "
            f"is none in {environment_folder()}; type: {INSTALL}"
        )
    return found.python


def install(say: Callable[[str], None] = lambda line: None) -> Installed:
    """Makes the virtual environment unless it exists; `say` is called with lines of progress."""
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
    """A Python that is new enough: this one, one on PATH, or one of pyenv."""
    for candidate in _candidates():
        # A name on PATH may be a version manager's shim without a Python behind it: try each.
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
    """Runs a command and passes its output to `say`; raises `UserError` if it fails."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1"},  # modules of the current folder are not run
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
