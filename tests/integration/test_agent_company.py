"""Episodes of a small benchmark in TheAgentCompany's format, graded by its own graders."""

import json
import random
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine
from tests.integration.scripted_endpoint import KEY, says, scripted

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.opening import unchecked_sandboxes
from practicum_envs.agent_company import official_grading
from practicum_envs.agent_company.agent_company_environment import (
    AgentCompanyEnvironment,
    AgentCompanyOptions,
)
from practicum_envs.agent_company.tests.tiny_benchmark import write_benchmark
from practicum_envs.office.checkout_company import company_from_checkout
from practicum_envs.office.companies import Companies, OpenCompany
from practicum_envs.office.services.all_services import PORTS
from practicum_envs.shell.protocol import bash_turn

pytestmark = pytest.mark.slow
SAY = "office rocketchat POST chat.postMessage channel='#general' text='good morning'"


SHOWN = "def grade_checkpoints(trajectory=''):\n    return Result([(2, shown_here.POINTS)])\n"


@pytest.fixture(autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    return write_benchmark(tmp_path / "benchmark")


@asynccontextmanager
async def opened(benchmark: Path, **options: Any) -> AsyncIterator[AgentCompanyEnvironment]:
    made = AgentCompanyEnvironment(AgentCompanyOptions(repo=str(benchmark), **options))
    made.use_sandboxes(lambda kind: unchecked_sandboxes("bubblewrap", print))
    try:
        yield made
    finally:
        await made.close()


async def played(environment: AgentCompanyEnvironment, name: str, *scripts: str) -> Any:
    """The evidence after some turns, and what the last of them showed."""
    shown = ""
    async with environment.open(environment.find(name)) as session:
        for script in scripts:
            observation = await session.act(bash_turn(script, "text"))
            shown = str(observation.message.content)
        outcome = await session.outcome()
    return outcome, shown


def points(outcome: Any) -> tuple[list[int], dict[str, int]]:
    official = outcome.evidence["official"]
    return [one["result"] for one in official["checkpoints"]], official["final_score"]


async def test_a_task_is_initialised_in_order_and_hides_what_graders_need(benchmark: Path) -> None:
    async with opened(benchmark) as environment:
        look = "cat order.txt /instruction/task.md; ls /utils /npc; find / -xdev -name 'evaluator*'"
        _, shown = await played(environment, "pm-greet", f"({look}) 2>&1; true")
    assert "pre_init\npopulate_data\npost_init\nSay the word" in shown
    assert "cannot access '/utils'" in shown
    assert "cannot access '/npc'" in shown
    assert "evaluator" not in shown


async def test_doing_nothing_gets_what_the_grader_gives(benchmark: Path) -> None:
    async with opened(benchmark) as environment:
        outcome, _ = await played(environment, "pm-greet")
    assert points(outcome) == ([0, 1, 0], {"total": 4, "result": 1})
    assert outcome.success is False


async def test_a_task_that_is_done_gets_its_bonus_and_a_result_for_the_leaderboard(
    benchmark: Path, tmp_path: Path
) -> None:
    async with opened(benchmark, results=str(tmp_path / "results")) as environment:
        outcome, _ = await played(environment, "pm-greet", SAY)
    assert points(outcome) == ([0, 1, 2], {"total": 4, "result": 4})
    assert outcome.success is True
    assert outcome.evidence["s_score"] == 1.0
    written = json.loads((tmp_path / "results/eval_pm-greet.json").read_text())
    assert written == outcome.evidence["official"]
    assert outcome.evidence["stand_ins"] == []
    events = json.loads((tmp_path / "results/traj_pm-greet.json").read_text())
    assert [one["id"] for one in events] == [0, 1, 2]
    assert "chat.postMessage" in events[1]["args"]["command"]


async def test_a_result_that_rests_on_stand_ins_is_marked_where_it_is_kept(
    benchmark: Path, tmp_path: Path
) -> None:
    own = {"judge_endpoint": "http://h/v1", "judge_model": "m"}
    async with opened(benchmark, results=str(tmp_path / "results"), **own) as environment:
        outcome, _ = await played(environment, "admin-ask")
    written = json.loads((tmp_path / "results/eval_admin-ask.json").read_text())
    assert written["not_comparable"] == outcome.evidence["stand_ins"] == ["scripted colleagues"]
    assert written["final_score"] == outcome.evidence["official"]["final_score"]


async def test_what_an_agent_visits_is_in_the_trajectory_and_the_tasks_text_is_not(
    benchmark: Path,
) -> None:
    async with opened(benchmark) as environment:
        page = "office page http://the-agent-company.com:3000/channel/general"
        outcome, _ = await played(environment, "pm-greet", page)
    assert points(outcome) == ([1, 1, 0], {"total": 4, "result": 2})


async def test_files_that_an_agent_plants_change_no_grade(benchmark: Path) -> None:
    fake = "def grade_checkpoints(trajectory=''):\n    raise SystemExit"
    plant = (
        "mkdir -p /utils; for F in evaluator eval scoring common sitecustomize usercustomize; do "
        f'printf "{fake}" | tee /utils/$F.py > /workspace/$F.py; done; '
        "cp /bin/true /usr/bin/python3; ln -sf /dev/null /utils/result; "
        "echo 127.0.0.9 the-agent-company.com > /etc/hosts"
    )
    async with opened(benchmark) as environment:
        outcome, _ = await played(environment, "pm-greet", SAY, plant)
    assert points(outcome) == ([0, 1, 2], {"total": 4, "result": 4})


async def test_the_graders_packages_are_seen_and_cannot_be_changed(benchmark: Path) -> None:
    grader = benchmark / "workspaces/tasks/pm-greet/evaluator.py"
    grader.write_text("import shown_here\nfrom scoring import Result\n" + SHOWN)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # one that sandboxes can enter
        Path(folder).chmod(0o755)
        (Path(folder) / "shown_here.py").write_text("POINTS = 1\n")
        async with opened(benchmark, packages=folder) as environment:
            spoil = "echo POINTS = 2 > /graders/shown_here.py; mv /graders /other; umount /graders"
            use = "python3 -c 'import shown_here; print(shown_here.__file__)'"
            outcome, shown = await played(environment, "pm-greet", f"{spoil}; {use}")
    assert "/graders/shown_here.py" in shown
    assert points(outcome) == ([1], {"total": 2, "result": 1})


async def test_a_grader_that_the_agent_locked_out_gives_no_points(benchmark: Path) -> None:
    lock = 'office rocketchat POST users.updateOwnBasicInfo data:=\'{"newPassword": "mine"}\''
    async with opened(benchmark) as environment:
        outcome, _ = await played(environment, "pm-greet", SAY, lock)
    assert points(outcome) == ([0, 0, 0], {"total": 4, "result": 0})


async def test_a_grader_that_fails_by_itself_masks_the_episode(benchmark: Path) -> None:
    (benchmark / "workspaces/tasks/pm-greet/evaluator.py").write_text("raise ValueError('broken')")
    async with opened(benchmark) as environment:
        with pytest.raises(EnvironmentFailure, match="the grader failed: ValueError: broken"):
            await played(environment, "pm-greet", SAY)


async def test_a_grader_that_hangs_masks_the_episode(
    benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official_grading, "GRADING_S", 3.0)
    grader = benchmark / "workspaces/tasks/pm-greet/evaluator.py"
    grader.write_text("import time\nwhile True:\n    time.sleep(1)\n")
    async with opened(benchmark) as environment:
        with pytest.raises(EnvironmentFailure, match="the grader did not end in 3 s"):
            await played(environment, "pm-greet", SAY)


async def test_a_grader_that_the_agent_hangs_gives_no_points(
    benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(official_grading, "GRADING_S", 8.0)
    async with opened(benchmark) as environment:
        hang = "rm -f /workspace/kept.txt; mkfifo /workspace/kept.txt"
        outcome, _ = await played(environment, "pm-greet", SAY, hang)
    assert points(outcome) == ([0, 0, 0], {"total": 4, "result": 0})


async def test_a_script_of_the_task_that_fails_is_named(benchmark: Path) -> None:
    path = benchmark / "workspaces/tasks/pm-greet/populate_data.py"
    path.write_text("raise ValueError('no issue')")
    async with opened(benchmark) as environment:
        with pytest.raises(EnvironmentFailure, match=r"populate_data\.py failed: .*no issue"):
            await played(environment, "pm-greet")


async def test_a_colleague_answers_and_a_judge_is_asked(
    benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE", KEY)
    ask = "office rocketchat POST chat.postMessage channel=@ann_lee text='Your locker number?'"
    with scripted([says("yes")]) as judge:
        own = {"judge_endpoint": judge.url, "judge_model": "m", "judge_key_env": "JUDGE"}
        async with opened(benchmark, **own) as environment:
            outcome, _ = await played(environment, "admin-ask", ask)
    assert points(outcome) == ([1, 1], {"total": 2, "result": 2})
    assert judge.requests[0]["model"] == "openai/m"


async def test_a_judge_that_fails_masks_the_episode(
    benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE", KEY)
    ask = "office rocketchat POST chat.postMessage channel=@ann_lee text='Your locker number?'"
    with scripted([500]) as judge:
        own = {"judge_endpoint": judge.url, "judge_model": "m", "judge_key_env": "JUDGE"}
        async with opened(benchmark, **own) as environment:
            with pytest.raises(EnvironmentFailure, match="answered 500"):
                await played(environment, "admin-ask", ask)


@contextmanager
def servers(benchmark: Path) -> Iterator[tuple[str, OpenCompany]]:
    """A host with all services at their real ports: a loopback address of its own, no sandbox."""
    host = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.1"
    companies = Companies()
    listeners = [socket.create_server((host, port)) for port in PORTS]
    company = companies.open_now(company_from_checkout(benchmark), listeners)
    try:
        yield host, company
    finally:
        company.close()
        companies.close()


async def test_servers_of_a_host_are_reset_worked_on_and_graded(benchmark: Path) -> None:
    reset = "curl -sf -X POST http://the-agent-company.com:2999/api/reset-rocketchat\n"
    (benchmark / "workspaces/base_image/reset.sh").write_text(reset)
    with servers(benchmark) as (host, company):
        async with opened(benchmark, server_hostname=host) as environment:
            done, _ = await played(environment, "pm-greet", SAY)
            said = [one["msg"] for one in company.office.messages("general")]
            idle, _ = await played(environment, "pm-greet")
            left = [one["msg"] for one in company.office.messages("general")]
    assert points(done) == ([0, 1, 2], {"total": 4, "result": 4})
    assert "good morning" in said
    assert points(idle) == ([0, 1, 0], {"total": 4, "result": 1})
    assert "good morning" not in left


async def test_servers_that_do_not_answer_are_a_failure_and_at_first_the_users_mistake(
    benchmark: Path,
) -> None:
    with servers(benchmark) as (host, company):
        async with (
            opened(benchmark, server_hostname=host) as environment,
            environment.open(environment.find("pm-greet")) as session,
        ):
            company.close()
            with suppress(ConnectionError):  # until its process has ended
                while True:
                    socket.create_connection((host, PORTS[0])).close()
            with pytest.raises(EnvironmentFailure, match=f"nothing answers at {host}:"):
                await session.outcome()
        async with opened(benchmark, server_hostname=host) as environment:
            with pytest.raises(UserError, match=r"nothing answers at .*leave the option out"):
                await played(environment, "pm-greet")
