import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from tests.unit.analysis.builders import RunBuilder, finished_run
from typer.testing import CliRunner

from practicum.cli.watch import watch
from practicum.core.errors import UserError

PROGRAM = "import typer; from practicum.cli.watch import watch; typer.run(watch)"
PATIENCE_S = 60.0
"""A terminal that does not say it for so long is broken; nothing is measured by it."""

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(watch)


class Terminal:
    """`practicum watch` in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"},
            start_new_session=True,
            # A test run in the background ignores Ctrl-C, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        os.close(theirs)
        self.seen = ""

    def read_until(self, words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while words not in self.seen:
            if time.monotonic() > end:  # a live screen is never silent
                raise AssertionError(f"{words!r} never came; seen: {self.seen[-2000:]}")
            if not select.select([self._ours], [], [], PATIENCE_S)[0]:
                raise AssertionError(f"{words!r} never came; seen: {self.seen[-2000:]}")
            self.seen += self._read()

    def leave(self) -> int:
        """Read to the end, and the exit code."""
        while chunk := self._read():
            self.seen += chunk
        os.close(self._ours)
        return self.process.wait(PATIENCE_S)

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode("utf-8", "replace")
        except OSError:  # Linux says so when the other end is closed
            return ""


def run_watch(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_once_prints_one_frame_of_the_latest_run(runs_dir: Path) -> None:
    finished_run(runs_dir, "older")
    RunBuilder(runs_dir, "newer").begin().steps(1, 3).done()
    shown = run_watch("--once", "--runs-dir", str(runs_dir))
    assert shown.startswith("newer ")
    assert shown.count("step 3/30") == 1


def test_a_run_is_found_by_name_and_by_folder(runs_dir: Path) -> None:
    run = finished_run(runs_dir, "demo")
    by_name = run_watch("demo", "--once", "--runs-dir", str(runs_dir))
    assert by_name == run_watch(str(run.path), "--once")
    assert "0.90 [0.83, 0.94]" in by_name


def test_without_a_terminal_a_run_in_training_is_one_frame_too(runs_dir: Path) -> None:
    with RunBuilder(runs_dir).begin().steps(1, 3).training():
        shown = run_watch("--runs-dir", str(runs_dir))
    assert shown.count("running (pid") == 1
    assert "\x1b" not in shown


def test_a_run_that_does_not_exist_is_the_users_mistake(runs_dir: Path) -> None:
    finished_run(runs_dir, "demo")
    with pytest.raises(UserError, match="there is no run 'dmeo'; did you mean 'demo'"):
        run_watch("dmeo", "--runs-dir", str(runs_dir))


def test_no_runs_at_all_is_the_users_mistake_with_what_to_type(runs_dir: Path) -> None:
    with pytest.raises(UserError, match="practicum train math"):
        run_watch("--runs-dir", str(runs_dir))


def test_control_c_leaves_with_exit_code_0_and_the_last_frame_on_the_screen(
    runs_dir: Path,
) -> None:
    with RunBuilder(runs_dir, "live").begin().steps(1, 3).training():
        terminal = Terminal("live", "--runs-dir", str(runs_dir), "--refresh", "0.1")
        terminal.read_until("step 3/30")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.leave() == 0
    assert "Traceback" not in terminal.seen
    after_the_live_screen = terminal.seen.rpartition("\x1b[?1049l")[2]
    assert "step 3/30" in after_the_live_screen


def test_the_view_follows_the_run_and_ends_with_it(runs_dir: Path) -> None:
    build = RunBuilder(runs_dir, "live", config={"steps": 4}).begin().evaluate(0, 14).steps(1, 3)
    with build.run.hold():
        terminal = Terminal("live", "--runs-dir", str(runs_dir), "--refresh", "0.1")
        terminal.read_until("step 3/4")
        build.step(4)
        terminal.read_until("last evaluation")
        build.evaluate(4, 95).done()
    assert terminal.leave() == 0
    after_the_live_screen = terminal.seen.rpartition("\x1b[?1049l")[2]
    assert "finished" in after_the_live_screen
    assert "0.95" in after_the_live_screen


def test_a_run_that_has_ended_is_one_frame_even_in_a_terminal(runs_dir: Path) -> None:
    finished_run(runs_dir, "demo")
    terminal = Terminal("demo", "--runs-dir", str(runs_dir))
    assert terminal.leave() == 0
    assert "finished" in terminal.seen
    assert "\x1b[?1049h" not in terminal.seen
