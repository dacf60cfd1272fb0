"""The labels page: the traces of a run one by one, from bad to good by a key; how people agree.

The queue is that of `practicum traces label`. It lives in a thread of its own, with the one store
that the monitor ever opens for writing, and only where it was started with `--write`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from starlette.responses import RedirectResponse, Response

from practicum.core.errors import UserError
from practicum.monitor.page_parts import Asked, Monitor, link
from practicum.monitor.rollout_pages import FOLDED, opened
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.labelling import LabelSession, Prediction, read_pool, report_labels

T = TypeVar("T")

VALUES = {"1": 0.0, "2": 0.25, "3": 0.5, "4": 0.75, "5": 1.0}
"""Keys, and the labels that they give: from bad to good."""
MOST_NOTE = 2000
POOL = 300
"""Traces to choose the next one from: more take longer to read than a person waits."""
SEED = 0


class LabelDesk:
    """The labelling session of the run that was labelled last."""

    def __init__(self, author: str) -> None:
        self._author = author
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="labels")
        self._at: tuple[Path, SqliteTraceStore, LabelSession] | None = None
        self.said: tuple[str, float, Prediction | None] | None = None
        """The last answer, and what the labeler thought before it."""

    async def run(self, work: Callable[[], T]) -> T:
        """What a function gives in the thread that may write."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def session(self, path: Path) -> LabelSession:
        """The session of a store; another one's ends."""
        if self._at is None or self._at[0] != path:
            self.leave()
            store = SqliteTraceStore(path)
            try:
                pool = read_pool(store, where="", size=POOL, seed=SEED, embedder=None)
                session = LabelSession(store, pool, self._author, "uncertain", SEED)
            except BaseException:
                store.close()
                raise
            self._at = (path, store, session)
        return self._at[2]

    def leave(self) -> None:
        """Close the store that is open."""
        if self._at is not None:
            self._at[1].close()
        self._at, self.said = None, None

    def close(self) -> None:
        """Let the thread end, after what it is at."""
        with suppress(RuntimeError):
            self._thread.submit(self.leave)
        self._thread.shutdown(wait=True)


def labels_page(monitor: Monitor, asked: Asked) -> Response:
    """How often people and the labeler agree; without `--write` there is nothing else."""
    name = asked.text("run")
    run, store = opened(monitor, name)
    report, problem = None, ""
    try:
        pool = read_pool(store, where="", size=POOL, seed=SEED, embedder=None)
        report = report_labels(store, pool, SEED)
    except UserError as error:
        problem = str(error)
    return monitor.page("labels.html", name=name, run=run, report=report, problem=problem)


def queue_page(monitor: Monitor, asked: Asked, desk: LabelDesk) -> Response:
    """The trace that a label teaches most about."""
    name = asked.text("run")
    session = desk.session(monitor.runs.run(name).traces_path)
    episode = session.next()
    return monitor.page(
        "label.html",
        name=name,
        episode=episode,
        counts=session.counts,
        said=desk.said,
        values=VALUES,
        folded=FOLDED,
        author=monitor.author,
    )


def give_label(monitor: Monitor, asked: Asked, desk: LabelDesk) -> Response:
    """Keep a label, skip the trace, or take the last answer back."""
    name, what = asked.form.get("run", ""), asked.form.get("value", "")
    episode_id, note = asked.form.get("episode", ""), asked.form.get("note", "")
    session = desk.session(monitor.runs.run(name).traces_path)
    if len(note) > MOST_NOTE:
        raise UserError(f"the note has {len(note)} characters; write up to {MOST_NOTE}")
    if what == "undo":
        session.undo()
        desk.said = None
    elif what == "skip":
        session.skip(episode_id)
        desk.said = None
    elif what in VALUES:
        desk.said = (episode_id, VALUES[what], session.answer(episode_id, VALUES[what], note))
    else:
        raise UserError(f"{what[:20]!r} is no label; give 1 to 5, skip or undo")
    return RedirectResponse(link("/label", run=name), status_code=303)
