"""Task images of a small benchmark, with a real podman: see `tests/unit/sandboxes/test_podman.py`.

PRACTICUM_TEST_PODMAN_IMAGE is what the images are made of; it needs bash, curl, python3 and tar.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.scripted_endpoint import KEY, says, scripted
from tests.integration.test_agent_company import SAY, played, points, servers

from practicum.core.errors import EnvironmentFailure, UserError
from practicum.sandboxes.containers import ContainerSandboxes
from practicum.sandboxes.opening import CheckedSandboxes
from practicum_envs.agent_company.agent_company_environment import (
    AgentCompanyEnvironment,
    AgentCompanyOptions,
)
from practicum_envs.agent_company.tests.tiny_benchmark import write_benchmark

IMAGE = os.environ.get("PRACTICUM_TEST_PODMAN_IMAGE", "")
OPTIONS = shlex.split(os.environ.get("PRACTICUM_TEST_PODMAN_OPTIONS", ""))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not IMAGE or shutil.which("podman") is None,
        reason="no podman, or PRACTICUM_TEST_PODMAN_IMAGE is not set",
    ),
]
MADE = "localhost/practicum-test/{task}-image:1.0.0"
INIT = """set -e
curl -sf -X POST http://the-agent-company.com:2999/api/reset-rocketchat
[ "$(getent hosts $SERVER_HOSTNAME)" ]
if [ -f /utils/pre_init.sh ]; then bash /utils/pre_init.sh; fi
if [ -f /npc/scenarios.json ]; then python_default /npc/run_multi_npc.py; fi
if [ -f /utils/populate_data.py ]; then python_default /utils/populate_data.py; fi
if [ -f /utils/post_init.py ]; then python_default /utils/post_init.py; fi
"""
ALL_COLLEAGUES = """
import json, subprocess, time
for name in json.load(open("/npc/scenarios.json")):
    command = f'python_default /npc/run_one_npc.py --agent_name="{name}"'
    subprocess.Popen(command, shell=True, stdout=-3, stderr=-3)
time.sleep(1)
"""
ONE_COLLEAGUE = """
import time
from common import call, evaluate_with_llm
given = call("login", {"user": "ann_lee", "password": "x"})["data"]
own = {"X-Auth-Token": given["authToken"], "X-User-Id": given["userId"]}
while not call("im.history?roomId=theagentcompany", login=own)["messages"]:
    time.sleep(0.2)
if evaluate_with_llm("What do you answer?", ""):
    call("chat.postMessage", {"channel": "@theagentcompany", "text": "It is 4711."}, own)
while True:
    time.sleep(1)
"""


def podman(*words: str) -> str:
    ran = subprocess.run(["podman", *OPTIONS, *words], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def make_image(benchmark: Path, task: str, folder: Path) -> None:
    """Make the image of a task as the benchmark's Dockerfiles do."""
    base, own = benchmark / "workspaces/base_image", benchmark / "workspaces/tasks" / task
    for name in ("utils", "npc", "instruction", "workspace", "usr/local/bin"):
        (folder / name).mkdir(parents=True)
    for path in [*base.glob("*.py"), *own.glob("*.py"), *own.glob("*.sh"), *own.glob("golden*")]:
        shutil.copy(path, folder / "utils")
    hidden = folder / "utils/evaluator.py"
    (folder / "utils/evaluator.py.enc").write_bytes(bytes(b ^ 7 for b in hidden.read_bytes()))
    hidden.unlink()
    (folder / "utils/encrypt.py").unlink()
    (folder / "utils/init.sh").write_text(INIT)
    (folder / "npc/run_multi_npc.py").write_text(ALL_COLLEAGUES)
    (folder / "npc/run_one_npc.py").write_text(ONE_COLLEAGUE)
    if (own / "scenarios.json").exists():
        shutil.copy(own / "scenarios.json", folder / "npc")
    shutil.copy(own / "task.md", folder / "instruction")
    (folder / "workspace/kept.txt").write_text("copied\nmade\n")
    (folder / "usr/local/bin/python_default").symlink_to("/usr/bin/python3")
    made = podman("create", IMAGE, "sh")
    try:
        podman("cp", f"{folder}/.", f"{made}:/")
        change = ("--change", "ENV PYTHONPATH=/utils")
        podman("commit", "--quiet", *change, made, MADE.replace("{task}", task))
    finally:
        podman("rm", "--force", made)


@pytest.fixture
def benchmark(tmp_path: Path) -> Iterator[Path]:
    made = write_benchmark(tmp_path / "benchmark")
    tasks = ("pm-greet", "admin-ask")
    for task in tasks:
        make_image(made, task, tmp_path / task)
    yield made
    podman("rmi", "--force", *(MADE.replace("{task}", task) for task in tasks))


@asynccontextmanager
async def opened(benchmark: Path, **options: Any) -> AsyncIterator[AgentCompanyEnvironment]:
    own = AgentCompanyOptions(repo=str(benchmark), image=MADE, sandbox="podman", **options)
    made = AgentCompanyEnvironment(own)
    made.use_sandboxes(
        lambda kind: CheckedSandboxes(ContainerSandboxes(kind, options=OPTIONS, limits_disk=False))
    )
    try:
        yield made
    finally:
        await made.close()


async def test_a_task_is_played_in_its_image_and_graded_by_what_is_in_it(benchmark: Path) -> None:
    grader = benchmark / "workspaces/tasks/pm-greet/evaluator.py"
    grader.write_text("raise ValueError('the checkout is not what grades')")
    look = "cat order.txt; ls /utils /npc; find / -xdev -name 'evaluator*'; echo x > /usr/bin/new"
    with servers(benchmark) as (host, company):
        async with opened(benchmark, server_hostname=host) as environment:
            idle, shown = await played(environment, "pm-greet", f"({look}) 2>&1; true")
            done, _ = await played(environment, "pm-greet", SAY)
            said = [one["msg"] for one in company.office.messages("general")]
            with pytest.raises(UserError, match=r"no image .*finance-read.*; type: podman pull"):
                await played(environment, "finance-read")
    assert "pre_init\npopulate_data\npost_init\n" in shown
    assert "cannot access '/utils'" in shown
    assert "cannot access '/npc'" in shown
    assert "evaluator" not in shown
    assert points(idle) == ([0, 1, 0], {"total": 4, "result": 1})
    assert points(done) == ([0, 1, 2], {"total": 4, "result": 4})
    assert "good morning" in said
    assert not podman("ps", "--all", "--quiet", "--filter", f"name=practicum-{os.getpid()}-")


ASK = "office rocketchat POST chat.postMessage channel=@ann_lee text='Your locker number?'"
WAIT = "for i in 1 2 3 4 5 6; do sleep 1; done"


async def test_colleagues_of_an_image_answer_by_the_judges_model_and_outlive_a_timeout(
    benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE", KEY)
    with scripted([says("yes"), says("yes")]) as judge, servers(benchmark) as (host, _):
        own = {"judge_endpoint": judge.url, "judge_model": "m", "judge_key_env": "JUDGE"}
        own |= {"server_hostname": host}
        async with opened(benchmark, command_timeout_s=10, **own) as environment:
            see = "grep -aqs '[-]-agent_name' /proc/[0-9]*/cmdline || echo alone"
            outcome, shown = await played(environment, "admin-ask", "sleep 60", ASK, WAIT, see)
    assert points(outcome) == ([1, 1], {"total": 2, "result": 2})
    assert [one["messages"][0]["content"] for one in judge.requests] == [
        "What do you answer?",
        "It is 4711. Your locker number?",
    ]
    assert "alone" in shown


async def test_a_colleague_whose_model_fails_masks_the_episode(
    benchmark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE", KEY)
    with scripted([500]) as judge, servers(benchmark) as (host, _):
        own = {"judge_endpoint": judge.url, "judge_model": "m", "judge_key_env": "JUDGE"}
        async with opened(benchmark, server_hostname=host, **own) as environment:
            with pytest.raises(EnvironmentFailure, match="answered 500"):
                await played(environment, "admin-ask", ASK, WAIT)


async def test_colleagues_need_a_model_and_have_to_start(
    benchmark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE", KEY)
    with servers(benchmark) as (host, _):
        async with opened(benchmark, server_hostname=host) as environment:
            with pytest.raises(UserError, match=r"admin-ask has colleagues.*env\.judge_endpoint"):
                await played(environment, "admin-ask")
        monkeypatch.setitem(globals(), "ONE_COLLEAGUE", "raise SystemExit")
        make_image(benchmark, "admin-ask", tmp_path / "again")
        own = {"judge_endpoint": "http://127.0.0.1:9/v1", "judge_model": "m"}
        async with opened(benchmark, server_hostname=host, **own) as environment:
            with pytest.raises(EnvironmentFailure, match="Ann Lee did not start"):
                await played(environment, "admin-ask")
