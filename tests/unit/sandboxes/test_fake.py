import pytest

from practicum.core.interfaces import CommandResult, Sandbox
from practicum.sandboxes import FakeSandbox, RanCommand


def refuse(ran: RanCommand) -> CommandResult:
    return CommandResult(status="denied", exit_code=None, stderr=" ".join(ran.command))


async def test_it_answers_and_remembers_what_it_was_asked() -> None:
    box: Sandbox = FakeSandbox(refuse)
    result = await box.run(["rm", "-r", "/"], timeout_s=2.0, stdin="y", environment={"A": "1"})
    assert (result.status, result.stderr) == ("denied", "rm -r /")
    assert box.ran == [
        RanCommand(command=("rm", "-r", "/"), stdin="y", timeout_s=2.0, environment={"A": "1"})
    ]


async def test_files_written_can_be_read_and_others_are_missing() -> None:
    box = FakeSandbox(refuse, files={"/a": b"1"})
    await box.write("/b", b"2")
    assert (await box.read("/a"), await box.read("/b")) == (b"1", b"2")
    with pytest.raises(FileNotFoundError, match="/c"):
        await box.read("/c")


async def test_nothing_works_once_it_is_closed() -> None:
    box = FakeSandbox(refuse)
    await box.close()
    with pytest.raises(RuntimeError, match="closed"):
        await box.run(["true"], timeout_s=1)
    with pytest.raises(RuntimeError, match="closed"):
        await box.write("/a", b"")
