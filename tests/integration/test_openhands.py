"""OpenHands as an agent: its own SDK and loop, commands in the sandbox, a model behind a server."""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.openhands_parts import TRACE, Notebook, loaded_agent, needs_openhands, work
from tests.integration.scripted_endpoint import KEY, Endpoint, calls, finish, run, says, scripted

from practicum.agents.openhands.openhands_agent import OpenHandsAgent, kept_folder
from practicum.core.errors import AgentFailure, EnvironmentFailure, UserError
from practicum.core.interfaces import Observation
from practicum.core.trace import Message, StopReason, ToolCall, ToolSpec
from practicum.traces.importers.import_openhands_v1 import is_conversation, read
from practicum_envs.shell.protocol import example_messages

pytestmark = needs_openhands


@pytest.fixture(scope="module")
def loaded() -> Iterator[OpenHandsAgent]:
    with loaded_agent() as agent:
        yield agent


@pytest.fixture
def agent(loaded: OpenHandsAgent, tmp_path: Path) -> OpenHandsAgent:
    loaded.max_turns, loaded.prompt, loaded.keep_in = 8, "short", tmp_path / "run"
    return loaded


async def test_commands_go_to_the_session_and_the_last_word_is_its_answer(
    agent: OpenHandsAgent,
) -> None:
    session = Notebook()
    with scripted([run("echo hi"), run("ls\nls -l"), finish("42")]) as at:
        report = await work(agent, session, at)
    assert report.stop is StopReason.FINISHED
    assert report.evidence == {"openhands": {"ended": "finished", "commands": 2}}
    assert [(c.name, dict(c.arguments)) for c in session.called] == [
        ("bash", {"script": "echo hi"}),
        ("bash", {"script": "ls\nls -l"}),
        ("answer", {"answer": "42"}),
    ]
    assert at.last_seen == "ran ls\nls -l"


async def test_a_short_prompt_has_the_task_and_two_tools_and_leaves_sampling_to_the_server(
    agent: OpenHandsAgent,
) -> None:
    with scripted([finish("")]) as at:
        await work(agent, Notebook(), at)
    (request,) = at.requests
    assert [m["role"] for m in request["messages"]] == ["system", "user"]
    assert at.last_seen == "Say hi."
    assert [tool["function"]["name"] for tool in request["tools"]] == ["terminal", "finish"]
    assert list(request["tools"][0]["function"]["parameters"]["properties"]) == ["command"]
    assert len(str(request)) < 1500
    assert not {"temperature", "top_p", "seed", "max_tokens", "reasoning_effort"} & set(request)


async def test_the_prompt_of_openhands_is_its_own(agent: OpenHandsAgent) -> None:
    agent.prompt = "openhands"
    session = Notebook()
    stuck = calls(("terminal", {"command": "C-c", "is_input": True, "security_risk": "LOW"}))
    with scripted([stuck, finish("done")]) as at:
        await work(agent, session, at)
    assert len(str(at.requests[0])) > 10_000
    assert [call.name for call in session.called] == ["answer"]
    assert "a shell of its own" in at.last_seen


async def test_several_calls_of_a_turn_are_carried_out_in_order(agent: OpenHandsAgent) -> None:
    session = Notebook()
    both = calls(("terminal", {"command": "one"}), ("terminal", {"command": "two"}))
    with scripted([both, finish("done")]) as at:
        await work(agent, session, at)
    assert session.scripts == ["one", "two"]


async def test_a_call_that_cannot_be_read_is_answered_and_the_work_goes_on(
    agent: OpenHandsAgent,
) -> None:
    session = Notebook()
    wrong = calls(("terminal", {"path": "/"}), ("juggle", {}))
    with scripted([wrong, run("echo right"), finish("done")]) as at:
        report = await work(agent, session, at)
    told = [m["content"][0]["text"] for m in at.requests[1]["messages"] if m["role"] == "tool"]
    assert "Error validating tool 'terminal'" in told[0]
    assert "Tool 'juggle' not found" in told[1]
    assert session.scripts == ["echo right"]
    assert report.stop is StopReason.FINISHED


async def test_a_message_without_a_call_ends_the_work(agent: OpenHandsAgent) -> None:
    session = Notebook()
    with scripted([says("I will not.")]) as at:
        report = await work(agent, session, at)
    assert report.stop is StopReason.FINISHED
    assert [(c.name, dict(c.arguments)) for c in session.called] == [
        ("answer", {"answer": "I will not."})
    ]
    assert report.evidence["status"] == "agent_validation_failed"


async def test_the_sessions_own_end_stops_openhands(agent: OpenHandsAgent) -> None:
    session = Notebook(rounds=2)
    with scripted([run("one"), run("two"), run("three")]) as at:
        report = await work(agent, session, at)
    assert report.stop is StopReason.FINISHED
    assert session.scripts == ["one", "two"]
    assert len(at.requests) == 2


async def test_an_example_comes_before_the_task_as_turns_of_openhands(
    agent: OpenHandsAgent,
) -> None:
    class Shown(Notebook):
        def prompt(self) -> list[Message]:
            system, asked = super().prompt()
            return [system, *example_messages("tools"), asked]

    session = Shown()
    with scripted([run("echo hi"), finish("42")]) as at:
        report = await work(agent, session, at)
    messages = at.requests[0]["messages"]
    roles = ["system", "user", "assistant", "tool", "assistant", "tool", "user"]
    assert [message["role"] for message in messages] == roles
    shown = [m["tool_calls"][0]["function"] for m in messages if m["role"] == "assistant"]
    assert [call["name"] for call in shown] == ["terminal", "finish"]
    assert json.loads(shown[0]["arguments"])["command"].startswith("mkdir -p /srv/example")
    assert session.scripts == ["echo hi"], "the example is not carried out"
    assert report.evidence["openhands"] == {"ended": "finished", "commands": 1}


async def test_turns_run_out(agent: OpenHandsAgent) -> None:
    agent.max_turns = 2
    session = Notebook()
    with scripted([run("one"), run("two"), run("three")]) as at:
        report = await work(agent, session, at)
    assert report.stop is StopReason.MAX_TURNS
    assert session.scripts == ["one", "two"]


class FullEndpoint(Endpoint):
    """An address whose rollout has met a limit."""

    def limit_met(self) -> StopReason | None:
        return StopReason.CONTEXT_FULL


async def test_a_refused_turn_is_the_limit_it_met_or_a_failure(agent: OpenHandsAgent) -> None:
    with scripted([run("one"), 400]) as at:
        full = FullEndpoint(url=at.url, requests=at.requests)
        report = await work(agent, Notebook(), full)
        assert report.stop is StopReason.CONTEXT_FULL
        with pytest.raises(AgentFailure, match=r"ended as 'error'.*no more room"):
            await work(agent, Notebook(), at)
    assert len(at.requests) == 3, "a refused turn is not asked for again"


async def test_events_are_kept_with_the_trace_and_hold_no_key(agent: OpenHandsAgent) -> None:
    with scripted([run("echo hi"), finish("42")]) as at:
        await work(agent, Notebook(), at)
        # Another try of the same episode takes the place of the first.
        await work(agent, Notebook(), at)
    assert agent.keep_in is not None
    folder = kept_folder(agent.keep_in, TRACE)
    assert folder == agent.keep_in / "openhands/step-1/0/a_task/2"
    assert is_conversation(folder)
    (part,) = read(folder, 0)
    (found,) = part.found
    said = [
        (m.role, m.content, [c.name for c in m.tool_calls]) for m in found.episode.trace.messages()
    ]
    assert said[1] == ("user", "Say hi.", [])
    assert ("assistant", "", ["finish"]) in said
    texts = [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]
    assert texts
    assert not any(KEY in text for text in texts)


async def test_a_conversation_that_is_given_up_leaves_no_process(agent: OpenHandsAgent) -> None:
    before = children()
    with scripted([run("one"), run("two")], delay_s=0.5) as at:
        working = asyncio.create_task(work(agent, Notebook(), at))
        while not at.requests:
            await asyncio.sleep(0.05)
        assert len(children()) == len(before) + 1
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert children() == before


def children() -> set[int]:
    """Processes whose ancestors include this one and that run the runner."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            alive = "State:\tZ" not in (entry / "status").read_text()
        except OSError:
            continue
        if b"openhands/runner.py" in words and alive and _is_ours(int(entry.name)):
            found.add(int(entry.name))
    return found


def _is_ours(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return False
        pid = int(re.findall(r"PPid:\t(\d+)", status)[0])
    return False


async def test_an_environment_that_breaks_is_not_the_agents_fault(agent: OpenHandsAgent) -> None:
    class Broken(Notebook):
        async def call(self, call: ToolCall) -> Observation:
            raise OSError("the machine is gone")

    with scripted([run("one")]) as at, pytest.raises(EnvironmentFailure, match="machine is gone"):
        await work(agent, Broken(), at)


async def test_a_session_without_commands_is_refused_in_a_sentence(agent: OpenHandsAgent) -> None:
    class Bare(Notebook):
        def tools(self) -> list[ToolSpec]:
            return [ToolSpec(name="juggle")]

    with scripted([]) as at, pytest.raises(UserError, match=r"it has: juggle.*protocol: tools"):
        await work(agent, Bare(), at)
