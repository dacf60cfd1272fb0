"""Mistakes in an environment of the user's own, each told in a sentence with its line."""

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

import practicum as pr
from practicum.agents.own_sessions import check_own_session, check_session
from practicum.core.errors import UserError
from practicum.environments.registry import build_environment


class Lamp:
    """A session as it should be."""

    def prompt(self) -> Any:
        return [pr.Message(role="user", content="the lamp is off")]

    def actions(self) -> Any:
        return (pr.ActionForm(name="press"),)

    async def act(self, text: str) -> Any:
        shown = pr.Message(role="user", content="the lamp is on")
        return pr.Observation(message=shown, reward=1.0, terminated=True)

    async def outcome(self) -> Any:
        return pr.Outcome(success=True, turn_rewards=(1.0,))


class Lamps:
    class Options(pr.ConfigModel):
        pass

    name = "lamps"
    all_levels = (1,)
    session: Any = Lamp

    def __init__(self, options: Any) -> None:
        pass

    def tasks(self, split: Any, seed: int) -> Any:
        yield pr.Task(id="lamp", env=self.name, split=split, instruction="light it")

    @asynccontextmanager
    async def open(self, task: pr.Task) -> Any:
        yield self.session()


class NoAct(Lamp):
    act: Any = None


class NothingToDo(Lamp):
    outcome = actions = act = None  # type: ignore[assignment]


class Named(Lamp):
    def actions(self) -> Any:
        return ["press"]


class Text(Lamp):
    def prompt(self) -> Any:
        return "the lamp is off"


class AtOnce(Lamp):
    def act(self, text: str) -> Any:  # type: ignore[override]
        return pr.Observation(message=pr.Message(role="user", content="on"))


class Shown(Lamp):
    async def act(self, text: str) -> Any:
        return "the lamp is on"


class Bare(Lamp):
    async def outcome(self) -> Any:
        return True


class Unnamed(Lamp):
    def actions(self) -> Any:
        return [pr.ActionForm(name="press"), pr.ActionForm(name="")]


class Twins(Lamp):
    def actions(self) -> Any:
        return [pr.ActionForm(name="press it"), pr.ActionForm(name="press it")]


class Raising(Lamp):
    async def act(self, text: str) -> Any:
        raise ValueError("the bulb is gone")


@pytest.mark.parametrize(
    ("session", "told"),
    [
        (NoAct, r"NoAct \(test_own_sessions.py, line \d+\), has no act; it needs prompt"),
        (NothingToDo, "has no outcome and no actions and no act"),
        (
            Named,
            r"`actions` \(.*, line \d+\) gives 'press', and should give a practicum.ActionForm "
            r"for each of its list, such as practicum.ActionForm\(name='press'\)",
        ),
        (Text, "`prompt` .* gives 'the lamp is off', and should give a list of practicum.Message"),
        (AtOnce, "`act` .* gives one Observation, .*write `async def act`"),
        (Shown, "gives 'the lamp is on', and should give a practicum.Observation"),
        (Bare, "`outcome` .* gives True, and should give a practicum.Outcome"),
        (Unnamed, r"`actions` \(.*, line \d+\): an action has the name ''; give it a word"),
        (Twins, "two actions have the same name 'press it'; give one of them another"),
    ],
)
async def test_a_session_that_no_agent_can_use_is_told(session: type, told: str) -> None:
    environment = Lamps(None)
    environment.session = session
    with pytest.raises(UserError, match=told):
        await check_session(environment, set())


class Corridor(Lamp):
    """Two doors, one after the other, the second under another name."""

    def __init__(self) -> None:
        self.opened = 0

    def actions(self) -> Any:
        return [pr.ActionForm(name=f"open door {self.opened + 1}")]

    async def act(self, text: str) -> Any:
        self.opened += 1
        shown = pr.Message(role="user", content="a corridor")
        return pr.Observation(message=shown, reward=1.0, terminated=self.opened == 2)


class Corridors(Lamps):
    session = Corridor

    def reference(self, task: pr.Task) -> Any:
        return ["open door 1", "open door 2"]


async def test_the_actions_along_the_first_solution_are_seen() -> None:
    seen = await check_own_session("mine.py:Corridors", Corridors(None))
    assert {form.name for forms in seen for form in forms} == {"open door 1", "open door 2"}


class Leaving(Lamp):
    async def act(self, text: str) -> Any:
        sys.exit(0)


class Blocking(Lamp):
    async def act(self, text: str) -> Any:
        time.sleep(3600)


class Waiting(Lamp):
    async def act(self, text: str) -> Any:
        await asyncio.sleep(3600)


@pytest.mark.parametrize("session", [Lamp, Raising, Leaving, Blocking, Waiting])
def test_what_its_code_raises_or_never_answers_is_left_to_episodes(session: type) -> None:
    environment = Lamps(None)
    environment.session = session
    asyncio.run(check_own_session("mine.py:Lamps", environment, seconds=0.2))


async def test_open_without_its_decorator_is_told() -> None:
    class Plain(Lamps):
        async def open(self, task: pr.Task) -> Any:
            yield Lamp()

    with pytest.raises(UserError, match=r"`open` .* write @contextlib.asynccontextmanager above"):
        await check_session(Plain(None), set())


def test_a_class_without_a_name_or_with_another_signature_is_told(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = (
        "import practicum as pr\nclass Own:\n    class Options(pr.ConfigModel): pass\n"
        "    all_levels = (1,)\n    def __init__(self, options): pass\n"
        "    def tasks(self, split, seed): return iter(())\n    def open(self, task): ...\n"
    )
    (tmp_path / "nameless.py").write_text(source)
    with pytest.raises(UserError, match=r"has no name \(nameless.py, line 2\); .*name = "):
        build_environment("nameless.py:Own")
    (tmp_path / "optionless.py").write_text(source.replace("self, options", "self"))
    with pytest.raises(UserError, match=r"\(optionless.py, line 2\).*__init__\(self, options\)"):
        build_environment("optionless.py:Own")


def test_rewards_are_numbers_of_any_kind_and_nothing_else() -> None:
    np = pytest.importorskip("numpy")
    said = pr.Message(role="user", content="on")
    paid = pr.Observation(message=said, reward=np.float32(0.5)).reward
    assert type(paid) is float
    assert pr.Outcome(success=True, turn_rewards=(np.int64(2), 1)).turn_rewards == (2.0, 1.0)
    for wrong in ("1.0", [1.0]):
        with pytest.raises(TypeError, match="which is no number"):
            pr.Observation(message=said, reward=wrong)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="which is no number"):
            pr.Outcome(success=True, turn_rewards=(wrong,))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"message is 'on', not a practicum.Message"):
        pr.Observation(message="on")  # type: ignore[arg-type]
