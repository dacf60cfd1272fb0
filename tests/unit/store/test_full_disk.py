"""What is said where a disk is full or may only be read."""

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from practicum.cli.main import _as_sentence
from practicum.core.config.parse_config import build_config
from practicum.core.errors import UserError
from practicum.store.durable import storage_errors
from practicum.store.run_dir import RunDir
from practicum.store.unused_runs import no_empty_run


def test_a_run_whose_store_could_not_be_made_tells_its_own_failure(tmp_path: Path) -> None:
    """The store is a file without tables then, and reading it must not hide what went wrong."""
    run = RunDir.create(tmp_path, build_config({"env": "math"}))
    sqlite3.connect(run.traces_path).close()
    run.traces_path.touch()
    with (
        pytest.raises(UserError, match="the disk is full"),
        no_empty_run(run, is_new=True),
        storage_errors(run.path),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_an_error_of_the_disk_is_one_sentence_of_any_command(number: int) -> None:
    told = _as_sentence(OSError(number, os.strerror(number), "/there/file"))
    assert isinstance(told, UserError)
    assert str(told).startswith(f"/there/file cannot be read or written: {os.strerror(number)};")


def test_other_errors_of_ours_are_not_hidden() -> None:
    assert _as_sentence(OSError(errno.EBADF, "Bad file descriptor")) is None


def test_the_advice_for_a_full_disk_holds_for_a_run_that_was_never_made(tmp_path: Path) -> None:
    with pytest.raises(UserError) as wrong, storage_errors(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "choose another disk with runs_dir=DIR" in str(wrong.value)
    assert "a run that was saved goes on with: practicum train --resume RUN" in str(wrong.value)
