"""The command line, called in this process."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from practicum.cli.main import main


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The one line said on standard error."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("practicum: ")]
        return line


@pytest.fixture
def practicum(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    def call(*words: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["practicum", *map(str, words)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as leave:
            code = int(leave.code or 0)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Answer(code, out, err)

    return call


TINY = (
    "math",
    "model=tiny",
    "steps=2",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=3",
    "rollouts.max_turns=3",
    "eval.n=4",
    "hardware.threads=1",
)


@pytest.fixture
def tiny_run() -> tuple[str, ...]:
    """Words after `practicum train` for a run of a second or two."""
    return TINY
