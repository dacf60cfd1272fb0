"""Rollouts that a gateway has closed: into the store, or aside where it does not take them."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from practicum.core.errors import PracticumError, UserError
from practicum.core.private_files import owner_only
from practicum.core.sample import Episode
from practicum.core.task import Task
from practicum.store.durable import storage_errors
from practicum.store.episode_codec import episode_to_json
from practicum.store.trace_export import VERSION, record_text
from practicum.store.trace_store import SqliteTraceStore

TENDING_S = 5.0
"""How often freed memory is given back, which takes a few milliseconds."""
ASIDE_FILE = "practicum-rollouts-{pid}.jsonl"
"""Name of the file of episodes that their store does not take."""


class EpisodeKeeper:
    """Puts closed rollouts into a store, if there is one.

    What they leave free between kept pieces of memory is given back now and then, by `tend`.
    """

    def __init__(
        self, store: SqliteTraceStore | None, tend: Callable[[], object] = lambda: None
    ) -> None:
        self._store, self._tend = store, tend
        self._tended_at = time.monotonic()
        self.count = 0

    def add(self, episode: Episode) -> None:
        """Keep one; a rollout in which nothing was said is left out."""
        if time.monotonic() > self._tended_at + TENDING_S:
            self._tended_at = time.monotonic()
            self._tend()
        if self._store is None or not episode.trace.nodes:
            return
        self._store.add_imported([episode], tasks=[_task_of(episode)], purpose="gateway")
        self.count += 1


@contextmanager
def keeping(path: Path | None, tend: Callable[[], object]) -> Iterator[EpisodeKeeper]:
    """A keeper over the store at a path; None keeps nothing."""
    if path is None:
        yield EpisodeKeeper(None, tend)
        return
    if not path.parent.is_dir():
        raise UserError(f"there is no folder {path.parent} for the store; make it, or name another")
    with SqliteTraceStore(path) as store:
        yield EpisodeKeeper(store, tend)


def _task_of(episode: Episode) -> Task:
    trace = episode.trace
    asked = next((m.content for m in trace.messages() if m.role == "user"), "")
    return Task(id=trace.task_id, env=trace.env, split="train", instruction=asked)


def put_aside(episode: Episode, why: str) -> str:
    """Writes an episode that its store does not take to the first folder that does; says where."""
    lost = f"the rollout {episode.trace.id} is not in the store ({why})"
    for folder in (Path.cwd(), Path.home(), Path(tempfile.gettempdir())):
        out = folder / ASIDE_FILE.format(pid=os.getpid())
        try:
            _append(out, episode)
        except (PracticumError, OSError):
            continue
        return f"{lost}; it is in {out}, which is read by: practicum traces import {out}"
    return f"{lost}, and no folder takes it: it is lost"


def _append(out: Path, episode: Episode) -> None:
    """Adds one episode to a file of JSON lines, as `practicum traces import` reads it."""
    record = {
        "practicum": VERSION,
        "episode": episode_to_json(episode),
        "task": asdict(_task_of(episode)),
        "labels": [],
        "identity": "",
    }
    before = out.stat().st_size if out.exists() else None
    try:
        with storage_errors(out), open(out, "a", encoding="utf-8", opener=owner_only) as file:
            file.write(record_text(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        if before is None:
            out.unlink(missing_ok=True)
        else:
            os.truncate(out, before)  # half a record is none
        raise
