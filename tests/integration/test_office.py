"""Office episodes on real machines: what an agent can do to its company, and what it cannot."""

import json
import os
import runpy
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine

from practicum.core.capabilities import ServesPorts
from practicum.core.errors import EnvironmentFailure
from practicum.core.task import Task
from practicum.core.trace import ToolCall
from practicum.environments.reference_policies import ReferenceActor, play_episode
from practicum.environments.registry import build_environment
from practicum.sandboxes.opening import unchecked_sandboxes
from practicum_envs.office.office_environment import (
    OfficeEnvironment,
    furnish,
    plan_of,
)
from practicum_envs.office.office_session import OfficeToolSession
from practicum_envs.office.services.all_services import PORTS
from practicum_envs.shell.protocol import bash_turn

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "office.py"

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(reason)


@asynccontextmanager
async def office(**options: Any) -> AsyncIterator[OfficeEnvironment]:
    environment = build_environment("office", options)
    assert isinstance(environment, OfficeEnvironment)
    # Their self-check, seconds long, has tests of its own.
    environment.use_sandboxes(lambda kind: unchecked_sandboxes("bubblewrap", print))
    try:
        yield environment
    finally:
        await environment.close()


def task_of(environment: OfficeEnvironment, family: str = "announce-in-channel") -> Task:
    return environment.find(f"office-train-{family}-s0-0")


async def shown(session: Any, script: str) -> str:
    observation = await session.act(bash_turn(script, "text"))
    return str(observation.message.content)


async def test_nothing_of_the_company_is_in_the_agents_machine() -> None:
    async with office() as environment, environment.open(task_of(environment)) as session:
        words = " -o ".join(f"-name '{one}'" for one in ("state.json", "door", "*practicum*"))
        seen = await shown(
            session, f"find / -xdev {words} 2>/dev/null; cat /proc/net/unix; ls /tmp"
        )
        assert seen.strip().endswith("Path")
        running = await shown(session, "ps -e -o comm=")
        assert "git" not in running
        await shown(session, "kill -9 -1")
        assert '"version"' in await shown(
            session, "curl -s http://the-agent-company.com:8929/api/v4/version"
        )


async def test_two_episodes_have_the_same_ports_and_not_the_same_company() -> None:
    async with office() as environment:
        task = task_of(environment)
        async with environment.open(task) as one, environment.open(task) as two:
            await shown(one, "office rocketchat POST channels.create name=only-here")
            assert "only-here" in await shown(one, "office rocketchat GET channels.list")
            assert "only-here" not in await shown(two, "office rocketchat GET channels.list")


async def test_an_agents_own_server_does_not_take_a_services_place() -> None:
    async with office() as environment:
        task = task_of(environment)
        async with environment.open(task) as session:
            seen = await shown(session, "timeout 3 python3 -m http.server 3000")
            assert "Address already in use" in seen
            await shown(session, "echo '127.0.0.9 the-agent-company.com' > /etc/hosts")
            await shown(session, "rm -rf /usr/local/bin/office /workspace")
            outcome = await session.outcome()
        assert outcome.success is False
        assert [one["result"] for one in _points(outcome)] == [0, 0]


HUGE = """cat > /tmp/huge.py <<'END'
import json, urllib.error, urllib.request

def call(route, data, head=()):
    head = {"Content-Type": "application/json", **dict(head)}
    url = "http://the-agent-company.com:3000/api/v1/" + route
    try:
        asked = urllib.request.Request(url, json.dumps(data).encode(), head)
        return json.load(urllib.request.urlopen(asked))
    except urllib.error.HTTPError as refused:
        return json.load(refused)

own = call("login", {"user": "theagentcompany", "password": "theagentcompany"})["data"]
head = {"X-Auth-Token": own["authToken"], "X-User-Id": own["userId"]}
for _ in range(20):
    said = {"channel": "#general", "text": "x" * 1_000_000}
    print(call("chat.postMessage", said, head)["errorType"])
END
python3 /tmp/huge.py | sort | uniq -c"""


async def test_megabytes_of_messages_are_refused_and_change_no_grade() -> None:
    async with office() as environment:
        task = task_of(environment)
        async with environment.open(task) as session:
            assert "20 error-message-size-exceeded" in await shown(session, HUGE)
            nothing = await session.outcome()
        async with environment.open(task) as session:
            await shown(session, HUGE)
            await shown(session, plan_of(task).reference[0])
            done = await session.outcome()
    assert [one["result"] for one in _points(nothing)] == [0, 0]
    assert done.success is True


async def test_a_repository_that_the_agent_deletes_is_a_checkpoint_not_passed() -> None:
    async with office() as environment:
        task = task_of(environment, "fix-a-function")
        async with environment.open(task) as session:
            listed = await shown(session, "office gitlab GET projects /0/id")
            number = listed.split()[-1]
            assert number.isdigit(), listed
            await shown(session, f"office gitlab DELETE projects/{number}")
            assert "404" in await shown(session, f"office gitlab GET projects/{number}")
            await shown(session, "rm -rf /workspace")
            outcome = await session.outcome()
        again = await play_episode(environment, task, ReferenceActor(environment), 12)
    assert [one["result"] for one in _points(outcome)] == [0, 0]
    assert again.outcome.success is True


async def test_an_episode_cannot_reach_the_ports_of_another() -> None:
    secret = "office rocketchat POST channels.create name=secret-of-one"
    reach = (
        "for A in $(hostname -I) 127.0.0.1 127.0.0.2 127.1.2.3 10.0.0.1 172.17.0.1 192.168.0.1; do "
        "curl -s -m 2 -d user=theagentcompany -d password=theagentcompany "
        "http://$A:3000/api/v1/login > /dev/null && echo reached $A; done"
    )
    async with office() as environment:
        task = task_of(environment)
        async with environment.open(task) as one, environment.open(task) as two:
            await shown(one, secret)
            seen = await shown(two, reach)
            reached = {line.split()[1] for line in seen.splitlines() if "reached" in line}
            assert all(address.startswith("127.") for address in reached), seen
            assert "secret-of-one" not in await shown(two, "office rocketchat GET channels.list")
            forged = "office rocketchat POST chat.postMessage channel='#secret-of-one' text=hello"
            assert "error" in await shown(two, forged)
            assert (await one.outcome()).success is False


async def test_a_company_that_ended_masks_the_episode() -> None:
    async with office() as environment, environment.open(task_of(environment)) as session:
        os.kill(session._grader._company.pid, signal.SIGKILL)
        assert "office: " in await shown(session, "office rocketchat GET me")
        with pytest.raises(EnvironmentFailure, match="services ended"):
            await session.outcome()


async def test_an_agent_that_holds_every_connection_does_not_keep_the_grader_out() -> None:
    hold = (
        "import socket,time\n"
        "held=[socket.create_connection(('127.0.0.1',3000)) for _ in range(200)]\n"
        "time.sleep(60)\n"
    )
    async with office() as environment, environment.open(task_of(environment)) as session:
        await shown(session, f'nohup python3 -c "{hold}" >/dev/null 2>&1 & sleep 1')
        assert (await session.outcome()).success is False


async def test_a_second_machine_sees_the_same_company() -> None:
    async with office() as environment, environment.open(task_of(environment)) as session:
        await shown(session, "office rocketchat POST channels.create name=seen-by-both")
        async with environment._machines.open() as graders:
            assert isinstance(graders, ServesPorts)
            session._grader._company.serve(await graders.listen(PORTS))
            await furnish(graders, plan_of(task_of(environment)))
            found = await graders.run(
                ["office", "rocketchat", "GET", "channels.list"], timeout_s=20
            )
            assert "seen-by-both" in found.stdout


async def test_the_tools_protocol_solves_a_task_too() -> None:
    async with office(protocol="tools") as environment:
        task = task_of(environment)
        turns = len(environment.reference(task))
        played = await play_episode(environment, task, ReferenceActor(environment), turns)
        assert played.outcome.success is True
        assert played.outcome.evidence["s_score"] == 1.0


async def test_a_task_is_done_with_typed_tools_alone() -> None:
    async with office(protocol="tools", tools=["gitlab", "chat", "edit", "browse"]) as environment:
        task = task_of(environment, "file-an-issue")
        plan = plan_of(task)
        [project] = [one.path for one in plan.company.projects]
        asked = shlex.split(plan.reference[-1])
        title, label = (one.partition("=")[2] for one in asked if "=" in one)
        async with environment.open(task) as session:
            assert isinstance(session, OfficeToolSession)
            names = {tool.name for tool in session.tools()}
            assert {"gitlab_create_issue", "send_message", "edit", "browse", "finish"} <= names
            assert "bash" not in names

            async def call(name: str, **arguments: str) -> str:
                seen = await session.call(ToolCall(name=name, arguments=arguments))
                return seen.message.content

            assert "Set up continuous integration" in await call("gitlab_issues", project=project)
            await call("gitlab_create_issue", project=project, title=title, labels=label)
            url = f"http://the-agent-company.com:8929/{project}/-/issues"
            assert title in await call("browse", url=url)
            await call("send_message", channel="#general", text="it is 'done'")
            assert "theagentcompany: it is 'done'" in await call(
                "read_messages", channel="#general"
            )
            await call("edit", command="create", path="a.txt", new="x")
            outcome = await session.outcome()
        assert outcome.success is False  # #general was told, which nobody had asked for
        assert [one["result"] for one in _points(outcome)] == [1, 0, 0]


@pytest.mark.rare
def test_the_benchmark_runs_at_its_smallest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--rounds", "1", "--at-once", "2", "--json"]
    monkeypatch.setattr(sys, "argv", [str(BENCHMARK), *sizes])
    runpy.run_path(str(BENCHMARK), run_name="__main__")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["many"]["saw_only_their_own"] == 2
    assert 0 < found["one"]["pss_mb"] <= found["one"]["rss_mb"]


def _points(outcome: Any) -> list[dict[str, int]]:
    found: list[dict[str, int]] = outcome.evidence["checkpoints"]
    return found
