"""The Python packages of the graders: installed once, and shown to every machine."""

import asyncio
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from practicum.core.cache_folder import sandbox_cache_root
from practicum.core.errors import UserError
from practicum_envs.agent_company.checkout import Checkout

PLACE = "/graders"
"""Where machines see the packages."""
NOT_INSTALLED = ("torch", "sotopia", "seaborn", "matplotlib")
"""Packages that are left out: gigabytes, or what a service of the benchmark needs, not a grader."""
GONE = re.compile(r"(?<=No matching distribution found for )([\w.-]+)==[\w.]+")
NOT_FOR_GRADERS = {"hiredis", "poetry", "coverage", "mypy"}


def packages_of(checkout: Checkout) -> list[str]:
    """What the Dockerfiles install for graders, each in its newest version of those they name."""
    steps = (*checkout.base_image, *(step for task in checkout.tasks for step in task.image))
    newest: dict[str, tuple[tuple[int, ...], str]] = {}
    for wanted in (one for step in steps for one in step.python_packages()):
        name, _, version = wanted.partition("==")
        key = name.lower().replace("_", "-")
        numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
        if key not in {*NOT_INSTALLED, *NOT_FOR_GRADERS}:
            newest[key] = max(newest.get(key, ((), wanted)), (numbers, wanted))
    return [wanted for _, (_, wanted) in sorted(newest.items())]


async def installed_packages(
    packages: list[str], python: str, say: Callable[[str], None]
) -> Path | None:
    """The folder with the packages for a version of Python, such as 3.11; None for no packages."""
    if not packages:
        return None
    key = hashlib.sha256(" ".join([python, *packages]).encode()).hexdigest()[:12]
    folder = sandbox_cache_root() / f"graders-{key}"
    if not folder.exists():
        say(f"Installing {len(packages)} packages of TheAgentCompany's graders, once; minutes")
        await asyncio.to_thread(_install, packages, python, folder, say)
    return folder


def _install(packages: list[str], python: str, folder: Path, say: Callable[[str], None]) -> None:
    """Install beside the final folder and rename: half of it is never used."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="graders-", dir=folder.parent))
    wanted, reason = list(packages), _pip(packages, python, fresh)
    while (gone := GONE.search(reason)) and gone.group(0) in wanted:
        name = gone.group(1)
        say(f"{gone.group(0)} is no longer to be had; taking the newest {name} instead")
        wanted[wanted.index(gone.group(0))] = name
        reason = _pip(wanted, python, fresh)
    if reason:
        shutil.rmtree(fresh, ignore_errors=True)
        raise UserError(
            f"the packages of TheAgentCompany's graders cannot be installed ({reason[-200:]}); "
            f"try again with a network, or with Python {python} and env.packages=FOLDER, after: "
            f"pip install --target FOLDER {' '.join(wanted)}"
        )
    fresh.chmod(0o755)
    fresh.rename(folder)


def _pip(packages: list[str], python: str, folder: Path) -> str:
    """Install packages into a folder; why not, or nothing where it worked."""
    own = ".".join(map(str, sys.version_info[:2]))
    # For another Python nothing can be built here, only taken as it is.
    wheels = [] if python == own else ["--only-binary=:all:", "--python-version", python]
    quiet = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    pip = [sys.executable, "-P", "-m", "pip", "install"]  # the current folder may have a pip.py
    command = [*pip, *quiet, *wheels, "--target", str(folder)]
    done = subprocess.run([*command, *packages], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or ["no reason given"])[-1]
