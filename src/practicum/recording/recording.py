"""One episode of an agent in this process, while it happens."""

import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from practicum.core.json_values import as_json, well_formed
from practicum.core.recorded import recorded_nodes
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Failure, Message, Role, StopReason, ToolCall, ToolSpec, Trace

__all__ = ["Call", "Recording", "current_recording"]

SOURCE = "recorder"
_current: ContextVar["Recording | None"] = ContextVar("practicum_recording", default=None)
_in_a_tool: ContextVar[bool] = ContextVar("practicum_in_a_tool", default=False)


def current_recording() -> "Recording | None":
    """The recording that runs around the caller, if any; in tasks and `to_thread` too."""
    return _current.get()


@dataclass(slots=True)
class Call:
    """A tool call under way; set `result` to what the tool answered."""

    id: str
    result: Any = None


@dataclass(slots=True)
class Recording:
    """What is said and done in one episode. Every method may be called from any thread.

    Example:
        ```
        with recorder.episode("How many files are there?") as recording:
            recording.think("I have to look.")
            with recording.call("bash", script="ls | wc -l") as call:
                call.result = run("ls | wc -l")
            recording.assistant("There are 12.")
            recording.success = True
        ```
    """

    env: str
    task_id: str = ""
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    success: bool | None = None
    """Whether the task was done, where somebody can say."""
    rewards: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, JSON] = field(default_factory=dict)
    _messages: list[Message] = field(default_factory=list)
    _durations: dict[int, float] = field(default_factory=dict)
    _thoughts: list[str] = field(default_factory=list)
    _answered: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _started: float = field(default_factory=time.time)
    _clock: float = field(default_factory=time.perf_counter)
    _spoke_at: float = field(default_factory=time.perf_counter)

    def system(self, content: str) -> None:
        """The rules the agent works under."""
        self._say("system", content)

    def user(self, content: str) -> None:
        """What the agent is told."""
        self._say("user", content)

    def assistant(
        self, content: str, *, reasoning: str = "", tool_calls: Sequence[ToolCall] = ()
    ) -> None:
        """What the model says, with the calls it asks for; its time since the last message."""
        with self._lock:
            thoughts = [*self._thoughts, *([reasoning] if reasoning else [])]
            self._thoughts = []
            self._durations[len(self._messages)] = time.perf_counter() - self._spoke_at
            self._append(
                Message(
                    role="assistant",
                    content=content,
                    tool_calls=tuple(tool_calls),
                    reasoning="\n".join(thoughts),
                )
            )

    def think(self, content: str) -> None:
        """A step of reasoning, which belongs to what the model says or calls next."""
        with self._lock:
            self._thoughts.append(content)

    def reward(self, value: float, name: str = "reward") -> None:
        """What the episode is worth, or a part of it by its name."""
        with self._lock:
            self.rewards[name] = float(value)

    @contextmanager
    def call(self, name: str, /, **arguments: Any) -> Iterator[Call]:
        """A tool at work: its arguments, what it answers, how long it takes, and its failure.

        A tool that is used inside another tool is a matter of that tool, and is not recorded.
        """
        if _in_a_tool.get():
            yield Call("")
            return
        call = self._asked(name, {key: as_json(value) for key, value in arguments.items()})
        begun = time.perf_counter()
        inside = _in_a_tool.set(True)
        try:
            yield call
        except BaseException as error:
            self._answer(call.id, f"{type(error).__name__}: {error}", begun, is_error=True)
            raise
        else:
            self._answer(call.id, _shown(call.result), begun, is_error=False)
        finally:
            _in_a_tool.reset(inside)

    def finished(self, result: Any) -> None:
        """What the agent gave back is its last word, unless it was recorded already."""
        if result is None:
            return
        text = _shown(result)
        with self._lock:
            last = self._messages[-1] if self._messages else None
            if last is not None and last.role == "assistant" and last.content == text:
                return
            self.assistant(text)

    def episode(
        self, *, stop: StopReason = StopReason.FINISHED, failure: Failure | None = None
    ) -> tuple[Episode, Task]:
        """All of it as the records that are stored."""
        with self._lock:
            if self._thoughts:  # the agent ended while it was thinking
                self.assistant("")
            messages = tuple(self._messages)
            instruction = next((m.content for m in messages if m.role == "user"), "")
            task_id = self.task_id or str(uuid.uuid5(uuid.NAMESPACE_OID, instruction))
            trace = Trace(
                id=self.id,
                task_id=task_id,
                env=self.env,
                nodes=recorded_nodes(messages, durations=self._durations),
                stop=stop,
                failure=failure,
                model=self.model,
                started_at=self._started,
                duration_s=time.perf_counter() - self._clock,
                tools=self.tools,
                source=SOURCE,
            )
            score = (
                Score(components=dict(self.rewards))
                if self.rewards
                else Score.unscored("nobody has scored it")
            )
            outcome = Outcome(success=self.success, evidence=dict(self.evidence))
            return (
                Episode(trace=trace, outcome=outcome, score=score),
                Task(id=task_id, env=self.env, split="train", instruction=instruction),
            )

    def given(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Messages in the form of chat requests, as the agent was given them."""
        for message in messages:
            role = str(message.get("role"))
            known: dict[str, Role] = {"system": "system", "developer": "system", "tool": "tool"}
            self._say(known.get(role, "user"), _shown(message.get("content")))

    def _say(self, role: Role, content: str) -> None:
        with self._lock:
            self._append(Message(role=role, content=content))

    def _append(self, message: Message) -> None:
        content, reasoning = well_formed(message.content), well_formed(message.reasoning)
        self._messages.append(replace(message, content=content, reasoning=reasoning))
        self._spoke_at = time.perf_counter()

    def _asked(self, name: str, arguments: dict[str, JSON]) -> Call:
        """Find the call in what the model said last, or write it down as part of that."""
        with self._lock:
            last = self._messages[-1] if self._messages else None
            open_calls = last.tool_calls if last is not None and last.role == "assistant" else ()
            for asked in open_calls:
                is_it = (asked.name, dict(asked.arguments)) == (name, arguments)
                if is_it and asked.id and asked.id not in self._answered:
                    self._answered.add(asked.id)
                    return Call(asked.id)
            call = ToolCall(name=name, arguments=arguments, id=f"call-{len(self._answered) + 1}")
            self._answered.add(call.id)
            if last is not None and open_calls and not self._thoughts:
                # Nothing was answered since: the model asked for several tools at once.
                self._messages[-1] = replace(last, tool_calls=(*open_calls, call))
            else:
                self.assistant("", tool_calls=[call])
            return Call(call.id)

    def _answer(self, call_id: str, content: str, begun: float, is_error: bool) -> None:
        with self._lock:
            self._durations[len(self._messages)] = time.perf_counter() - begun
            self._append(
                Message(role="tool", content=content, tool_call_id=call_id, is_error=is_error)
            )


def _shown(value: Any) -> str:
    """A result as the text a model would be shown."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(as_json(value), ensure_ascii=False)
