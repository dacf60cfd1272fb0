"""A run that fails before it has begun leaves no folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from practicum.core.errors import UserError
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore


@contextmanager
def no_empty_run(run: RunDir, *, is_new: bool) -> Iterator[None]:
    """Remove a new run's folder where the block fails and there is nothing to look at in it."""
    made = run.path.stat()
    try:
        yield
    except BaseException:
        if not run.path.is_dir() or not os.path.samestat(made, run.path.stat()):
            raise  # it was renamed, and what has its name is not this run's
        if is_new and not read_metrics(run.metrics_path).rows and not _has_episodes(run):
            run.discard()
        raise


def _has_episodes(run: RunDir) -> bool:
    if not run.traces_path.exists():
        return False
    try:
        with SqliteTraceStore(run.traces_path, read_only=True) as traces:
            return traces.count_where("") > 0
    except UserError:  # what cannot be read is kept, and the run's own failure is what is told
        return True
