"""Agents that run at once, inside each other, and in many threads."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.sample import Episode
from practicum.core.trace import StopReason
from practicum.traces.recording import Recorder, current_recording, record

Said = Callable[[Episode], list[tuple[str, str]]]


async def test_async_agents_at_once_do_not_mix(
    path: Path, stored: Callable[[], list[Episode]], said: Said
) -> None:
    recorder = Recorder(path)

    @recorder.tool
    async def look(n: int) -> int:
        await asyncio.sleep(0.001 * (5 - n))
        return n * 10

    @recorder.agent
    async def agent(question: str, n: int) -> str:
        first = await look(n)
        await asyncio.sleep(0)
        in_thread = await asyncio.to_thread(lambda: current_recording())
        assert in_thread is current_recording()
        return str(first)

    assert await asyncio.gather(*(agent(f"q{n}", n) for n in range(5))) == [
        "0",
        "10",
        "20",
        "30",
        "40",
    ]
    episodes = sorted(stored(), key=lambda e: said(e)[0])
    for n, episode in enumerate(episodes):
        assert said(episode) == [
            ("user", f"q{n}"),
            ("assistant", ""),
            ("tool", str(n * 10)),
            ("assistant", str(n * 10)),
        ]
        assert episode.trace.nodes[1].messages[0].tool_calls[0].arguments == {"n": n}


async def test_a_cancelled_agent_is_recorded_as_cancelled(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    @record(store=path)
    async def agent(question: str) -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(agent("q"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (episode,) = stored()
    assert episode.trace.stop is StopReason.CANCELLED
    assert episode.trace.is_masked


async def test_tools_used_at_once_are_one_turn_with_several_calls(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    recorder = Recorder(path)

    @recorder.tool
    async def look(n: int) -> int:
        await asyncio.sleep(0.01 if n else 0.02)
        return n

    @recorder.agent
    async def agent(question: str) -> str:
        await asyncio.gather(look(0), look(1))
        return "done"

    await agent("q")
    (episode,) = stored()
    messages = list(episode.trace.messages())
    assert [call.arguments for call in messages[1].tool_calls] == [{"n": 0}, {"n": 1}]
    answers = {m.tool_call_id: m.content for m in messages if m.role == "tool"}
    assert answers == {call.id: str(call.arguments["n"]) for call in messages[1].tool_calls}
    assert [m.role for m in messages] == ["user", "assistant", "tool", "tool", "assistant"]


def test_an_agent_inside_an_agent_has_an_episode_of_its_own(
    path: Path, stored: Callable[[], list[Episode]], said: Said
) -> None:
    recorder = Recorder(path)

    @recorder.agent
    def inner(question: str) -> str:
        return "inner answer"

    @recorder.tool
    def first_look(question: str) -> str:
        return look_deeper(question)

    @recorder.tool
    def look_deeper(question: str) -> str:
        return inner(f"about {question}")

    @recorder.agent
    def outer(question: str) -> str:
        return first_look(question).upper()

    assert outer("cats") == "INNER ANSWER"
    by_question = {said(e)[0][1]: e for e in stored()}
    assert said(by_question["about cats"]) == [
        ("user", "about cats"),
        ("assistant", "inner answer"),
    ]
    around = by_question["cats"]
    calls = [call.name for m in around.trace.messages() for call in m.tool_calls]
    assert calls == ["first_look"], "a tool inside a tool is that tool's matter"
    child = by_question["about cats"].outcome
    assert child is not None
    assert child.evidence["parent"] == around.trace.id


def test_many_threads_may_record_at_once(
    path: Path, stored: Callable[[], list[Episode]], said: Said
) -> None:
    recorder = Recorder(path)

    @recorder.agent
    def agent(question: str) -> str:
        return question

    threads = [threading.Thread(target=agent, args=(f"q{n}",)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(said(e)[0][1] for e in stored()) == sorted(f"q{n}" for n in range(12))


def test_one_episode_may_be_written_to_from_many_threads(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    with Recorder(path).episode("q") as recording:

        def work(number: int) -> None:
            for _ in range(20):
                with recording.call("look", n=number) as call:
                    call.result = number

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (episode,) = stored()
    messages = list(episode.trace.messages())
    asked = {call.id: call.arguments["n"] for m in messages for call in m.tool_calls}
    answered = {m.tool_call_id: int(m.content) for m in messages if m.role == "tool"}
    assert len(asked) == 80
    assert asked == answered
