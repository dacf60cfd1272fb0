"""The self-check finds what a sandbox lets through, and says so."""

import re
import subprocess
from collections.abc import Callable

import pytest

from practicum.core.command import CommandResult, CommandStatus, SandboxSpec
from practicum.core.errors import EnvironmentFailure
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandboxes
from practicum.sandboxes.selfcheck import check_sandboxes

Answer = Callable[[RanCommand], CommandResult]
HOLDS_OUTSIDE = "nobody inside is root outside, system calls are filtered, rights cannot be gained"


def ended(stdout: str = "", code: int | None = 0, status: str = "ok") -> CommandResult:
    return CommandResult(status=CommandStatus(status), exit_code=code, stdout=stdout)


def holding(ran: RanCommand) -> CommandResult:
    """What a sandbox that holds answers."""
    script = ran.command[-1]
    if script == "cat; exit 3":
        return ended("in", 3)
    if "setsid sleep" in script:
        return ended(code=None, status="timeout")
    if "grep -c" in script:
        return ended("0\n")
    if "urandom" in script:
        return ended(code=None, status="oom")
    if "fork" in script:
        return ended("40\n")
    return ended()


def leaking(ran: RanCommand) -> CommandResult:
    """No sandbox at all, for what is harmless; the rest is answered as if nothing stopped it."""
    script = ran.command[-1]
    if ran.command[0] == "bash" and re.search(r"dev/tcp|environ|secret|kill -0", script):
        done = subprocess.run(ran.command, capture_output=True, text=True, check=False)
        return ended(done.stdout, done.returncode)
    if "core_pattern" in script:
        return ended("/proc/sys/kernel/core_pattern\n")
    if "fork" in script:
        return ended("300\n")
    return ended("1\n")


async def broken(answer: Answer) -> set[str]:
    found = await check_sandboxes(FakeSandboxes(answer), "code")
    assert len(found) == 11
    return {finding.claim for finding in found if not finding.holds}


async def test_a_sandbox_that_holds_passes_but_for_what_the_host_must_see() -> None:
    """A fake starts no process, so that the host sees none without rights."""
    assert await broken(holding) == {HOLDS_OUTSIDE}


async def test_every_leak_is_found() -> None:
    found = await check_sandboxes(FakeSandboxes(leaking), "code")
    assert [finding.claim for finding in found if finding.holds] == ["a sandbox can be opened"]
    assert all(finding.seen for finding in found if not finding.holds)


@pytest.mark.parametrize(
    ("mark", "answer", "claim"),
    [
        ("cat; exit 3", ended("in", 0), "commands run"),
        ("core_pattern", ended("/proc/sysrq-trigger\n"), "kernel settings cannot be written"),
        ("grep -c", ended("1\n"), "a timeout ends a command and all it started"),
        ("urandom", ended("", 0), "memory is limited"),
        ("fork", ended("97\n"), "processes are limited"),
        ("kill -0", ended("reached\n"), "the host's processes are out of reach"),
    ],
)
async def test_each_finding_hangs_on_its_own_probe(
    mark: str, answer: CommandResult, claim: str
) -> None:
    def one_leak(ran: RanCommand) -> CommandResult:
        return answer if mark in ran.command[-1] else holding(ran)

    assert await broken(one_leak) == {HOLDS_OUTSIDE, claim}


@pytest.mark.parametrize(
    "mark", ["cat; exit 3", "dev/tcp", "environ", "kill -0", "core_pattern", "grep -c", "fork"]
)
async def test_a_command_that_does_not_end_shows_nothing_and_ends_the_check(mark: str) -> None:
    def one_hangs(ran: RanCommand) -> CommandResult:
        hangs = mark in ran.command[-1]
        return ended(code=None, status="timeout") if hangs else holding(ran)

    *before, last = await check_sandboxes(FakeSandboxes(one_hangs), "code")
    assert (last.claim, last.holds) == ("commands end", False)
    assert "too busy to tell" in last.seen
    assert all(finding.holds for finding in before if finding.claim != HOLDS_OUTSIDE)


async def test_memory_that_is_not_reached_in_time_is_not_said_to_be_unlimited() -> None:
    def slow(ran: RanCommand) -> CommandResult:
        is_slow = "urandom" in ran.command[-1]
        return ended(code=None, status="timeout") if is_slow else holding(ran)

    found = await check_sandboxes(FakeSandboxes(slow), "code")
    assert "memory is limited" not in {finding.claim for finding in found}
    assert not found[-1].holds


async def test_a_sandbox_that_cannot_be_opened_does_not_hold() -> None:
    class Unopened(FakeSandboxes):
        async def open(self, spec: SandboxSpec) -> "object":  # type: ignore[override]
            raise EnvironmentFailure("no room")

    (found,) = await check_sandboxes(Unopened(holding), "code")  # type: ignore[arg-type]
    assert (found.holds, found.seen) == (False, "no room")
