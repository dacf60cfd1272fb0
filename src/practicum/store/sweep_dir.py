"""`SweepDir`, a sweep's folder: several settings of one config, and a study's folder for each.

runs/<name>/
    sweep.json            the settings, their configs, and the seeds of each
    01-lr-0.0001/ ...     studies
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.store.durable import storage_errors, write_file
from practicum.store.run_dir import check_name, free_path, taken
from practicum.store.study_dir import StudyDir

SWEEP = "sweep.json"
FORMAT = 1
"""Version of `sweep.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One of the settings that are tried."""

    name: str
    """Of its study's folder."""
    words: tuple[str, ...]
    """What sets it apart, as it was typed."""
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFacts:
    """Everything in `sweep.json`."""

    created_at: float
    """Seconds since the epoch."""
    seeds: tuple[int, ...]
    parallel: int | None
    """Seeds trained at once; what the machine allows unless given."""
    settings: tuple[Setting, ...]
    format: int = FORMAT


class SweepDir:
    """An existing sweep folder. `SweepDir.create` makes one; `find_sweep` finds one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.absolute().name

    @classmethod
    def create(
        cls,
        runs_dir: Path,
        settings: Sequence[Setting],
        seeds: Sequence[int],
        *,
        name: str | None = None,
        parallel: int | None = None,
    ) -> "SweepDir":
        """Make the folder; its studies are made when their turn comes."""
        path = runs_dir / check_name(name) if name else free_path(runs_dir, "sweep")
        if path.exists():
            raise taken(path)
        facts = SweepFacts(
            created_at=time.time(),
            seeds=tuple(seeds),
            parallel=parallel,
            settings=tuple(settings),
        )
        with storage_errors(path):
            path.mkdir(parents=True)
            write_file(path / SWEEP, _facts().dump_json(facts, indent=2) + b"\n")
        return cls(path)

    def facts(self) -> SweepFacts:
        """What `sweep.json` says."""
        try:
            found = _facts().validate_json((self.path / SWEEP).read_bytes())
        except ValidationError as error:
            raise UserError(
                f"{self.path / SWEEP} is damaged: {error.errors()[0]['msg']}; put back a copy of "
                "it, or start another sweep with --name"
            ) from None
        if found.format != FORMAT:
            raise UserError(
                f"{self.path / SWEEP} has format {found.format}, and format {FORMAT} is read; use "
                "the version of practicum that made it, or start another sweep with --name"
            )
        return found

    def study(self, setting: Setting) -> StudyDir | None:
        """The study of a setting; None where its turn has not come."""
        path = self.path / setting.name
        return StudyDir(path) if StudyDir.is_study(path) else None

    def config(self, setting: Setting) -> RunConfig:
        """What a setting's runs are told, but for their seeds."""
        config = build_config(setting.config, str(self.path / SWEEP))
        return config.model_copy(update={"runs_dir": str(self.path)})


@cache
def _facts() -> TypeAdapter[SweepFacts]:
    return TypeAdapter(SweepFacts)


def find_sweep(named: str, runs_dir: Path) -> SweepDir:
    """The sweep a user means by a path or a name in `runs_dir`."""
    for candidate in (Path(named), runs_dir / named):
        if (candidate / SWEEP).is_file():
            return SweepDir(candidate)
    known = sorted(path.parent.name for path in runs_dir.glob(f"*/{SWEEP}"))
    there = f"there are {', '.join(known[:5])}" if known else f"there is none in {runs_dir}"
    raise UserError(
        f"{named!r} is not a sweep; {there}; start one with practicum sweep CONFIG key=a,b"
    )
