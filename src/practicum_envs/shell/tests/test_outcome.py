import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.interfaces import Sandbox
from practicum.core.task import JSON
from practicum.sandboxes.commands import RanCommand
from practicum.sandboxes.fake_sandbox import FakeSandbox
from practicum_envs.shell.plan_of_task import Plan
from practicum_envs.shell.shell_session import Checked, Verdict, check_plan
from practicum_envs.shell.tests.builders import ended, make_task, ok

STATE: dict[str, JSON] = {
    "kind": "state",
    "assertions": [{"kind": "absent", "path": "/a"}, {"kind": "absent", "path": "/b"}],
}


async def checked(
    check: dict[str, JSON],
    answer: Callable[[RanCommand], CommandResult],
    given: str | None = None,
    *,
    elsewhere: Callable[[RanCommand], CommandResult] | None = None,
    **data: JSON,
) -> tuple[Checked, FakeSandbox]:
    box = FakeSandbox(answer)
    plan = Plan.of(make_task(check=check, **data))

    @asynccontextmanager
    async def fresh() -> AsyncIterator[Sandbox]:
        yield FakeSandbox(elsewhere or answer)

    return await check_plan(plan, box, given, timeout_s=20, fresh=fresh), box


def nonce_of(ran: RanCommand) -> str:
    """The word that only the checker knows, from the call at the end of its program."""
    assert ran.is_inspection
    return ran.stdin.decode().rpartition("report('")[2].partition("'")[0]


def verdicts(*values: bool) -> Callable[[RanCommand], CommandResult]:
    listed = json.dumps([{"ok": ok_, "why": "" if ok_ else "it is there"} for ok_ in values])
    return lambda ran: ok(f"{nonce_of(ran)} {listed}\n")


@pytest.mark.parametrize(
    ("values", "verdict"),
    [((True, True), Verdict.CORRECT), ((True, False), Verdict.INCORRECT)],
)
async def test_every_assertion_must_hold(values: tuple[bool, ...], verdict: Verdict) -> None:
    found, box = await checked(STATE, verdicts(*values))
    assert found.verdict is verdict
    assert [one["ok"] for one in found.checks] == list(values)
    assert box.ran[0].is_judge
    assert box.ran[0].command[:3] == ("python3", "-I", "-S")


@pytest.mark.parametrize(
    "answer",
    [
        lambda ran: ok(""),
        lambda ran: ok(f"{nonce_of(ran)} [{{'ok': true}}]"),
        lambda ran: ok(f'{nonce_of(ran)} [{{"ok": true}}]'),
        lambda ran: ok('guessed [{"ok": true}, {"ok": true}]'),
        lambda ran: ok(f'{nonce_of(ran)} [{{"ok": true}}, {{"ok": true}}]', exit_code=1),
        lambda ran: ended(CommandStatus.TIMEOUT),
        lambda ran: ended(CommandStatus.KILLED),
    ],
    ids=["silent", "no-json", "one-too-few", "wrong-word", "exit", "timeout", "killed"],
)
async def test_a_checker_that_fails_is_no_verdict(
    answer: Callable[[RanCommand], CommandResult],
) -> None:
    with pytest.raises(EnvironmentFailure, match="the checker"):
        await checked(STATE, answer)


SCRIPT: dict[str, JSON] = {"kind": "script", "script": "test -e /a"}


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(0, Verdict.CORRECT), (1, Verdict.INCORRECT), (127, Verdict.INCORRECT)],
)
async def test_a_script_decides_by_its_exit_code(code: int, verdict: Verdict) -> None:
    found, box = await checked(SCRIPT, lambda ran: ok(exit_code=code))
    assert (found.verdict, found.exit_codes) == (verdict, (code,))
    assert box.ran[0].command == ("bash", "-c", "test -e /a")


async def test_a_script_that_prints_much_decides_all_the_same() -> None:
    result = CommandResult(status=CommandStatus.TRUNCATED, exit_code=0, stdout="...")
    found, _ = await checked(SCRIPT, lambda ran: result)
    assert found.verdict is Verdict.CORRECT


VERDICTS = {CommandStatus.OK, CommandStatus.TRUNCATED, CommandStatus.BROKEN}


@pytest.mark.parametrize("status", sorted(set(CommandStatus) - VERDICTS))
async def test_a_script_that_does_not_end_by_itself_is_no_verdict(status: CommandStatus) -> None:
    with pytest.raises(EnvironmentFailure, match=f"the checker failed .{status.value}"):
        await checked(SCRIPT, lambda ran: ended(status))


STOPPED = sorted(set(CommandStatus) - VERDICTS - {CommandStatus.DIED})


@pytest.mark.parametrize("status", STOPPED)
@pytest.mark.parametrize("code", [0, 1])
async def test_a_checker_that_fails_only_where_the_policy_was_is_the_policys_failure(
    status: CommandStatus, code: int
) -> None:
    found, _ = await checked(
        SCRIPT, lambda ran: ended(status), elsewhere=lambda ran: ok(exit_code=code)
    )
    assert found.verdict is Verdict.INCORRECT
    assert "stopped the checker" in str(found.checks[0]["why"])


async def test_a_checker_that_fails_once_is_asked_again() -> None:
    results = iter([ended(CommandStatus.TIMEOUT), ok(exit_code=0)])
    found, _ = await checked(SCRIPT, lambda ran: next(results))
    assert found.verdict is Verdict.CORRECT


async def test_an_answer_that_stops_the_checker_is_the_policys_failure() -> None:
    def too_long(ran: RanCommand) -> CommandResult:
        is_long = sum(map(len, ran.command)) > 1000
        return ended(CommandStatus.DENIED) if is_long else ok(exit_code=1)

    found, _ = await checked({"kind": "chain", "scripts": ["one"]}, too_long, "7" * 2000)
    assert found.verdict is Verdict.INCORRECT


async def test_a_machine_that_is_gone_is_never_the_policys_failure() -> None:
    with pytest.raises(EnvironmentFailure, match="died"):
        await checked(SCRIPT, lambda ran: ended(CommandStatus.DIED), elsewhere=lambda ran: ok())


@pytest.mark.parametrize(
    ("check", "given", "verdict"),
    [
        ({"answer": "7", "strip": True}, " 7\n", Verdict.CORRECT),
        ({"answer": "7"}, " 7", Verdict.INCORRECT),
        ({"answer": "7"}, None, Verdict.INCORRECT),
        ({"regex": "^a.c$"}, "abc", Verdict.CORRECT),
        ({"regex": "b"}, "abc", Verdict.CORRECT),
        ({"regex": "^b"}, "abc", Verdict.INCORRECT),
        ({"regex": ".*"}, None, Verdict.INCORRECT),
    ],
)
async def test_an_answer_is_matched(
    check: dict[str, JSON], given: str | None, verdict: Verdict
) -> None:
    found, box = await checked({"kind": "match", **check}, lambda ran: ok(), given)
    assert found.verdict is verdict
    assert box.ran == []


async def test_each_script_of_a_chain_is_given_the_answer_and_what_came_before() -> None:
    """The second stands for the reference; python runs apart from what lies around."""
    chain: list[JSON] = ["one", None, {"language": "python", "code": "two"}]
    printed = iter(["first\n", "7\n", ""])
    found, box = await checked(
        {"kind": "chain", "scripts": chain}, lambda ran: ok(next(printed)), "7", cwd="/srv"
    )
    assert found == Checked(verdict=Verdict.CORRECT, exit_codes=(0, 0, 0))
    start = ("sh", "-c", 'cd "$0" && exec "$@"', "/srv")
    assert [ran.command for ran in box.ran] == [
        (*start, "bash", "-c", "one", "--", "7"),
        (*start, "bash", "-c", "touch /a/b", "--", "7", "first\n"),
        (*start, "python3", "-I", "-c", "two", "7", "first\n", "7\n"),
    ]


async def test_a_chain_ends_at_the_first_script_that_says_no() -> None:
    codes = iter([0, 3])
    check: dict[str, JSON] = {"kind": "chain", "scripts": ["one", "two", "three"]}
    found, box = await checked(check, lambda ran: ok(exit_code=next(codes)))
    assert found == Checked(verdict=Verdict.INCORRECT, exit_codes=(0, 3))
    assert box.ran[0].command[-1] == "None"


@pytest.mark.parametrize(
    ("verdict", "success"),
    [(Verdict.CORRECT, True), (Verdict.INCORRECT, False), (Verdict.UNKNOWN, None)],
)
def test_a_verdict_as_an_outcome_has_it(verdict: Verdict, success: bool | None) -> None:
    assert verdict.success is success
