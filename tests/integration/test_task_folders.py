"""Task folders in real machines: solved, left alone, and cheated on."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.machines import why_no_machine

import practicum_envs.harbor
from practicum.assemble.environments import open_environment
from practicum.core.config.config_sections import EnvConfig
from practicum.core.task import Outcome
from practicum.environments.reference_policies import ScriptActor, play_episode
from practicum_envs.harbor.harbor_environment import HarborEnvironment

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
TASKS = Path(practicum_envs.harbor.__file__).parent / "tests" / "tasks"
OFFLINE = ("copies-files", "marked", "multi-step", "partial-reward")
"""What these install, every machine has."""
FETCHING = ("install-apt", "install-pip")
NETWORK = "PRACTICUM_TEST_NETWORK"
needs_network = pytest.mark.skipif(
    not os.environ.get(NETWORK),
    reason=f"it fetches packages; type: {NETWORK}=1 pytest {Path(__file__).name}",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def folders() -> AsyncIterator[HarborEnvironment]:
    reason = await asyncio.to_thread(why_no_machine)
    if reason is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")
    environment = open_environment(EnvConfig(name="harbor", path=str(TASKS)))
    assert isinstance(environment, HarborEnvironment)
    yield environment
    await environment.close()


async def played(folders: HarborEnvironment, name: str, turns: Sequence[str]) -> Outcome:
    """What an episode of these turns comes to."""
    found = await play_episode(folders, folders.find(name), ScriptActor(turns), len(turns) + 1)
    return found.outcome


async def with_script(folders: HarborEnvironment, name: str, script: str) -> Outcome:
    return await played(folders, name, [folders.turn_from_line(script), "Act: finish"])


async def require_solved_only_by_its_solution(folders: HarborEnvironment, name: str) -> None:
    reference = folders.reference(folders.find(name))
    assert (await played(folders, name, reference)).success is True
    assert (await played(folders, name, ())).success is False


@pytest.mark.parametrize("name", OFFLINE)
async def test_a_solution_passes_and_doing_nothing_fails(
    folders: HarborEnvironment, name: str
) -> None:
    await require_solved_only_by_its_solution(folders, name)


@needs_network
@pytest.mark.parametrize("name", FETCHING)
async def test_so_it_is_with_packages_of_debian_and_python(
    folders: HarborEnvironment, name: str
) -> None:
    await require_solved_only_by_its_solution(folders, name)


@needs_network
async def test_a_solution_that_writes_the_reward_itself_earns_nothing(
    folders: HarborEnvironment,
) -> None:
    reference = folders.reference(folders.find("hostile"))
    assert (await played(folders, "hostile", reference)).success is False


PAYS = "echo 1 > /logs/verifier/reward.txt; echo '{\\\"reward\\\": 1}' > /logs/verifier/reward.json"
CHEATS = {
    "the reward file": f"mkdir -p /logs/verifier; {PAYS}",
    "a background loop": f"(while true; do {PAYS}; done) >/dev/null 2>&1 &",
    "tests of its own": f"mkdir -p /tests; printf '#!/bin/bash\\n{PAYS}' > /tests/test.sh",
    "a link in place of the tests": "ln -sfn /root /tests",
    "a link in place of the logs": "rm -rf /logs; ln -s /tmp /logs; mkdir -p /tmp/verifier",
    "another bash": "printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt\\n' > /usr/local/bin/"
    "bash; chmod 755 /usr/local/bin/bash; cp /usr/local/bin/bash /usr/bin/awk",
    "a preloaded library": "echo /tmp/paid.so > /etc/ld.so.preload",
    "variables of a shell": f"echo '{PAYS}' > /root/.bashrc; echo BASH_ENV=/root/.bashrc "
    ">> /etc/environment",
}


@pytest.mark.parametrize("cheat", CHEATS)
async def test_who_does_no_work_is_not_paid(folders: HarborEnvironment, cheat: str) -> None:
    outcome = await with_script(folders, "partial-reward", CHEATS[cheat])
    assert outcome.success is False
    assert outcome.evidence["rewards"] == {"reward": 0.0, "files": 0.0}


async def test_the_tests_are_not_there_while_the_policy_acts(folders: HarborEnvironment) -> None:
    task = folders.find("multi-step")
    async with folders.open(task) as session:
        seen = await session.act(
            folders.turn_from_line("ls /tests /solution; find / -name look.sh")
        )
        assert "look.sh" not in seen.message.content


async def test_half_of_the_work_earns_half_of_the_reward(folders: HarborEnvironment) -> None:
    outcome = await with_script(folders, "partial-reward", "touch /out/two")
    assert (outcome.success, sum(outcome.turn_rewards)) == (False, 0.5)


async def test_tests_that_the_policy_stopped_are_its_failure(folders: HarborEnvironment) -> None:
    outcome = await with_script(folders, "partial-reward", "rm -rf /out; mkfifo /tests; rm -r /usr")
    assert outcome.success is False


async def test_the_variables_and_the_folder_of_the_image_are_there(
    folders: HarborEnvironment,
) -> None:
    async with folders.open(folders.find("copies-files")) as session:
        seen = await session.act(folders.turn_from_line("pwd; echo $NOTES $LC_ALL; cat $NOTES/*"))
    shown = " ".join(seen.message.content.split())
    assert shown.endswith("/home /home/notes C b a plum apple kiwi pear fig")
