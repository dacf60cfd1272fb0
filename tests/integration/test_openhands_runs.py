"""OpenHands behind the gateway and on real machines, up to an update from its episodes."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.serving import call, check_recomputed, serving
from tests.integration.machines import why_no_machine
from tests.integration.openhands_parts import Notebook, loaded_agent, needs_openhands, work
from tests.integration.scripted_endpoint import Endpoint, finish, run, scripted
from tests.unit.engine.reference import build_policy

from practicum.agents.openhands.openhands_agent import OpenHandsAgent
from practicum.assemble.environments import open_environment
from practicum.core.config.config_sections import EnvConfig
from practicum.core.conversation import RolloutLimits
from practicum.core.errors import AgentFailure
from practicum.core.sampling import SamplingParams
from practicum.core.task import Task
from practicum.core.tool_calls import read_tool_call
from practicum.core.trace import Message, StopReason
from practicum.engine.policy import TorchPolicy
from practicum.gateway.rollout_server import ProgramConversation, RolloutServer
from practicum.traces.importers.import_openhands_v1 import is_conversation
from practicum_envs.shell.protocol import TOOLS

pytestmark = needs_openhands
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def loaded() -> Iterator[OpenHandsAgent]:
    with loaded_agent() as agent:
        yield agent


@pytest.fixture
def agent(loaded: OpenHandsAgent, tmp_path: Path) -> OpenHandsAgent:
    loaded.max_turns, loaded.prompt, loaded.keep_in = 8, "short", tmp_path / "run"
    return loaded


@pytest.fixture(scope="module")
def policy() -> TorchPolicy:
    return build_policy()


async def test_every_token_that_openhands_had_sampled_is_in_the_trace(
    agent: OpenHandsAgent, policy: TorchPolicy
) -> None:
    async with serving(policy, limits=RolloutLimits(max_turns=8)) as served:
        here = served.endpoint
        report = await work(agent, Notebook(), Endpoint(url=here.url, key=here.key))
        assert report.stop is StopReason.FINISHED
        assert served.check_all_recorded() > 0
        check_recomputed(policy, served)


async def test_turns_are_trained_on_as_they_were_sampled(
    agent: OpenHandsAgent, policy: TorchPolicy
) -> None:
    turns = (
        call("terminal", command="echo one"),
        f"Two.\n{call('terminal', command='echo two')}\n{call('terminal', command='echo 3')}",
        call("finish", message="42"),
    )
    session = Notebook()
    async with serving(policy, turns) as served:
        here = served.endpoint
        await work(agent, session, Endpoint(url=here.url, key=here.key))
        assert session.scripts == ["echo one", "echo two", "echo 3"]
        assert served.check_all_recorded() == sum(len(turn.encode()) + 1 for turn in turns)
        assert served.conversation.graph.retokenised == 0
        assert len(served.trace().leaves()) == 1


async def test_a_prompt_that_does_not_fit_the_context_is_no_failure_of_the_policy(
    agent: OpenHandsAgent, policy: TorchPolicy
) -> None:
    class Wordy(Notebook):
        def prompt(self) -> list[Message]:
            return [Message(role="user", content="word " * 1000)]

    params = SamplingParams(max_tokens=64)
    conversation = ProgramConversation(policy.sampler, policy.codec, params, 5)
    session = Wordy()
    async with RolloutServer("tiny", RolloutLimits(max_turns=8))(conversation) as reached:
        with pytest.raises(AgentFailure, match="OpenHands ended as"):
            await work(agent, session, reached)
    assert session.called == []


@pytest.fixture(scope="module")
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")


@pytest.fixture
async def shell(_machines: None) -> AsyncIterator[Any]:
    environment = open_environment(
        EnvConfig.model_validate({"name": "shell", "protocol": "tools", "rounds": 9})
    )
    yield environment
    await environment.close()


async def test_nothing_of_the_host_is_within_reach_of_the_models_commands(
    agent: OpenHandsAgent, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text("bird-7391")
    monkeypatch.setenv("CANARY_VARIABLE", "bird-7391")
    task = next(shell.tasks("train", 0))
    tries = [
        f"cat {canary}",
        "env; cat /proc/*/environ | tr '\\0' '\\n'",
        f"grep -r 7391 /tmp /home /root {tmp_path} 2>/dev/null",
        "cat /proc/*/cmdline | tr '\\0' ' '",
    ]
    seen: list[str] = []
    with scripted([*map(run, tries), finish("done")]) as at:
        async with shell.open(task) as session:
            await work(agent, session, at)
        seen = [str(m["content"]) for m in at.requests[-1]["messages"] if m["role"] == "tool"]
    assert len(seen) == len(tries)
    assert not any("bird" in text for text in seen)
    assert "No such file" in seen[0]
    assert "runner.py" not in seen[3]
    assert canary.read_text() == "bird-7391"


async def test_a_task_is_solved_on_its_machine(agent: OpenHandsAgent, shell: Any) -> None:
    task = next(shell.tasks("train", 0))
    scripts = solution_of(shell, task)
    with scripted([*map(run, scripts), finish("")]) as at:
        async with shell.open(task) as session:
            await work(agent, session, at)
            outcome = await session.outcome()
    assert outcome.success is True, outcome.evidence


@pytest.mark.usefixtures("_machines")
async def test_an_office_task_is_done_behind_the_gateway_and_graded(
    agent: OpenHandsAgent, policy: TorchPolicy
) -> None:
    options = {"name": "office", "protocol": "tools", "output_chars": 300}
    office: Any = open_environment(EnvConfig.model_validate(options))
    task = office.find("office-train-announce-in-channel-s0-0")
    commands = [call("terminal", command=one) for one in solution_of(office, task)]
    try:
        async with (
            serving(policy, (*commands, call("finish", message="done"))) as served,
            office.open(task) as session,
        ):
            here = served.endpoint
            report = await work(agent, session, Endpoint(url=here.url, key=here.key))
            outcome = await session.outcome()
            assert served.check_all_recorded() > 0
            assert served.conversation.graph.retokenised == 0
    finally:
        await office.close()
    assert report.stop is StopReason.FINISHED
    assert outcome.success is True, outcome.evidence
    assert outcome.evidence["s_score"] == 1.0


def solution_of(shell: Any, task: Task) -> list[str]:
    """The commands of the reference, whose turns are tool calls written as text."""
    read_calls = [read_tool_call(turn, TOOLS) for turn in shell.reference(task)]
    return [str(call.arguments["script"]) for call in read_calls if call.name == "bash"]


@pytest.mark.slow
@pytest.mark.usefixtures("_machines")
def test_the_command_of_the_page_makes_an_update_from_its_episodes(
    practicum: Callable[..., Any], tmp_path: Path
) -> None:
    smaller = (
        "model=tiny",
        "rollouts.tasks_per_step=1",
        "rollouts.group_size=3",
        "rollouts.max_tokens=48",
        "eval.n=1",
        "hardware.threads=1",
    )
    answer = practicum(
        *("train", REPOSITORY / "configs/openhands_shell.yaml", "steps=1", *smaller),
        *(f"runs_dir={tmp_path}", "--name", "one"),
    )
    assert answer.code == 0, answer.err
    rows = map(json.loads, (tmp_path / "one" / "metrics.jsonl").read_text().splitlines())
    (step,) = [row for row in rows if row["kind"] == "step"]
    assert (step["episodes"], step["masked_episodes"], step["unscored_episodes"]) == (3, 0, 0)
    assert (step["applied"], step["trained_groups"]) == (True, 1)
    assert step["largest_gap"] < 1e-4
    kept = [path.parent for path in (tmp_path / "one/openhands").rglob("base_state.json")]
    assert len(kept) == 3 + 1, "those of the step, and of the last evaluation"
    assert all(is_conversation(folder) for folder in kept)
    imported = practicum("traces", "import", kept[0], "--store", tmp_path / "t.sqlite")
    assert imported.code == 0, imported.err
