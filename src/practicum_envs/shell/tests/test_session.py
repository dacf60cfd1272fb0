import asyncio

import pytest

from practicum.core.command import CommandResult, CommandStatus
from practicum.core.errors import EnvironmentFailure
from practicum.core.tool_calls import read_tool_call
from practicum.core.trace import ToolCall
from practicum.sandboxes.commands import RanCommand
from practicum_envs.shell.protocol import TOOLS, read_action
from practicum_envs.shell.shell_session import Limits, output_message
from practicum_envs.shell.tests.builders import (
    CHECK,
    REFERENCE,
    SETUP,
    TouchMachines,
    ended,
    make_environment,
    make_task,
    ok,
    play,
    script_in,
)

SOLVE = f"Act: bash\n```bash\n{REFERENCE}\n```"
LOOK = "Act: bash\n```bash\nls\n```"


async def test_an_episode_sets_up_runs_and_checks_and_leaves_no_machine() -> None:
    environment, machines = make_environment()
    seen, outcome = await play(environment, make_task(), [SOLVE, "Act: finish"])
    assert outcome.success is True
    assert [one.terminated for one in seen] == [False, True]
    assert seen[0].message.content == "The output of the OS is empty."
    assert seen[0].reward is None
    ((spec, box),) = machines.opened
    assert spec.profile == "machine"
    assert [script_in(ran) for ran in box.ran] == [SETUP, REFERENCE, CHECK]
    assert [ran.is_judge for ran in box.ran] == [False, False, True]
    assert [ran.cwd for ran in box.ran[:2]] == ["/", "/"]
    assert box.is_closed


async def test_nothing_of_the_checker_is_on_the_machine_before_the_check() -> None:
    environment, machines = make_environment()
    async with environment.open(make_task()) as session:
        await session.act(SOLVE)  # type: ignore[union-attr]
        box = machines.opened[0][1]
        assert all(CHECK not in " ".join(ran.command) for ran in box.ran)
        assert box.files == {}


async def test_evidence_says_what_happened() -> None:
    environment, _ = make_environment()
    _, outcome = await play(environment, make_task(), [LOOK, "Act: finish"])
    assert outcome.evidence == {
        "outcome": "incorrect",
        "status": "completed",
        "reason": "",
        "rounds": 2,
        "answer": None,
        "command_exit_codes": [0],
        "checker_exit_codes": [1],
        "checks": [],
        "sandbox": "fake",
    }


async def test_a_turn_in_no_known_form_ends_the_episode_which_is_checked_all_the_same() -> None:
    environment, _ = make_environment()
    seen, outcome = await play(environment, make_task(), [SOLVE, "I am done."])
    assert seen[-1].terminated
    assert outcome.success is True
    assert outcome.evidence["status"] == "agent_validation_failed"
    assert outcome.evidence["reason"] == "there is no line with Act: in it"


@pytest.mark.parametrize("source", ["generated", "office", "agent_bench"])
async def test_commands_with_a_finish_behind_them_are_run_and_seen(source: str) -> None:
    environment, machines = make_environment()
    task = make_task(source=source, check={"kind": "match", "answer": "7"})
    seen, _ = await play(environment, task, [f"{SOLVE}\nAct: finish"])
    is_run = source != "agent_bench"  # whose last Act counts, as in its own loop
    assert seen[0].terminated is not is_run
    assert (REFERENCE in [script_in(ran) for ran in machines.opened[0][1].ran]) is is_run


async def test_the_last_round_is_carried_out_and_ends_the_episode() -> None:
    environment, _ = make_environment(rounds=2)
    seen, outcome = await play(environment, make_task(), [LOOK, SOLVE])
    assert [one.terminated for one in seen] == [False, True]
    assert outcome.success is True
    assert outcome.evidence["status"] == "task_limit_reached"


async def test_no_turn_is_taken_after_the_end() -> None:
    environment, _ = make_environment()
    async with environment.open(make_task()) as session:
        await session.act("Act: finish")  # type: ignore[union-attr]
        with pytest.raises(RuntimeError, match="over"):
            await session.act(LOOK)  # type: ignore[union-attr]


async def test_a_check_counts_once_and_ends_the_work() -> None:
    environment, machines = make_environment()
    async with environment.open(make_task()) as session:
        first = await session.outcome()
        assert await session.outcome() == first
        with pytest.raises(RuntimeError, match="over"):
            await session.act(SOLVE)  # type: ignore[union-attr]
    assert sum(ran.is_judge for ran in machines.opened[0][1].ran) == 1


@pytest.mark.parametrize(
    "broken",
    [ok(exit_code=1), ended(CommandStatus.TIMEOUT), ended(CommandStatus.OOM)],
    ids=["exit", "timeout", "oom"],
)
async def test_a_set_up_that_fails_is_the_environments_fault(broken: CommandResult) -> None:
    machines = TouchMachines(lambda ran: broken if script_in(ran) == SETUP else None)
    environment, _ = make_environment(machines)
    with pytest.raises(EnvironmentFailure, match="could not be set up"):
        await play(environment, make_task(), [])
    assert machines.opened[0][1].is_closed


BREAK = "Act: bash\n```bash\nrm -rf /bin\n```"


@pytest.mark.parametrize("protocol", ["text", "tools"])
@pytest.mark.parametrize("status", [CommandStatus.DENIED, CommandStatus.BROKEN])
async def test_a_machine_that_the_policy_broke_is_its_own_failure(
    status: CommandStatus, protocol: str
) -> None:
    machines = TouchMachines(lambda ran: ended(status) if script_in(ran) == "ls" else None)
    environment, _ = make_environment(machines, protocol=protocol)
    async with environment.open(make_task()) as session:
        for script in (REFERENCE, "rm -rf /bin", "ls"):
            if protocol == "text":
                seen = await session.act(environment.turn_from_line(script))  # type: ignore[union-attr]
            else:
                call = ToolCall(name="bash", arguments={"script": script})
                seen = await session.call(call)  # type: ignore[union-attr]
        assert seen.terminated
        assert "the machine runs no commands any more" in seen.message.content
        outcome = await session.outcome()
    assert outcome.success is False
    assert outcome.evidence["status"] == "agent_broke_machine"
    assert not any(ran.is_judge for ran in machines.opened[0][1].ran)


async def test_a_machine_that_is_found_broken_by_the_checker_is_the_policys_failure() -> None:
    for kind in ("script", "state"):
        machines = TouchMachines(lambda ran: ended(CommandStatus.BROKEN) if ran.is_judge else None)
        environment, _ = make_environment(machines)
        check = {"script": CHECK} if kind == "script" else {"assertions": []}
        task = make_task(check={"kind": kind, **check})
        _, outcome = await play(environment, task, [BREAK, "Act: finish"])
        assert outcome.success is False


async def test_a_machine_that_died_after_the_policy_worked_is_the_environments_fault() -> None:
    machines = TouchMachines(
        lambda ran: ended(CommandStatus.DIED) if script_in(ran) == "ls" else None
    )
    environment, _ = make_environment(machines)
    with pytest.raises(EnvironmentFailure, match=r"gone.*died"):
        await play(environment, make_task(), [SOLVE, LOOK])


@pytest.mark.parametrize("status", [CommandStatus.DIED, CommandStatus.DENIED])
async def test_a_machine_that_is_gone_at_the_first_command_is_the_environments_fault(
    status: CommandStatus,
) -> None:
    machines = TouchMachines(lambda ran: ended(status) if script_in(ran) == "ls" else None)
    environment, _ = make_environment(machines)
    with pytest.raises(EnvironmentFailure, match=f"gone.*{status.value}"):
        await play(environment, make_task(), [LOOK])
    assert machines.opened[0][1].is_closed


async def test_a_command_that_fails_is_only_shown() -> None:
    def instead(ran: RanCommand) -> CommandResult | None:
        return ended(CommandStatus.TIMEOUT, "half") if script_in(ran) == "ls" else None

    environment, _ = make_environment(TouchMachines(instead), command_timeout_s=3)
    seen, outcome = await play(environment, make_task(), [LOOK, SOLVE])
    assert "half\n[stopped: it was still running after 3 seconds]" in seen[0].message.content
    assert outcome.evidence["command_exit_codes"] == [None, 0]
    assert outcome.success is True


async def test_a_cancelled_episode_closes_its_machine() -> None:
    environment, machines = make_environment()
    begun = asyncio.Event()

    async def wait() -> None:
        async with environment.open(make_task()):
            begun.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(wait())
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert machines.opened[0][1].is_closed


LIMITS = Limits(output_chars=10, command_timeout_s=20)


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (ok("hi\n"), "The output of the OS:\n\nhi"),
        (ok("\n"), "The output of the OS is empty."),
        (
            ok("0123456789abc"),
            "The output of the OS:\n\n0123456789\n[cut: only the first 10 characters are shown]",
        ),
        (
            CommandResult(
                status=CommandStatus.TRUNCATED, exit_code=0, stdout="ab", output_bytes=9000
            ),
            "The output of the OS:\n\nab\n[cut: 9000 bytes were printed]",
        ),
        (
            ended(CommandStatus.OOM),
            "The output of the OS:\n\n[stopped: it used more memory than the machine has]",
        ),
        (ended(CommandStatus.KILLED), "The output of the OS:\n\n[stopped: it was killed]"),
    ],
    ids=["plain", "empty", "long", "truncated", "oom", "killed"],
)
def test_what_is_shown_of_a_command(result: CommandResult, shown: str) -> None:
    assert output_message(result, LIMITS) == shown


async def test_tools_do_what_the_text_protocol_does() -> None:
    environment, machines = make_environment(protocol="tools")
    async with environment.open(make_task()) as session:
        assert [tool.name for tool in session.tools()] == ["bash", "finish", "answer"]  # type: ignore[union-attr]
        call = ToolCall(name="bash", arguments={"script": REFERENCE})
        seen = await session.call(call)  # type: ignore[union-attr]
        assert (seen.message.role, seen.terminated) == ("tool", False)
        assert (await session.call(ToolCall(name="finish"))).terminated  # type: ignore[union-attr]
        assert (await session.outcome()).success is True
    assert machines.opened[0][1].is_closed


async def test_an_answer_by_tool_is_checked() -> None:
    environment, _ = make_environment(protocol="tools")
    task = make_task(check={"kind": "match", "answer": "7", "strip": True})
    for given, success in (("7 ", True), ("8", False)):
        async with environment.open(task) as session:
            await session.call(ToolCall(name="answer", arguments={"answer": given}))  # type: ignore[union-attr]
            assert (await session.outcome()).success is success


async def test_the_prompt_says_how_to_act_and_what_to_do() -> None:
    environment, _ = make_environment(rounds=4)
    async with environment.open(make_task()) as session:
        rules, task = session.prompt()
    assert "Act: bash" in rules.content
    assert "4 turns" in rules.content
    assert "answer(" not in rules.content
    assert task.content == "Make /a/b."
    async with environment.open(make_task(check={"kind": "match", "answer": "7"})) as session:
        assert "Act: answer(42)" in session.prompt()[0].content


@pytest.mark.parametrize("protocol", ["text", "tools"])
async def test_an_example_shows_the_form_before_the_task(protocol: str) -> None:
    environment, _ = make_environment(protocol=protocol, example=True)
    async with environment.open(make_task()) as session:
        shown = session.prompt()
    answers = "user" if protocol == "text" else "tool"
    roles = ["system", "user", "assistant", answers, "assistant", "user"]
    assert [message.role for message in shown] == roles
    assert shown[-1].content == "Make /a/b."
    read = [
        read_action(message.content).kind
        if protocol == "text"
        else read_tool_call(message.content, TOOLS).name
        for message in shown
        if message.role == "assistant"
    ]
    assert read == ["bash", "finish"]


async def test_what_no_program_can_be_given_is_left_out_of_a_script() -> None:
    environment, machines = make_environment()
    await play(environment, make_task(), ["Act: bash\n```bash\necho a\0b \ud800\n```"])
    assert script_in(machines.opened[0][1].ran[1]) == "echo ab ?"


async def test_a_script_that_is_too_long_for_a_shell_is_answered_and_not_masked() -> None:
    environment, machines = make_environment()
    turn = environment.turn_from_line("x" * 200_000)
    seen, outcome = await play(environment, make_task(), [turn, "Act: finish"])
    assert "Argument list too long" in seen[0].message.content
    assert outcome.success is False
    assert outcome.evidence["command_exit_codes"] == [126]
    assert [script_in(ran) for ran in machines.opened[0][1].ran] == [SETUP, CHECK]


@pytest.mark.parametrize(
    "answer", ["\ud800", "a\0b", "7" * 40_000_000], ids=["half", "NUL", "long"]
)
async def test_no_answer_is_too_odd_to_be_wrong(answer: str) -> None:
    environment, _ = make_environment(protocol="tools")
    task = make_task(check={"kind": "chain", "scripts": [CHECK]})
    async with environment.open(task) as session:
        call = ToolCall(name="answer", arguments={"answer": answer})
        await session.call(call)  # type: ignore[union-attr]
        outcome = await session.outcome()
    assert outcome.success is False
    assert str(outcome.evidence["answer"]).encode()
