"""The whole of TheAgentCompany, where `PRACTICUM_TAC` names a checkout of it.

`PRACTICUM_TAC_CLONES` may name a folder of clones: two references need one of sotopia.
Takes about an hour; the graders' packages are installed with the first run.
"""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine
from tests.integration.scripted_endpoint import KEY, says, scripted

from practicum.core.errors import EnvironmentFailure
from practicum.environments.reference_policies import ScriptActor, play_episode
from practicum.sandboxes.opening import unchecked_sandboxes
from practicum_envs.agent_company.agent_company_environment import (
    AgentCompanyEnvironment,
    AgentCompanyOptions,
)
from practicum_envs.agent_company.reference_plans import PLANS
from practicum_envs.agent_company.verdicts import WRONG_GRADERS
from practicum_envs.office.families.bash import post
from practicum_envs.shell.protocol import bash_turn

CHECKOUT = os.environ.get("PRACTICUM_TAC", "")
CLONES = os.environ.get("PRACTICUM_TAC_CLONES", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHECKOUT, reason="set PRACTICUM_TAC to a checkout of TheAgentCompany"),
]


@pytest.fixture(autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


@asynccontextmanager
async def opened(repo: str = CHECKOUT, **options: Any) -> AsyncIterator[AgentCompanyEnvironment]:
    made = AgentCompanyEnvironment(AgentCompanyOptions(repo=repo, **options))
    made.use_sandboxes(lambda kind: unchecked_sandboxes("bubblewrap", print))
    try:
        yield made
    finally:
        await made.close()


def test_all_tasks_have_a_verdict() -> None:
    environment = AgentCompanyEnvironment(AgentCompanyOptions(repo=CHECKOUT))
    found = environment.verdicts()
    assert len(found) == 175
    assert sum(not one.missing for one in found) >= 30


async def test_the_official_graders_execute() -> None:
    async with opened() as environment:
        failed: dict[str, str] = {}
        for one in environment.verdicts():
            try:
                await play_episode(environment, one.task, ScriptActor(()))
            except EnvironmentFailure as failure:
                failed[one.task.id] = str(failure)
        runnable = {task.id for task in environment.every_task()}
    assert not runnable & set(failed), failed
    assert len(failed) <= 30, failed


@pytest.mark.parametrize("name", sorted(PLANS))
async def test_reference_play_gets_full_marks(name: str) -> None:
    async with opened(repositories=CLONES) as environment:
        task = environment.find(name)
        if task not in environment.every_task():
            pytest.skip("it needs what the checkout has not; see its verdict")
        turns = environment.reference(task)
        played = await play_episode(environment, task, ScriptActor(turns), len(turns))
    assert played.outcome.success is True, played.outcome.evidence["checks"]


@pytest.mark.parametrize(
    ("name", "turns", "points"),
    [
        (
            "admin-arrange-meeting-rooms",
            f"echo 5 > ans.txt\n{post('@chen_xinyi', 'We need 5 rooms.')}",
            [0, 2],
        ),
        (
            "finance-substantial-presence-test",
            post("@huang_jie", "You were in the U.S. on 306 days of 2023."),
            [1, 2],
        ),
    ],
)
async def test_a_correct_solution_gets_what_is_said_of_graders_that_are_wrong(
    name: str, turns: str, points: list[int]
) -> None:
    assert name in WRONG_GRADERS
    async with opened() as environment:
        task = environment.find(name)
        played = await play_episode(environment, task, ScriptActor([bash_turn(turns, "text")]), 1)
    found = played.outcome.evidence["official"]["final_score"]
    assert [found["result"], found["total"]] == points


async def test_every_helper_function_of_the_benchmark_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its common.py, unchanged, called by a grader of ours in a task beside the benchmark's own."""
    copy = tmp_path / "checkout"
    shutil.copytree(CHECKOUT, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    task = copy / "workspaces/tasks/admin-every-helper"
    task.mkdir()
    services = ("rocketchat", "gitlab", "owncloud", "plane")
    files = {
        "task.md": "Try everything at http://the-agent-company.com:3000/home",
        "checkpoints.md": "One for each function.",
        "dependencies.yml": "".join(f"- {one}\n" for one in services),
        "Dockerfile": "FROM ghcr.io/theagentcompany/task-base-image:1.0.0\n",
        "evaluator.py": Path(__file__).with_name("every_helper.txt").read_text(),
    }
    for name, text in files.items():
        (task / name).write_text(text)
    monkeypatch.setenv("JUDGE", KEY)
    with scripted([lambda asked: says("no" if "indicate time" in str(asked) else "yes")]) as judge:
        own = {"judge_endpoint": judge.url, "judge_model": "m", "judge_key_env": "JUDGE"}
        async with (
            opened(str(copy), **own) as environment,
            environment.open(environment.find(task.name)) as session,
        ):
            outcome = await session.outcome()
            failed = await session._episode.box.read("/workspace/failed.json", 10_000)
    assert failed == b"[]"
    assert outcome.success is True
    assert len(outcome.evidence["checks"]) == 32
