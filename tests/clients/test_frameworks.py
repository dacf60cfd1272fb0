"""Agent frameworks, unmodified, each in its own environment and process, against the gateway.

Twice each. On turns that are written for it, so that the tool is called and the answer comes; and
on the tiny model, whose nonsense a framework may give up on, but whose every token must be in the
trace and must be given its log-probability again by the learner.

`make clients` makes the environments; PRACTICUM_CLIENTS names the folder that holds them.
"""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clients.serving import (
    Served,
    bare_call,
    call,
    check_recomputed,
    quiet_environment,
    serving,
)

from practicum.core.conversing import RolloutLimits
from practicum.policy.torch_policy import TorchPolicy

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parent / "scripts"
REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 150

ADD = call("add", a=17, b=25)
ANSWER = "The sum is 42."


@dataclass(frozen=True, kw_only=True)
class Framework:
    """A script, the environment it needs, and the turns that make its agent finish."""

    script: str
    environment: str
    turns: tuple[str, ...] = (ADD, ANSWER)
    branches: int = 1
    """Paths of the trace: more than one where the framework rewrites what was said."""


FRAMEWORKS = (
    Framework(script="openai_agents", environment="openai-agents"),
    Framework(script="openai_agents_chat", environment="openai-agents"),
    Framework(script="pydantic_ai", environment="pydantic-ai"),
    Framework(script="pydantic_ai_anthropic", environment="pydantic-ai"),
    Framework(
        script="smolagents",
        environment="smolagents",
        turns=(bare_call("add", a=17, b=25), bare_call("final_answer", answer=ANSWER)),
        branches=2,
    ),
    Framework(script="langgraph", environment="langgraph"),
    Framework(script="langgraph_anthropic", environment="langgraph"),
    Framework(script="llama_index", environment="llama-index"),
    Framework(script="litellm", environment="litellm"),
    Framework(script="crewai", environment="crewai"),
)
every_framework = pytest.mark.parametrize(
    "framework", FRAMEWORKS, ids=[framework.script for framework in FRAMEWORKS]
)


def python_of(framework: Framework) -> Path:
    """The interpreter of a framework's environment; the test is skipped where there is none."""
    folder = Path(os.environ.get("PRACTICUM_CLIENTS", REPOSITORY / ".clients"))
    python = folder / framework.environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"there is no {python}; type: make clients")
    return python


async def run(framework: Framework, served: Served, folder: Path) -> tuple[int, str, str]:
    """The script's exit status and what it printed."""
    process = await asyncio.create_subprocess_exec(
        str(python_of(framework)),
        "-I",  # the scripts are named after the packages they import
        str(SCRIPTS / f"{framework.script}.py"),
        cwd=folder,
        env={**quiet_environment(served), "HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complained = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode(), complained.decode()


def result_of(said: str) -> dict[str, Any]:
    """The last line a script prints; frameworks print before it."""
    found: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return found


@every_framework
async def test_its_tool_loop_goes_round(
    framework: Framework, policy: TorchPolicy, tmp_path: Path
) -> None:
    async with serving(policy, framework.turns) as served:
        status, said, complained = await run(framework, served, tmp_path)
        assert status == 0, complained[-2000:]
        assert result_of(said) == {"answer": ANSWER, "called": [[17, 25]]}
        assert served.check_all_recorded() == sum(len(t.encode()) + 1 for t in framework.turns)
        assert [node.token_ids[:-1] for node in served.sampled] == [
            tuple(turn.encode()) for turn in framework.turns
        ]
        assert served.conversation.graph.retokenised == 0
        assert len(served.trace().leaves()) == framework.branches


@every_framework
async def test_every_token_of_the_model_is_recorded(
    framework: Framework, policy: TorchPolicy, tmp_path: Path
) -> None:
    async with serving(policy, limits=RolloutLimits(max_turns=6)) as served:
        await run(framework, served, tmp_path)
        assert served.check_all_recorded() > 0
        check_recomputed(policy, served)
