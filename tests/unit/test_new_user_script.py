"""`scripts/new_user.py`: what it types is README, in its order, with nothing left out unsaid."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, which finds its neighbours as when it is run."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    for name in ("new_user", "dockerfile_steps", "page_blocks"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import new_user

    return new_user


def test_readmes_commands_are_typed_in_order_and_the_milestones_are_among_them(
    script: ModuleType,
) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    typed = script.commands_of(readme)
    shown = re.sub("<!--.*?-->", "", readme)  # without what is said to the tests
    places = [shown.index(command.splitlines()[0]) for command in typed if "<<" not in command]
    assert places == sorted(places)
    tiny, demo = (typed.index(command) for command in script.MILESTONES.values())
    assert tiny < demo
    assert typed[0] == "sudo apt-get update"
    assert typed[-1] == "python examples/01_own_environment.py"
    assert set(script.commands_of(readme, ())) - set(typed) == set(script.LEFT_OUT)


def test_milestones_leave_out_what_the_network_takes(script: ModuleType) -> None:
    def step(command: str, seconds: float) -> object:
        return script.Told(
            command=command, exit_code=0, seconds=seconds, cpu_seconds=6.0, output=""
        )

    told = script.milestones(
        [
            step("pip install torch==2.13.0", 600.0),
            step("practicum train configs/tiny.yaml --name first", 60.0),
        ]
    )
    assert told == [
        "- a tiny model that has learned: 11.0 minutes from the clone, 1.0 beside downloads, "
        "in which 0.1 minutes of one core's work were done"
    ]
