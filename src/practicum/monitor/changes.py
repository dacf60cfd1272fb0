"""What a monitor that may write changes: notes and tags of a run, stopping it, deleting it."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from starlette.responses import RedirectResponse, Response

from practicum.core.errors import UserError
from practicum.monitor.page_parts import Asked, Monitor, link
from practicum.monitor.run_notes import write_notes
from practicum.store.run_dir import hold_lock


def keep_notes(monitor: Monitor, asked: Asked) -> Response:
    """Keep the note and the tags of a run or a study."""
    name, kind = asked.form.get("name", ""), asked.form.get("kind", "run")
    folder = _folder(monitor, name, kind)
    write_notes(folder, asked.form.get("text", ""), asked.form.get("tags", ""))
    return _back(name, kind)


def stop_run(monitor: Monitor, asked: Asked) -> Response:
    """Ask the process that trains to save and leave, as a Ctrl-C does."""
    name = asked.form.get("name", "")
    run = monitor.runs.run(name)
    pid = run.trainer_pid()
    host = run.facts().attempts[-1].host if run.facts().attempts else ""
    if not pid or host != os.uname().nodename:
        raise UserError(f"nobody trains {name} on this machine, so there is nothing to stop")
    with suppress(ProcessLookupError):  # it has just ended by itself
        os.kill(pid, signal.SIGINT)
    return _back(name, "run")


def delete_run(monitor: Monitor, asked: Asked) -> Response:
    """Delete a run or a study that nobody trains; its name has to be typed."""
    name, kind = asked.form.get("name", ""), asked.form.get("kind", "run")
    folder = _folder(monitor, name, kind)
    if asked.form.get("typed", "") != name:
        raise UserError(f"type {name} into the field to delete it, with all its episodes")
    if folder.is_symlink():
        raise UserError(f"{folder} is a link; remove it where you made it")
    runs = (
        [folder]
        if kind == "run"
        else [run.path for run in monitor.runs.study(name).runs().values()]
    )
    for each in (folder, *runs):
        with hold_lock(each / "lock"):  # raises where a trainer holds it
            pass
    gone = folder.with_name(f".{folder.name}.gone-{os.getpid()}")
    os.rename(folder, gone)  # at once: a half-deleted folder would be listed as damaged
    shutil.rmtree(gone)
    return RedirectResponse("/", status_code=303)


def _folder(monitor: Monitor, name: str, kind: str) -> Path:
    return monitor.runs.study(name).path if kind == "study" else monitor.runs.run(name).path


def _back(name: str, kind: str) -> Response:
    return RedirectResponse(link("/study" if kind == "study" else "/run", name=name), 303)
