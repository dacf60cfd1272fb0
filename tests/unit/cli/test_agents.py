import json

import pytest
from typer.testing import CliRunner

from practicum.cli.main import app
from practicum.core.config.agent_config import AGENT_OPTIONS
from practicum.core.errors import UserError


def test_the_list_says_of_each_agent_whether_it_is_ready() -> None:
    answer = CliRunner().invoke(app, ["agents", "list", "--json"])
    assert answer.exit_code == 0
    found = json.loads(answer.stdout)["agents"]
    assert [one["name"] for one in found] == list(AGENT_OPTIONS)
    assert all(one["ready"] for one in found if one["name"] in ("auto", "actions", "tools"))


def test_the_list_can_be_read() -> None:
    answer = CliRunner().invoke(app, ["agents", "list"])
    assert answer.exit_code == 0
    assert "function" in answer.stdout


def test_what_cannot_be_installed_is_the_users_mistake() -> None:
    answer = CliRunner().invoke(app, ["agents", "install", "robot"])
    assert isinstance(answer.exception, UserError)
    assert "practicum agents install openhands" in str(answer.exception)


@pytest.mark.parametrize("verb", [[], ["list"], ["install"]])
def test_help_says_what_it_is_for(verb: list[str]) -> None:
    assert CliRunner().invoke(app, ["agents", *verb, "--help"]).exit_code == 0
