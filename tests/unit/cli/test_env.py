import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from practicum.cli.env import app
from practicum.core.errors import ConfigError, MissingExtra, UserError

root = typer.Typer()
root.add_typer(app, name="env")


def serve(*words: str) -> None:
    result = CliRunner().invoke(root, ["env", "serve", *words])
    if result.exception is not None:
        raise result.exception


def test_without_its_extra_the_command_to_install_is_named_and_no_key_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "practicum.environments.serving.env_server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtra, match=r"practicum\[serve\]"):
        serve("math", "--key-file", str(tmp_path / "key"))
    assert not (tmp_path / "key").exists()


def test_a_mistake_makes_no_key(tmp_path: Path) -> None:
    for words in (["math", "--host=0.0.0.0", "--lifelong"], ["math", "levle=1"]):
        with pytest.raises(UserError):
            serve(*words, "--key-file", str(tmp_path / "key"))
    assert not (tmp_path / "key").exists()


def test_options_of_the_server_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"server\.samples"):
        serve("math", "server.samples=0")


def test_the_lifelong_routes_speak_text() -> None:
    with pytest.raises(UserError, match="protocol=text"):
        serve("shell", "protocol=tools", "--lifelong")
