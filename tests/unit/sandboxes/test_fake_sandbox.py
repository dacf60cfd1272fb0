import pytest

from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.interfaces import Sandbox, Sandboxes
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandbox, FakeSandboxes


def refuse(ran: RanCommand) -> CommandResult:
    return CommandResult(status=CommandStatus.DENIED, exit_code=None, stderr=" ".join(ran.command))


async def test_it_answers_and_remembers_what_it_was_asked() -> None:
    box: Sandbox = FakeSandbox(refuse)
    result = await box.run(["rm", "-r", "/"], timeout_s=2.0, stdin=b"y", environment={"A": "1"})
    assert (result.status, result.stderr) == ("denied", "rm -r /")
    assert box.ran == [
        RanCommand(command=("rm", "-r", "/"), stdin=b"y", timeout_s=2.0, environment={"A": "1"})
    ]


async def test_files_written_can_be_read_and_others_are_missing() -> None:
    box = FakeSandbox(refuse, files={"/a": b"1"})
    await box.write("/b", b"2")
    assert (await box.read("/a"), await box.read("/b")) == (b"1", b"2")
    with pytest.raises(FileNotFoundError, match="/c"):
        await box.read("/c")
    with pytest.raises(ValueError, match="longer than 0"):
        await box.read("/a", limit=0)


async def test_a_checker_is_told_apart_from_a_command() -> None:
    box: Sandbox = FakeSandbox(refuse)
    await box.judge(["test", "-e", "/a"], timeout_s=1)
    assert isinstance(box, FakeSandbox)
    assert [ran.is_judge for ran in box.ran] == [True]


async def test_closing_the_maker_closes_every_sandbox() -> None:
    maker = FakeSandboxes(refuse)
    makes: Sandboxes = maker
    box = await makes.open(SandboxSpec(profile="machine"))
    await makes.close()
    assert (makes.kind, box.kind) == ("fake", "fake")
    assert [(spec.profile, made.is_closed) for spec, made in maker.opened] == [("machine", True)]


async def test_nothing_works_once_it_is_closed() -> None:
    box = FakeSandbox(refuse)
    await box.close()
    with pytest.raises(RuntimeError, match="closed"):
        await box.run(["true"], timeout_s=1)
    with pytest.raises(RuntimeError, match="closed"):
        await box.write("/a", b"")
