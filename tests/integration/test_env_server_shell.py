"""Shell episodes behind a server, in real sandboxes."""

import asyncio
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

import pytest
from tests.integration.machines import why_no_machine

from practicum.core.task import Outcome, Task
from practicum.environments.registry import build_environment
from practicum.environments.remote.remote_environment import RemoteEnvironment

AT_ONCE = 64
TASKS = AT_ONCE // 2
"""Different tasks among them; each is solved in one episode and left undone in another."""


@pytest.fixture
async def shell() -> AsyncIterator[RemoteEnvironment]:
    reason = await asyncio.to_thread(why_no_machine)
    if reason is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")
    options = {"serve": "shell", "max_episodes": AT_ONCE, "startup_timeout_s": 120}
    environment = build_environment("remote", options)
    assert isinstance(environment, RemoteEnvironment)
    yield environment
    await environment.close()


async def play(
    environment: RemoteEnvironment, task: Task, solves: bool, gate: asyncio.Barrier
) -> Outcome:
    async with environment.open(task) as session:
        await gate.wait()  # until all are open
        assert not hasattr(session, "call")
        turns = environment.reference(task) if solves else ["Act: bash\n```bash\nid -un\n```"]
        for text in turns:
            seen = await session.act(text)  # type: ignore[union-attr]
        if not solves:
            assert "root" in seen.message.content
        return await session.outcome()


def known(outcome: Outcome) -> dict[str, Any]:
    """The evidence without the words of single checks: those name times of day."""
    checks: Any = outcome.evidence["checks"]
    return {**outcome.evidence, "checks": [check["ok"] for check in checks]}


@pytest.mark.rare
@pytest.mark.slow
async def test_64_shell_episodes_at_once_end_as_one_at_a_time(shell: RemoteEnvironment) -> None:
    tasks = list(islice(shell.tasks("heldout", 2), TASKS))
    plays = [(task, solves) for solves in (True, False) for task in tasks]
    assert len({task.id for task in tasks}) == TASKS
    gate = asyncio.Barrier(AT_ONCE)
    together = await asyncio.gather(*(play(shell, task, solves, gate) for task, solves in plays))
    single = asyncio.Barrier(1)
    alone = [await play(shell, task, solves, single) for task, solves in plays]
    assert [outcome.success for outcome in together] == [solves for _, solves in plays]
    assert [known(outcome) for outcome in together] == [known(one) for one in alone]
    assert {outcome.evidence["sandbox"] for outcome in together} == {shell.sandbox_kind}
