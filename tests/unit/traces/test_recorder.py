import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import practicum
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.trace import Message, StopReason, ToolCall
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.recording import Recorder, current_recording, record

Said = Callable[[Episode], list[tuple[str, str]]]


def test_a_wrapped_function_is_an_episode_for_each_call(
    path: Path, stored: Callable[[], list[Episode]], said: Said
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
    path: Path, stored: Callable[[], list[Episode]], said: Said
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
    assert answer.duration_s >= 0.02
    assert episode.trace.duration_s >= 0.02
    assert abs(episode.trace.started_at - time.time()) < 600
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
    path: Path, stored: Callable[[], list[Episode]], said: Said
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


def test_calls_that_the_model_asked_for_are_found_in_what_it_said(
    path: Path, stored: Callable[[], list[Episode]], said: Said
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


def test_secrets_are_taken_out_unless_told_otherwise(
    path: Path, stored: Callable[[], list[Episode]], said: Said
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
    path: Path, stored: Callable[[], list[Episode]], said: Said
) -> None:
    @record(store=path)
    def agent(messages: list[dict[str, str]]) -> str:
        return "ok"

    agent([{"role": "system", "content": "rules"}, {"role": "user", "content": "go"}])
    (episode,) = stored()
    assert said(episode) == [("system", "rules"), ("user", "go"), ("assistant", "ok")]


def test_the_prompt_may_be_named(
    path: Path, stored: Callable[[], list[Episode]], said: Said
) -> None:
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
    path: Path, stored: Callable[[], list[Episode]], said: Said
) -> None:
    @record(store=path)
    def agent(name: str) -> str:
        return f"{name}!"

    assert agent("a\udcff") == "a\udcff!"
    assert said(stored()[0]) == [("user", "a\ufffd"), ("assistant", "a\ufffd!")]
