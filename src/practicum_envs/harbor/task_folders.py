"""Task folders: `task.toml`, `instruction.md`, `environment/`, `solution/` and `tests/`."""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from practicum.core.errors import UserError

CANARY_LINE = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
MARKS = re.compile(rb"canary[\s:]+(string|guid)|never appear in training", re.IGNORECASE)
"""What benchmarks write into their files so that nobody trains on them."""
MARKED_BYTES = 4096
FORM = (
    "a task is a folder with task.toml, instruction.md, environment/Dockerfile and tests/test.sh, "
    "and env.path names one, or a folder of them"
)


@dataclass(frozen=True)
class TaskFolder:
    """One task as its author wrote it."""

    folder: Path
    config: Mapping[str, Any]
    name: str
    """Its place below the folder that was asked for."""

    @property
    def instruction(self) -> str:
        """What is to be done, without a benchmark's mark at its beginning."""
        path = self.folder / "instruction.md"
        lines = _text(path).splitlines() if path.is_file() else []
        while lines and (not lines[0].strip() or CANARY_LINE.match(lines[0].strip())):
            lines.pop(0)
        return "\n".join(lines).strip()

    def section(self, *names: str) -> Mapping[str, Any]:
        """A table of task.toml; empty where it has none."""
        found: Any = self.config
        for name in names:
            found = found.get(name, {}) if isinstance(found, Mapping) else {}
        return found if isinstance(found, Mapping) else {}

    def seconds(self, section: str, default: float) -> float:
        """A section's `timeout_sec`."""
        given = self.section(section).get("timeout_sec")
        if isinstance(given, bool) or not isinstance(given, int | float):
            return default
        return float(given) if given > 0 else default

    def megabytes(self, name: str) -> int | None:
        """What the environment asks for of `memory` or `storage`, in MiB."""
        asked = self.section("environment")
        given = asked.get(f"{name}_mb")
        if isinstance(given, int) and given > 0:
            return given
        size = re.fullmatch(r"([\d.]+)\s*([GMK])", str(asked.get(name, "")).strip().upper())
        scale = {"G": 1024.0, "M": 1.0, "K": 1 / 1024}
        return int(float(size[1]) * scale[size[2]]) or None if size else None

    @property
    def dockerfile(self) -> Path:
        """Of the machine; it may not be there."""
        return self.folder / "environment" / "Dockerfile"

    @property
    def test_script(self) -> Path:
        """What grades; it may not be there."""
        return self.folder / "tests" / "test.sh"

    @property
    def solve_script(self) -> Path:
        """What solves it; it may not be there."""
        return self.folder / "solution" / "solve.sh"

    @cached_property
    def is_marked(self) -> bool:
        """Whether a file says that nobody is to train on it."""
        named = ("instruction.md", "task.toml", "environment/Dockerfile")
        more = (path for name in ("tests", "solution") for path in files_in(self.folder / name))
        for path in (*(self.folder / name for name in named), *more):
            if path.is_file() and MARKS.search(path.read_bytes()[:MARKED_BYTES]):
                return True
        return False

    @cached_property
    def digest(self) -> str:
        """Of all that its machine is made of."""
        found = hashlib.sha256()
        for path in files_in(self.folder / "environment"):
            name = path.relative_to(self.folder).as_posix()
            mode = path.lstat().st_mode & 0o111
            found.update(f"{name}\0{mode}\0{path.stat().st_size}\0".encode())
            found.update(path.read_bytes())
        return found.hexdigest()[:20]


def files_in(folder: Path) -> list[Path]:
    """Its ordinary files, in the order of their names; links that lead out of it are left out."""
    base = folder.resolve()
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.resolve().is_relative_to(base)
    ]


def read_task_folders(path: str) -> list[TaskFolder]:
    """The task folder at a path, or all below it; a sentence says what is wrong with one."""
    if not path:
        raise UserError(f"env.path is empty; {FORM}")
    base = Path(path).expanduser()
    if not base.is_dir():
        raise UserError(f"env.path: there is no folder {path}; {FORM}")
    found = [_read(one, base) for one in _task_tomls(base)]
    if not found:
        raise UserError(f"there is no task.toml in {path} or below it; {FORM}")
    return sorted(found, key=lambda one: one.name)


def _task_tomls(base: Path) -> Iterator[Path]:
    """Those of task folders; a task's own files may hold more, which are not looked for."""
    if (base / "task.toml").is_file():
        yield base / "task.toml"
        return
    for folder in sorted(one for one in base.iterdir() if one.is_dir() and one.name[0] != "."):
        yield from _task_tomls(folder)


def _read(toml: Path, base: Path) -> TaskFolder:
    try:
        config = tomllib.loads(_text(toml))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{toml} is not valid TOML: {error}; mend it, or move its folder") from None
    folder = toml.parent
    name = folder.relative_to(base).as_posix() if folder != base else folder.resolve().name
    return TaskFolder(folder=folder, config=config, name=name)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
