"""`Checkout`: a user's checkout of TheAgentCompany, and the tasks in it.

Nothing of the benchmark is in this package. What a task needs is read from its own files.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from practicum.core.errors import UserError
from practicum_envs.agent_company.task_image import ImageStep, read_image
from practicum_envs.office.office_plan import ServiceName

TASKS = "workspaces/tasks"
BASE = "workspaces/base_image"
NEEDED = ("task.md", "dependencies.yml")
GRADERS = ("evaluator.py", "evaluator.py.enc")
CLONE = "git clone https://github.com/TheAgentCompany/TheAgentCompany"
KEY = re.compile(r"""key_bytes = b(['"])(.+?)\1""")
"""Where the benchmark's `encrypt.py` says with which key its graders are encrypted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkTask:
    """One task folder."""

    name: str
    folder: Path
    instruction: str
    services: tuple[ServiceName, ...]
    grader: str
    """The source of `evaluator.py`; empty where there is only the encrypted one."""
    init: str
    """The sources of the scripts that run before the agent begins, one after the other."""
    scenarios: Mapping[str, Mapping[str, str]]
    """What colleagues know, by name."""
    image: tuple[ImageStep, ...]
    """What the task's image has besides the base image."""


class Checkout:
    """The checkout at a path; `UserError` where it is none."""

    def __init__(self, path: str) -> None:
        self.root = Path(path).expanduser()
        self.base = self.root / BASE
        folder = self.root / TASKS
        if not path or not folder.is_dir():
            what = f"{path} has no folder {TASKS}" if path else "env.repo names no checkout"
            raise UserError(f"{what}; type: {CLONE}, and give its folder as --repo")
        self.tasks = tuple(_read_task(one) for one in sorted(folder.iterdir()) if one.is_dir())
        if not self.tasks:
            raise UserError(f"{folder} has no task in it; type: {CLONE}, and give that as --repo")

    def find(self, name: str) -> BenchmarkTask:
        """The task of a name."""
        for one in self.tasks:
            if one.name == name:
                return one
        raise UserError(
            f"there is no task {name!r} in {self.root}; its first is {self.tasks[0].name!r}"
        )

    @cached_property
    def base_image(self) -> tuple[ImageStep, ...]:
        """What the base image of all tasks has."""
        return read_image(self.base)

    @cached_property
    def decryption_key(self) -> str:
        """The key that the benchmark publishes for its encrypted graders."""
        path = self.base / "encrypt.py"
        found = KEY.search(path.read_text(encoding="utf-8")) if path.is_file() else None
        return found.group(2) if found else ""

    def grading_files(self, task: BenchmarkTask) -> dict[str, Path]:
        """What is in `/utils` while a task is initialised and graded, by path inside."""
        found = {one.name: one for one in self.base.glob("*") if one.suffix in (".py", ".sh")}
        found |= {one.name: one for one in task.folder.iterdir() if _is_for_grading(one)}
        for step in task.image:
            for source, target in step.copies(task.folder):
                if target.startswith("/utils/"):
                    found[target.removeprefix("/utils/")] = source
        return found


def _is_for_grading(path: Path) -> bool:
    """As the base image's ONBUILD steps say."""
    return path.suffix == ".py" or path.name in ("dependencies.yml", "evaluator.py.enc")


def _read_task(folder: Path) -> BenchmarkTask:
    missing = [name for name in NEEDED if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in GRADERS):
        missing.append(GRADERS[0])
    if missing:
        raise UserError(f"{folder} is no task of TheAgentCompany: it has no {missing[0]}")
    depends = _text(folder / "dependencies.yml")
    return BenchmarkTask(
        name=folder.name,
        folder=folder,
        instruction=_text(folder / "task.md").strip(),
        services=tuple(one for one in get_args(ServiceName) if one in depends),
        grader=_text(folder / GRADERS[0]),
        init="\n".join(_text(one) for one in init_scripts(folder)),
        scenarios=_scenarios(folder / "scenarios.json"),
        image=read_image(folder),
    )


def init_scripts(folder: Path) -> Iterator[Path]:
    """The scripts of a folder in the order of the benchmark's `init.sh`."""
    for stem in ("pre_init", "populate_data", "post_init"):
        for suffix in (".sh", ".py"):
            if (folder / f"{stem}{suffix}").is_file():
                yield folder / f"{stem}{suffix}"


def _scenarios(path: Path) -> dict[str, Any]:
    text = _text(path).strip()
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} is no table of colleagues by name")
    return found


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
