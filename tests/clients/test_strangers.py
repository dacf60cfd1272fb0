"""Clients that were not written with Practicum in mind: four things each, and a table of them.

Each feature is a run of the client's script, unmodified but for two environment variables, on turns
that are written for it:

- tools: its own tool loop calls a tool and answers;
- streaming: it reads an answer as it is sampled;
- typed: it calls a tool and then answers in the form it asked for;
- errors: a wrong key is its own exception, with the gateway's sentence.

Then all but the wrong key is run once more on the tiny model, whose nonsense a client may give up
on. Every token that left the sampler has to be in the trace, and the learner has to give each of
the model's its log-probability again. `make clients` installs the clients.
"""

import os
import re
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.clients.client_table import APART, TOKENS, clients, expect, note, shown_names
from tests.clients.serving import Served, call, check_recomputed, run_script, serving

from practicum.core.conversation import RolloutLimits
from practicum.engine.policy import TorchPolicy

SCRIPTS = Path(__file__).parent / "scripts"
REPOSITORY = Path(__file__).parents[2]
PATIENCE_S = 300

HERE = "this one"
NODE = "node"
ADD = call("add", a=17, b=25)
ANSWER = "The sum is 42."
RESULT = '{"answer": 42}'
TURNS = {
    "tools": (ADD, ANSWER),
    "streaming": (ANSWER,),
    "typed": (ADD, RESULT),
    "errors": (ANSWER,),
}
SAID = {"tools": ANSWER, "streaming": ANSWER, "typed": "42"}
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""What mini-swe-agent's commands say when a task is done."""


NUMBERS = '{"a": 17, "b": 25}'


def in_fields(**fields: str) -> str:
    """A turn in dspy's own form; its calls too, of models that litellm does not know."""
    return "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in fields.items()) + (
        "\n\n[[ ## completed ## ]]"
    )


@dataclass(frozen=True, kw_only=True)
class Stranger:
    """A client, its script with its arguments, and where it is installed."""

    name: str
    script: str
    environment: str
    arguments: tuple[str, ...] = ()
    features: tuple[str, ...] = tuple(TURNS)
    turns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Features for which the model says other turns than usual."""
    said: tuple[tuple[str, str], ...] = ()
    rewrites: bool = False
    """Whether it asks for its last turn without the tools, which is another prompt."""


STRANGERS = (
    Stranger(name="openai, parse and stream", script="openai_parse.py", environment=HERE),
    Stranger(name="anthropic, tool runner", script="anthropic_tool_runner.py", environment=HERE),
    Stranger(name="npm openai, tool runner", script="node_openai.mjs", environment=NODE),
    Stranger(name="npm @anthropic-ai/sdk", script="node_anthropic.mjs", environment=NODE),
    *(
        Stranger(
            name=f"AI SDK, {provider}",
            script="ai_sdk.mjs",
            environment=NODE,
            arguments=(provider,),
        )
        for provider in ("openai", "anthropic", "compatible")
    ),
    Stranger(
        name="instructor",
        script="instructor.py",
        environment="instructor",
        turns=(
            ("tools", (call("Result", answer=42),)),
            ("streaming", (RESULT,)),
            ("typed", (RESULT,)),
        ),
        said=(("tools", "42"), ("streaming", "42")),
    ),
    Stranger(name="agno", script="agno_agent.py", environment="agno"),
    Stranger(name="autogen", script="autogen_agent.py", environment="autogen", rewrites=True),
    Stranger(
        name="strands",
        script="strands_agent.py",
        environment="strands",
        turns=(("typed", (ADD, call("Result", answer=42))),),
    ),
    Stranger(
        name="mini-swe-agent",
        script="mini_swe_agent.py",
        environment="mini-swe-agent",
        features=("tools", "errors"),
        turns=(("tools", (call("bash", command=f"echo {SUBMIT}; echo {ANSWER}"),)),),
    ),
    *(
        Stranger(
            name=f"langchain, {provider}",
            script="langchain_agent.py",
            environment="langgraph",
            arguments=(provider,),
        )
        for provider in ("responses", "anthropic")
    ),
    Stranger(
        name="semantic-kernel",
        script="semantic_kernel_agent.py",
        environment="semantic-kernel",
        turns=(
            ("tools", (call("Sums-add", a=17, b=25), ANSWER)),
            ("typed", (call("Sums-add", a=17, b=25), RESULT)),
        ),
    ),
    *(
        Stranger(
            name=f"inspect-ai, {provider}",
            script="inspect_task.py",
            environment="inspect-ai",
            arguments=(f"{provider}/tiny",),
            features=features,
        )
        for provider, features in (
            ("openai", ("tools", "typed", "errors")),
            ("anthropic", tuple(TURNS)),
        )
    ),
    Stranger(name="haystack", script="haystack_agent.py", environment="haystack"),
    Stranger(
        name="dspy",
        script="dspy_program.py",
        environment="dspy",
        turns=(
            (
                "tools",
                (
                    in_fields(next_thought="Add.", next_tool_name="add", next_tool_args=NUMBERS),
                    in_fields(next_thought="Done.", next_tool_name="finish", next_tool_args="{}"),
                    in_fields(reasoning="The tool said so.", answer=ANSWER),
                ),
            ),
            ("streaming", (in_fields(answer=ANSWER),)),
            ("typed", (RESULT,)),
        ),
    ),
    Stranger(name="google-adk, litellm", script="google_adk_agent.py", environment="google-adk"),
    Stranger(
        name="guidance",
        script="guidance_model.py",
        environment="guidance",
        turns=(("typed", (RESULT,)),),
        rewrites=True,
    ),
    Stranger(
        name="aider",
        script="aider_edit.py",
        environment="aider",
        features=("streaming", "errors"),
        turns=(("streaming", (f"sum.txt\n```\n{ANSWER}\n```",)),),
    ),
    *(
        Stranger(
            name=f"outlines, {server}",
            script="outlines_model.py",
            environment="outlines",
            arguments=(server,),
            features=("streaming", "typed", "errors"),
            turns=(("typed", (RESULT,)),),
        )
        for server in ("openai", "vllm")
    ),
)
for one in STRANGERS:
    expect(one.name, lacks=[feature for feature in TURNS if feature not in one.features])
EVERY = [
    pytest.param(one, feature, id=f"{one.name} {feature}".replace(" ", "-"))
    for one in STRANGERS
    for feature in one.features
]


def command_of(one: Stranger, feature: str, folder: Path) -> list[str]:
    """How the script is run; the test is skipped where its client is not installed."""
    script = SCRIPTS / one.script
    clients = Path(os.environ.get("PRACTICUM_CLIENTS", REPOSITORY / ".clients"))
    if one.environment == HERE:
        package = one.script.partition("_")[0]
        pytest.importorskip(package, reason=f"needs {package}; pip install {package}")
        return [sys.executable, "-I", str(script), feature, *one.arguments]
    if one.environment == NODE:
        modules = clients / NODE / "node_modules"
        program = shutil.which("node")
        if not modules.is_dir() or program is None:
            pytest.skip(f"there is no node, or no {modules}; type: make clients")
        (folder / "node_modules").symlink_to(modules)
        copied = shutil.copy(script, folder)  # modules are looked for beside the script
        return [program, str(copied), feature, *one.arguments]
    python = clients / one.environment / "bin" / "python"
    if not python.exists():
        pytest.skip(f"there is no {python}; type: make clients")
    return [str(python), "-I", str(script), feature, *one.arguments]


async def run(command: list[str], served: Served, folder: Path) -> tuple[str, str]:
    """What the script prints last, and all that it prints, in one line: some fold their logs."""
    _, said, complained = await run_script(command, served, folder, PATIENCE_S)
    return "".join(said.strip().splitlines()[-1:]), " ".join(f"{said} {complained}".split())


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize(("one", "feature"), EVERY)
async def test_it_works_unmodified(
    one: Stranger, feature: str, policy: TorchPolicy, tmp_path: Path
) -> None:
    turns = dict(one.turns).get(feature, TURNS[feature])
    async with serving(policy, turns) as served:
        command = command_of(one, feature, tmp_path)
        note(one.name, feature, "no")
        if feature == "errors":
            key = f"{served.endpoint.key[:-1]}{'0' if served.endpoint.key[-1] != '0' else '1'}"
            wrong = replace(served, endpoint=replace(served.endpoint, key=key))
            _, complained = await run(command, wrong, tmp_path)
            assert "the key is missing or wrong" in complained
            assert re.search(r"\b\w*(Error|Exception)\b", complained)
            assert not served.sampled
        else:
            said, complained = await run(command, served, tmp_path)
            assert said, complained[-2000:]
            assert said == dict(one.said).get(feature, SAID[feature])
            assert served.check_all_recorded() == sum(len(t.encode()) + 1 for t in turns)
            assert one.rewrites or served.conversation.graph.retokenised == 0
        note(one.name, feature, "yes")


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("one", [pytest.param(one, id=one.name) for one in STRANGERS])
async def test_every_token_of_the_model_is_recorded(
    one: Stranger, policy: TorchPolicy, tmp_path: Path
) -> None:
    async with serving(policy, limits=RolloutLimits(max_turns=12)) as served:
        for feature in one.features:
            if feature != "errors":
                folder = tmp_path / feature
                folder.mkdir()
                await run(command_of(one, feature, folder), served, folder)
        note(one.name, TOKENS, f"all {served.check_all_recorded()}")
        note(one.name, APART, f"{check_recomputed(policy, served):.0e}")


def test_the_page_has_a_row_for_each_client() -> None:
    assert set(clients()) <= shown_names()
