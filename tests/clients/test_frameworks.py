"""Agent frameworks, unmodified, each in its own environment and process, against the gateway.

Twice each. On turns that are written for it, so that the tool is called and the answer comes; and
on the tiny model, whose nonsense a framework may give up on, but whose every token must be in the
trace and must be given its log-probability again by the learner.

`make clients` makes the environments; PRACTICUM_CLIENTS names the folder that holds them.
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.client_table import APART, TOKENS, expect, note
from tests.clients.serving import Served, call, check_recomputed, run_script, serving

from practicum.core.conversation import RolloutLimits
from practicum.engine.policy import TorchPolicy

SCRIPTS = Path(__file__).parent / "scripts"
REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 300

HERE = "this one"
"""The environment that runs the tests."""

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
    Framework(script="openai_sdk", environment=HERE, turns=(ANSWER,)),
    Framework(script="openai_sdk_responses", environment=HERE, turns=("42.", ANSWER)),
    Framework(script="anthropic_sdk", environment=HERE, turns=(ANSWER,)),
    Framework(script="openai_agents", environment="openai-agents"),
    Framework(script="openai_agents_chat", environment="openai-agents"),
    Framework(script="pydantic_ai", environment="pydantic-ai"),
    Framework(script="pydantic_ai_anthropic", environment="pydantic-ai"),
    Framework(
        script="smolagents",
        environment="smolagents",
        turns=(ADD, call("final_answer", answer=ANSWER)),
        branches=2,
    ),
    Framework(script="langgraph", environment="langgraph"),
    Framework(script="langgraph_anthropic", environment="langgraph"),
    Framework(script="llama_index", environment="llama-index"),
    Framework(script="litellm", environment="litellm"),
    Framework(script="crewai", environment="crewai"),
)
for one in FRAMEWORKS:
    expect(one.script)
RUN_ELSEWHERE = ("openhands_sdk",)
"""Scripts that tests of their own run."""

every_framework = pytest.mark.parametrize(
    "framework",
    [
        pytest.param(framework, id=framework.script, marks=pytest.mark.slow)
        for framework in FRAMEWORKS
    ],
)


def python_of(framework: Framework) -> Path:
    """The interpreter of a framework's environment; the test is skipped where there is none."""
    if framework.environment == HERE:
        package = framework.script.partition("_")[0]
        pytest.importorskip(package, reason=f"needs {package}; pip install {package}")
        return Path(sys.executable)
    folder = Path(os.environ.get("PRACTICUM_CLIENTS", REPOSITORY / ".clients"))
    python = folder / framework.environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"there is no {python}; type: make clients")
    return python


async def run(framework: Framework, served: Served, folder: Path) -> tuple[int, str, str]:
    """The script's exit status and what it printed."""
    python, script = str(python_of(framework)), str(SCRIPTS / f"{framework.script}.py")
    # Isolated, since the scripts are named after the packages they import.
    return await run_script([python, "-I", script], served, folder, PATIENCE_S)


def tool_results(served: Served) -> list[str]:
    """What was given to the model after its first turn: the tool's results, however worded."""
    first = next(i for i, node in enumerate(served.nodes) if node.sampled is not None)
    given = [node for node in served.nodes[first + 1 :] if node.sampled is None]
    return [m.content for node in given for m in node.messages if m.role != "assistant"]


@every_framework
async def test_its_tool_loop_goes_round(
    framework: Framework, policy: TorchPolicy, tmp_path: Path
) -> None:
    async with serving(policy, framework.turns) as served:
        status, said, complained = await run(framework, served, tmp_path)
        assert status == 0, complained[-2000:]
        assert said.strip().splitlines()[-1] == ANSWER
        if ADD in framework.turns:
            assert "42" in tool_results(served)[-1]
        assert served.check_all_recorded() == sum(len(t.encode()) + 1 for t in framework.turns)
        assert [node.token_ids[:-1] for node in served.sampled] == [
            tuple(turn.encode()) for turn in framework.turns
        ]
        assert served.conversation.graph.retokenised == 0
        assert len(served.trace().leaves()) == framework.branches
        if ADD in framework.turns:
            note(framework.script, "tools", "yes")


@every_framework
async def test_every_token_of_the_model_is_recorded(
    framework: Framework, policy: TorchPolicy, tmp_path: Path
) -> None:
    async with serving(policy, limits=RolloutLimits(max_turns=6)) as served:
        await run(framework, served, tmp_path)
        tokens = served.check_all_recorded()
        note(framework.script, TOKENS, f"all {tokens}")
        note(framework.script, APART, f"{check_recomputed(policy, served):.0e}")


def test_each_snippet_of_the_page_is_part_of_a_script_that_is_run() -> None:
    page = (REPOSITORY / "docs" / "clients.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    run = {f.script: (SCRIPTS / f"{f.script}.py").read_text() for f in FRAMEWORKS}
    scripts = [*run.values(), *((SCRIPTS / f"{name}.py").read_text() for name in RUN_ELSEWHERE)]
    for snippet in snippets:
        assert any(snippet in script for script in scripts), snippet
    assert len(snippets) >= len(FRAMEWORKS)
