"""`StudyDir`, a study's folder: one config, and an ordinary run folder for each of its seeds.

runs/<name>/
    study.json       config, seeds, how many at once, seeds that failed and why
    seed_0/ ...      run folders
    seed_0.log ...   what the trainer of a seed printed
    lock             held (flock) by the process that runs the study
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.store.checkpoints import CheckpointStore
from practicum.store.durable import publish_folder, storage_errors, write_file
from practicum.store.run_dir import STUDY, RunDir, check_name, free_path, hold_lock, taken

FORMAT = 1
"""Version of `study.json`."""
MOST_SEEDS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFacts:
    """Everything in `study.json`."""

    name: str
    created_at: float
    """Seconds since the epoch."""
    seeds: tuple[int, ...]
    parallel: int
    """Seeds trained at once, unless told otherwise."""
    config: Mapping[str, Any]
    """What every seed is told, but for its seed and folder."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Why a seed failed when it was last tried, in a sentence."""
    format: int = FORMAT


class StudyDir:
    """An existing study folder. `StudyDir.create` makes one; `find_study` finds one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.absolute().name
        self.facts_path = path / STUDY

    def __repr__(self) -> str:
        return f"StudyDir({str(self.path)!r})"

    @classmethod
    def create(
        cls, config: RunConfig, seeds: Sequence[int], *, name: str | None = None, parallel: int = 1
    ) -> "StudyDir":
        """Create a study's folder in the config's `runs_dir`, atomically."""
        runs_dir = Path(config.runs_dir)
        if name is not None:
            study = cls(runs_dir / check_name(name))
            if study.path.exists():
                raise taken(study.path)
        else:
            study = cls(free_path(runs_dir, config.env_name if config.acts else "traces"))
        facts = StudyFacts(
            name=study.name,
            created_at=time.time(),
            seeds=check_seeds(seeds),
            parallel=parallel,
            config=config.model_dump(mode="json"),
        )
        temporary = study.path.with_name(f".{study.name}.tmp-{os.getpid()}")
        try:
            with storage_errors(study.path):
                shutil.rmtree(temporary, ignore_errors=True)  # of a killed process of this pid
                temporary.mkdir(parents=True)
                write_file(temporary / STUDY, _facts().dump_json(facts, indent=2) + b"\n")
                publish_folder(temporary, study.path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return study

    @classmethod
    def is_study(cls, path: Path) -> bool:
        """Whether a folder is a study's."""
        return (path / STUDY).is_file()

    def facts(self) -> StudyFacts:
        """What `study.json` says."""
        try:
            found = _facts().validate_json(self.facts_path.read_bytes())
        except ValidationError as error:
            raise UserError(
                f"{self.facts_path} is damaged: {error.errors()[0]['msg']}; put back a copy of it, "
                "or start another study with --name"
            ) from None
        if found.format != FORMAT:
            raise UserError(
                f"{self.facts_path} has format {found.format}, and format {FORMAT} is read; use "
                "the version of practicum that made it, or start another study with --name"
            )
        return found

    def config(self) -> RunConfig:
        """What every seed is told, but for its seed and folder."""
        return build_config(self.facts().config, str(self.facts_path))

    def seed_config(self, seed: int) -> RunConfig:
        """What one seed is told."""
        own = {"seed": seed, "runs_dir": str(self.path)}
        return self.config().model_copy(update=own)

    def replace_config(self, config: RunConfig) -> None:
        """Write the config of a study that goes on with more steps, say."""
        self._write(replace(self.facts(), config=config.model_dump(mode="json")))

    def record_failure(self, seed: int, sentence: str | None) -> None:
        """Keep why a seed failed; None forgets it."""
        facts = self.facts()
        others = {key: told for key, told in facts.failures.items() if key != str(seed)}
        told = others if sentence is None else {**others, str(seed): sentence}
        if told != facts.failures:
            self._write(replace(facts, failures=told))

    def run(self, seed: int) -> RunDir:
        """The run folder of a seed, whether or not it is there yet."""
        return RunDir(self.path / f"seed_{seed}")

    def runs(self) -> dict[int, RunDir]:
        """The seeds that were started."""
        found = {seed: self.run(seed) for seed in self.facts().seeds}
        return {seed: run for seed, run in found.items() if RunDir.is_run(run.path)}

    def log_path(self, seed: int) -> Path:
        """What the trainer of a seed prints."""
        return self.path / f"seed_{seed}.log"

    def unfinished(self) -> list[int]:
        """Seeds that have steps or their last evaluation before them."""
        steps = self.config().steps
        runs = self.runs()
        return [s for s in self.facts().seeds if s not in runs or not is_finished(runs[s], steps)]

    def hold(self) -> AbstractContextManager[None]:
        """Hold the study's lock for a block; raises `RunBusy` when another process has it."""
        return hold_lock(self.path / "lock")

    def _write(self, facts: StudyFacts) -> None:
        write_file(self.facts_path, _facts().dump_json(facts, indent=2) + b"\n")


@cache
def _facts() -> TypeAdapter[StudyFacts]:
    return TypeAdapter(StudyFacts)


def is_finished(run: RunDir, steps: int) -> bool:
    """Whether a run has made so many steps, saved the last and evaluated it."""
    config = run.config()
    saved = CheckpointStore(run.path, config.checkpoints.layout).pointed("latest")
    if saved is None or saved < steps:
        return False
    return not config.acts or (run.path / "evals" / f"step_{steps}.json").is_file()


def list_studies(runs_dir: Path) -> list[StudyDir]:
    """All studies in the folder, by name."""
    places = sorted(runs_dir.iterdir()) if runs_dir.is_dir() else []
    return [StudyDir(p) for p in places if not p.name.startswith(".") and StudyDir.is_study(p)]


def find_study(named: str | Path, runs_dir: Path) -> StudyDir | None:
    """The study a user means by a path or a name in `runs_dir`; None where it is none."""
    for candidate in (Path(named), runs_dir / named):
        if StudyDir.is_study(candidate):
            return StudyDir(candidate)
    return None


def parse_seeds(text: str, first: int = 0) -> tuple[int, ...]:
    """The seeds a user means: how many, counted from `first` on, or each by itself.

    >>> parse_seeds("3"), parse_seeds("0,3,7"), parse_seeds("7,")
    ((0, 1, 2), (0, 3, 7), (7,))
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isdecimal() for word in words):
        raise UserError(
            f"--seeds {text!r} cannot be read; give how many, such as --seeds 5, or which ones, "
            "such as --seeds 0,3,7"
        )
    if "," in text:
        return check_seeds([int(word) for word in words])
    return check_seeds(range(first, first + min(int(words[0]), MOST_SEEDS + 1)))


def check_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    """The seeds, if a study can have them."""
    if not 1 <= len(seeds) <= MOST_SEEDS or len(set(seeds)) != len(seeds):
        shown = ", ".join(map(str, list(seeds)[:10])) or "none"
        raise UserError(
            f"a study cannot have the seeds {shown}; give 1 to {MOST_SEEDS} different ones, such "
            "as --seeds 5"
        )
    return tuple(seeds)
