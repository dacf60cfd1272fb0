"""A kind of sandbox is tried out before it is used."""

import asyncio
from typing import Any

import pytest

from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.errors import ConfigError, UserError
from practicum.sandboxes import opening
from practicum.sandboxes.fake_sandbox import FakeSandboxes
from practicum.sandboxes.opening import CheckedSandboxes, open_sandboxes
from practicum.sandboxes.selfcheck import Finding

ANSWER = CommandResult(status=CommandStatus.OK, exit_code=0)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The profiles that are tried out; each trial takes a while and holds."""
    profiles: list[str] = []

    async def try_out(sandboxes: Any, profile: str) -> list[Finding]:
        profiles.append(profile)
        await asyncio.sleep(0.01)
        return []

    monkeypatch.setattr(opening, "check_sandboxes", try_out)
    return profiles


async def test_many_that_ask_at_once_wait_for_one_trial(tried: list[str]) -> None:
    made = FakeSandboxes(lambda ran: ANSWER)
    sandboxes = CheckedSandboxes(made)
    await asyncio.gather(*(sandboxes.open(SandboxSpec(profile="machine")) for _ in range(5)))
    await sandboxes.open(SandboxSpec(profile="code"))
    assert tried == ["machine", "code"]
    assert len(made.opened) == 6


async def test_a_kind_that_does_not_hold_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def try_out(sandboxes: Any, profile: str) -> list[Finding]:
        return [Finding(claim="no network", holds=False, seen="it answered")]

    monkeypatch.setattr(opening, "check_sandboxes", try_out)
    made = FakeSandboxes(lambda ran: ANSWER)
    with pytest.raises(UserError, match=r"does not hold here.*no network: it answered"):
        await CheckedSandboxes(made).open(SandboxSpec())
    assert made.opened == []


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match="'jail'; there are auto, bubblewrap"):
        open_sandboxes("jail")


async def test_an_image_is_not_played_in_a_sandbox_that_has_none() -> None:
    sandboxes = CheckedSandboxes(FakeSandboxes(lambda ran: ANSWER))
    with pytest.raises(UserError, match=r"plays no image; write env\.sandbox=docker"):
        await sandboxes.open(SandboxSpec(profile="machine", image="i"))
