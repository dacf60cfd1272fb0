import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import practicum
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.trace import Message, StopReason, ToolCall
from practicum.recording import Recorder, current_recording, record
from practicum.store import SqliteTraceStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces.sqlite"


@pytest.fixture
def stored(path: Path) -> Callable[[], list[Episode]]:
    def read() -> list[Episode]:
        with SqliteTraceStore(path, read_only=True) as store:
            return list(store.query())

    return read


def said(episode: Episode) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in episode.trace.messages()]


def test_a_wrapped_function_is_an_episode_for_each_call(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    @practicum.record(store=path, env="sums", model="tiny")
    def answer(question: str, strict: bool = False) -> str:
        """Doc."""
        return question.upper()

    assert answer("one") == "ONE"
    assert answer(question="two", strict=True) == "TWO"
    assert (answer.__name__, answer.__doc__) == ("answer", "Doc.")
    first, second = stored()
    assert said(first) == [("user", "one"), ("assistant", "ONE")]
    assert (first.trace.env, first.trace.model, first.trace.source) == ("sums", "tiny", "recorder")
    assert first.trace.turns == (1,)
    assert second.outcome is not None
    assert second.outcome.evidence["arguments"] == {"question": "two", "strict": True}
    assert first.trace.id != second.trace.id
    with SqliteTraceStore(path, read_only=True) as store:
        task = store.task("sums", first.trace.task_id)
        assert store.count_where("purpose = record") == 2
    assert task is not None
    assert task.instruction == "one"


def test_record_without_options_writes_beside_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert record(lambda text: text[::-1])("abc") == "cba"
    with SqliteTraceStore(tmp_path / "traces.sqlite", read_only=True) as store:
        assert store.count() == 1


def test_tools_reasoning_and_times_are_recorded(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    recorder = Recorder(path)

    @recorder.tool
    def look(where: str, deep: bool = False) -> dict[str, Any]:
        time.sleep(0.02)
        return {"files": 12, "where": Path(where)}

    @recorder.agent
    def agent(question: str) -> str:
        recording = current_recording()
        assert recording is not None
        recording.system("Be brief.")
        recording.think("I have to look.")
        found = look("/tmp", deep=True)
        recording.success = True
        recording.reward(0.5)
        recording.reward(0.25, "speed")
        return f"{found['files']} files"

    assert agent("how many?") == "12 files"
    (episode,) = stored()
    assert said(episode) == [
        ("user", "how many?"),
        ("system", "Be brief."),
        ("assistant", ""),
        ("tool", '{"files": 12, "where": "/tmp"}'),
        ("assistant", "12 files"),
    ]
    call = episode.trace.nodes[1].messages[0]
    assert call.reasoning == "I have to look."
    assert call.tool_calls == (
        ToolCall(name="look", arguments={"where": "/tmp", "deep": True}, id="call-1"),
    )
    answer = episode.trace.nodes[2]
    assert answer.messages[0].tool_call_id == "call-1"
    assert 0.02 <= answer.duration_s < 5
    assert episode.trace.duration_s >= 0.02
    assert abs(episode.trace.started_at - time.time()) < 60
    assert episode.outcome is not None
    assert episode.outcome.success is True
    assert episode.score.value == 0.75


def test_an_exception_in_the_agent_is_recorded_and_raised_again(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    @record(store=path)
    def agent(question: str) -> str:
        raise KeyError("nothing there")

    with pytest.raises(KeyError, match="nothing there"):
        agent("q")
    (episode,) = stored()
    assert episode.trace.stop is StopReason.AGENT_FAILED
    assert episode.trace.failure is not None
    assert (episode.trace.failure.kind, episode.trace.failure.message) == (
        "KeyError",
        "'nothing there'",
    )
    assert current_recording() is None


def test_a_failing_tool_is_an_answer_with_an_error(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    recorder = Recorder(path)

    @recorder.tool
    def look() -> str:
        raise OSError("no disk")

    @recorder.agent
    def agent(question: str) -> str:
        try:
            return look()
        except OSError:
            return "sorry"

    assert agent("q") == "sorry"
    (episode,) = stored()
    assert said(episode)[2:] == [("tool", "OSError: no disk"), ("assistant", "sorry")]
    assert [m.is_error for m in episode.trace.messages()] == [False, False, True, False]
    assert episode.trace.stop is StopReason.FINISHED


async def test_async_agents_at_once_do_not_mix(
    path: Path, stored: Callable[[], list[Episode]]
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


def test_calls_that_the_model_asked_for_are_found_in_what_it_said(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    recorder = Recorder(path)
    asked = ToolCall(name="look", arguments={"n": 1}, id="abc")
    with recorder.episode("q") as recording:
        recording.assistant("I look.", tool_calls=[asked])
        with recording.call("look", n=1) as call:
            call.result = "seen"
        recording.assistant("Seen.")
    (episode,) = stored()
    assert list(episode.trace.messages())[1:] == [
        Message(role="assistant", content="I look.", tool_calls=(asked,)),
        Message(role="tool", content="seen", tool_call_id="abc"),
        Message(role="assistant", content="Seen."),
    ]


def test_an_agent_inside_an_agent_has_an_episode_of_its_own(
    path: Path, stored: Callable[[], list[Episode]]
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


def test_many_threads_may_record_at_once(path: Path, stored: Callable[[], list[Episode]]) -> None:
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


def test_secrets_are_taken_out_unless_told_otherwise(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    key = "ghp_" + "aB3dE5fG7h" * 4

    def agent(question: str, password: str) -> str:
        return f"I used {question}"

    record(store=path)(agent)(key, password="sesam99")
    record(store=path, redact=False)(agent)(key, password="sesam99")
    clean, raw = stored()
    assert key not in repr(clean)
    assert "sesam99" not in repr(clean)
    assert said(clean)[1] == ("assistant", "I used [redacted:github-token]")
    assert key in repr(raw)


def test_messages_given_as_a_list_are_recorded_as_messages(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    @record(store=path)
    def agent(messages: list[dict[str, str]]) -> str:
        return "ok"

    agent([{"role": "system", "content": "rules"}, {"role": "user", "content": "go"}])
    (episode,) = stored()
    assert said(episode) == [("system", "rules"), ("user", "go"), ("assistant", "ok")]


def test_the_prompt_may_be_named(path: Path, stored: Callable[[], list[Episode]]) -> None:
    @record(store=path, prompt="task")
    def agent(name: str, task: str) -> str:
        return "ok"

    agent("ada", task="count")
    assert said(stored()[0])[0] == ("user", "count")

    @record(store=path, prompt="job")
    def other(name: str) -> str:
        return "ok"

    with pytest.raises(UserError, match="prompt='job' is no argument of the recorded agent"):
        other("ada")


def test_generators_are_refused_in_a_sentence(path: Path) -> None:
    def stream(question: str) -> Iterator[str]:
        yield question

    with pytest.raises(UserError, match="'stream' is a generator, whose end nobody knows"):
        record(store=path)(stream)
    with pytest.raises(UserError, match="cannot be recorded; give a function"):
        Recorder(path).agent(3)  # type: ignore[type-var]


def test_a_store_that_cannot_be_written_does_not_hide_the_agents_error(tmp_path: Path) -> None:
    @record(store=tmp_path / "nowhere" / "traces.sqlite")
    def agent(question: str) -> str:
        if question == "bad":
            raise ValueError("mine")
        return "fine"

    with pytest.raises(UserError, match="cannot be opened"):
        agent("good")
    with pytest.raises(ValueError, match="mine") as caught:
        agent("bad")
    assert "could not be recorded" in caught.value.__notes__[0]


def test_half_characters_are_recorded_as_replaced(
    path: Path, stored: Callable[[], list[Episode]]
) -> None:
    @record(store=path)
    def agent(name: str) -> str:
        return f"{name}!"

    assert agent("a\udcff") == "a\udcff!"
    assert said(stored()[0]) == [("user", "a\ufffd"), ("assistant", "a\ufffd!")]
