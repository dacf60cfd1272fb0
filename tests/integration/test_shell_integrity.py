"""Checkers on real machines: the state decides, nobody else, and a crash decides nothing."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest
import pytest_asyncio
from tests.integration.machines import why_no_machine
from tests.sandboxes.looking import pids_with
from tests.sandboxes.planted import PLANTED

from practicum.agents.loops import DiscreteAgent
from practicum.agents.rollout import RolloutParts, run_episode
from practicum.assemble.environments import open_environment
from practicum.core.config.config_sections import EnvConfig
from practicum.core.sample import Episode
from practicum.core.sampling import ActionForm
from practicum.core.task import JSON, Task
from practicum.core.trace import StopReason
from practicum.gateway.scripted_conversation import ScriptedConversation
from practicum.rewards.verifiable import OutcomeReward
from practicum_envs.shell.shell_environment import ShellEnvironment

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHECK_S = 30.0
"""Seconds that a checker may take here, also on a busy machine."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shell() -> AsyncIterator[ShellEnvironment]:
    reason = await asyncio.to_thread(why_no_machine)
    if reason is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")
    options = {"command_timeout_s": CHECK_S, "memory_mb": 128, "disk_mb": 48}
    environment = open_environment(EnvConfig(name="shell", **options))
    assert isinstance(environment, ShellEnvironment)
    yield environment
    await environment.close()


def task_with(check: dict[str, JSON], **data: JSON) -> Task:
    return Task(
        id="one",
        env="shell",
        split="train",
        instruction="Write good into /root/answer.",
        data={"source": "test", "setup": "true", "reference": "true", "check": check, **data},
    )


async def episode(shell: ShellEnvironment, task: Task, scripts: Sequence[str]) -> Episode:
    """A whole episode, as training has it: turns, checker, reward."""
    turns = iter([*(shell.turn_from_line(script) for script in scripts), "Act: finish"])

    def converse(task: Task, seed: int) -> ScriptedConversation:
        def choose(actions: tuple[ActionForm, ...]) -> str:
            return next(turns)

        return ScriptedConversation(choose, name="written")

    parts = RolloutParts(
        environment=shell,
        agent=DiscreteAgent(max_turns=5),
        reward=OutcomeReward(),
        converse=converse,
    )
    return await run_episode(parts, task, "one", 0)


def script(code: str) -> dict[str, JSON]:
    return {"kind": "script", "script": code}


def python(code: str) -> dict[str, JSON]:
    return {"kind": "script", "script": {"language": "python", "code": code}}


CRASHES: dict[str, dict[str, JSON]] = {
    "killed by a signal": script("kill -SEGV $$"),
    "aborted": python("import os; os.abort()"),
    "not in time": script("sleep 600"),
    "out of memory": python("held = [b'x' * (1 << 20) for _ in range(1000)]"),
    "an unknown assertion": {"kind": "state", "assertions": [{"kind": "no such kind"}]},
    "an assertion that cannot be read": {"kind": "state", "assertions": [{"kind": "absent"}]},
    "no way to check": {"kind": "no such way"},
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.rare) if n == "not in time" else n for n in CRASHES],
)
async def test_a_checker_that_crashes_is_an_environment_error(
    shell: ShellEnvironment, name: str
) -> None:
    found = await episode(shell, task_with(CRASHES[name]), ["echo good > /root/answer"])
    assert found.trace.stop is StopReason.ENVIRONMENT_FAILED
    assert found.trace.is_masked
    assert found.outcome is None
    assert found.score.value is None
    assert found.trace.failure is not None
    assert "check" in found.trace.failure.message


BY_SCRIPT = script("grep -qx good /root/answer && python3 -c 'import json' && stat /root/answer")
BY_STATE: dict[str, JSON] = {
    "kind": "state",
    "assertions": [{"kind": "content", "path": "/root/answer", "text": "good\n", "trimmed": False}],
}
SHIMS = (
    "nothing",
    "shims beside the system's programs",
    "shims in folders of its own",
    "the system's programs replaced",
    "start files of shells",
    "start files of Python",
    "modules where Python looks first",
    "a library loaded before all others",
    "libraries found before the system's",
    "the C library overwritten",
)


def planted(name: str, exit_code: int) -> str:
    return PLANTED[name].replace("VERDICT", str(exit_code)) + "\ntrue"


@pytest.mark.parametrize("name", SHIMS)
@pytest.mark.parametrize("check", [BY_SCRIPT, BY_STATE], ids=["script", "state"])
async def test_what_is_planted_changes_no_verdict(
    shell: ShellEnvironment, check: dict[str, JSON], name: str
) -> None:
    task = task_with(check)
    undone, done = await asyncio.gather(
        episode(shell, task, [planted(name, 0)]),
        episode(shell, task, ["echo good > /root/answer", planted(name, 1)]),
    )
    assert [undone.score.value, done.score.value] == [-0.5, 1.0], (undone, done)
    assert not undone.trace.is_masked
    assert not done.trace.is_masked


LOOKS_EVERYWHERE = """
import os
wanted = {wanted!r}.encode()[::-1]
found = []
for folder, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if folder != "/" or name not in ("sys", "usr")]
    for name in names:
        path = folder + "/" + name
        if path.startswith("/proc/") and name not in ("cmdline", "environ", "comm", "maps"):
            continue
        try:
            if os.path.isfile(path) and wanted in open(path, "rb").read(1 << 20):
                found.append(path)
        except OSError:
            pass
print("found", len(found), *found)
"""


@pytest.mark.parametrize("kind", ["script", "state"])
async def test_nothing_of_a_checker_is_there_before_it_runs(
    shell: ShellEnvironment, kind: str
) -> None:
    """The agent looks everywhere, twice; what it looks for is put there once, to see it look."""
    wanted = secrets.token_hex(16)
    state: dict[str, JSON] = {
        "kind": "state",
        "assertions": [{"kind": "type", "path": f"/root/{wanted}", "type": "file"}],
    }
    check = script(f"test -e /root/{wanted}") if kind == "script" else state
    task = task_with(check, reference=f"touch /root/{wanted}", near_misses=[f"echo {wanted}"])
    program = LOOKS_EVERYWHERE.format(wanted=wanted[::-1])
    looks = f"cat > /tmp/looks.py <<'THE_END'\n{program}\nTHE_END\npython3 -I -S /tmp/looks.py"
    on_host: list[int] = []
    seen: list[str] = []
    async with shell.open(task) as session:
        act: Callable[[str], Any] = session.act  # type: ignore[union-attr]
        for _ in range(2):
            seen.append((await act(shell.turn_from_line(looks))).message.content)
            on_host += pids_with(wanted.encode(), "cmdline")
        reverse = f"echo {wanted[::-1]} | rev > /root/there; {looks}"
        seen.append((await act(shell.turn_from_line(reverse))).message.content)
        assert (await session.outcome()).success is False
    assert ["found 0" in text for text in seen] == [True, True, False], seen
    assert "found 1 /root/there" in seen[2]
    assert [pid for pid in on_host if pid != os.getpid()] == []


async def test_a_checker_inherits_nothing_from_the_agent(shell: ShellEnvironment) -> None:
    """It is a fresh process: other variables, folder, limits and files than a command had."""
    check = script(
        'test -z "$PLANTED" && test "$(pwd)" = / && test $(ulimit -n) -gt 100 && '
        "test $(umask) = 0022 && ! test -e /proc/self/fd/9 && test -e /root/answer"
    )
    turn = (
        "export PLANTED=1 PATH=/nowhere LD_PRELOAD=/root/evil.so BASH_ENV=/root/evil; cd /tmp; "
        "umask 777; ulimit -n 20; exec 9>/root/answer; true"
    )
    found = await episode(shell, task_with(check), [turn])
    assert found.score.value == 1.0, found


BREAKS = {
    "the shells removed": "rm -f /bin/bash /bin/sh /bin/dash /usr/bin/bash /usr/bin/sh",
    "all programs removed": "rm -rf /bin /usr/bin",
    "the system removed": "rm -rf --no-preserve-root / 2>/dev/null",
    "everything killed": "kill -9 -1",
    "the shell killed": "kill -9 $$ $PPID",
}


@pytest.mark.parametrize("name", BREAKS)
async def test_a_policy_that_breaks_its_machine_is_scored(
    shell: ShellEnvironment, name: str
) -> None:
    found = await episode(shell, task_with(BY_STATE), [BREAKS[name], "echo good > /root/wrong"])
    assert not found.trace.is_masked, found.trace.failure
    assert found.outcome is not None
    assert found.outcome.success is False
    assert found.score.value == -0.5
