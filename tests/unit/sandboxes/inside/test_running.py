"""One command as the first process reads it and turns into it."""

import os
from pathlib import Path

import pytest

from practicum.sandboxes.inside.running import NOT_STARTED, Request, Running, become_program


def test_a_request_is_read_part_by_part() -> None:
    parts = [b"judge", b"1500", b"99", b"/tmp/\xff", b"in", b"2", b"a", b"b", b"K", b"v", b"L", b""]
    request = Request(parts)
    assert (request.is_judge, request.timeout_s, request.keep) == (True, 1.5, 99)
    assert os.fsencode(request.cwd) == b"/tmp/\xff"
    assert (request.stdin, request.command) == (b"in", [b"a", b"b"])
    assert request.environment == {b"K": b"v", b"L": b""}


def test_a_program_that_is_nowhere_is_not_found(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path)
    for name in (b"nothing", path + b"/nothing"):
        with pytest.raises(FileNotFoundError):
            become_program([name], {b"PATH": path + b":/no/such/folder:/etc/passwd"})


def test_a_file_that_is_no_program_is_told_from_none(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    with pytest.raises(PermissionError):
        become_program([b"data"], {b"PATH": os.fsencode(tmp_path) + b":/no/such/folder"})


def test_a_program_is_found_along_the_path(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\nexit $(($1 + $ADDED))\n")
    (tmp_path / "program").chmod(0o755)
    pid = os.fork()
    if pid == 0:
        environment = {b"PATH": b"/no/such/folder:" + os.fsencode(tmp_path), b"ADDED": b"2"}
        try:
            become_program([b"program", b"5"], environment)
        finally:
            os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def request(keep: int = 10) -> Request:
    return Request([b"run", b"1000", b"%d" % keep, b"/", b"in", b"1", b"x"])


def ran(running: Running, out: bytes, code: int, trouble: str = "") -> list[bytes]:
    """What is reported of a command that printed and ended."""
    pid = os.fork()
    if pid == 0:
        running.redirect_stdio()
        os.write(1, out + os.read(0, 10))
        if trouble:
            running.say(trouble)
        os._exit(code)
    running.close_child_ends()
    status = running.ended(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if running.trouble():
        status = "denied"
    assert running.finish(False) == set()
    return running.report(status, 0.5)


def test_output_and_code_are_reported() -> None:
    assert ran(Running(request()), b"out ", 3)[1:4] == [b"ok", b"3", b"6"]
    assert ran(Running(request()), b"out ", 3)[5:] == [b"out in", b""]


def test_what_is_cut_is_said_to_be() -> None:
    report = ran(Running(request(4)), b"x" * 50, 0)
    assert report[1:4] == [b"truncated", b"0", b"52"]


def test_a_command_that_did_not_start_is_told_from_one_with_that_code() -> None:
    assert ran(Running(request()), b"", NOT_STARTED, "no such program")[1:3] == [b"denied", b""]
    assert ran(Running(request()), b"", NOT_STARTED)[1:3] == [b"ok", b"%d" % NOT_STARTED]
