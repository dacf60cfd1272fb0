"""`record` and `Recorder`: record Python agents as episodes in a store while they run."""

import asyncio
import functools
import inspect
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, overload

from practicum.core.errors import PracticumError, UserError
from practicum.core.json_values import as_json, well_formed
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import (
    Failure,
    Message,
    Role,
    StopReason,
    ToolCall,
    ToolSpec,
    Trace,
    recorded_nodes,
)
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.importers.lenient_json import as_text
from practicum.traces.redaction import Redactor

SOURCE = "recorder"
_current: ContextVar["Recording | None"] = ContextVar("practicum_recording", default=None)
_in_a_tool: ContextVar[bool] = ContextVar("practicum_in_a_tool", default=False)


def current_recording() -> "Recording | None":
    """The recording of the current context, if any; also in asyncio tasks and `to_thread`."""
    return _current.get()


@dataclass(slots=True)
class Call:
    """A running tool call; set `result` to the tool's result."""

    id: str
    result: Any = None


@dataclass(slots=True)
class Recording:
    """One episode while it is recorded. All methods are thread-safe.

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
    """Whether the task was solved; None where unknown."""
    rewards: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, JSON] = field(default_factory=dict)
    _messages: list[Message] = field(default_factory=list)
    _durations: dict[int, float] = field(default_factory=dict)
    _thoughts: list[str] = field(default_factory=list)
    _answered: set[str] = field(default_factory=set)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _started: float = field(default_factory=time.time)
    _clock: float = field(default_factory=time.perf_counter)
    _last_message_at: float = field(default_factory=time.perf_counter)

    def system(self, content: str) -> None:
        """Add a system message."""
        self._add("system", content)

    def user(self, content: str) -> None:
        """Add a user message."""
        self._add("user", content)

    def assistant(
        self, content: str, *, reasoning: str = "", tool_calls: Sequence[ToolCall] = ()
    ) -> None:
        """Add an assistant message; its duration is the time since the last message."""
        with self._lock:
            thoughts = [*self._thoughts, *([reasoning] if reasoning else [])]
            self._thoughts = []
            self._durations[len(self._messages)] = time.perf_counter() - self._last_message_at
            self._append(
                Message(
                    role="assistant",
                    content=content,
                    tool_calls=tuple(tool_calls),
                    reasoning="\n".join(thoughts),
                )
            )

    def think(self, content: str) -> None:
        """Add reasoning, which becomes part of the next assistant message."""
        with self._lock:
            self._thoughts.append(content)

    def reward(self, value: float, name: str = "reward") -> None:
        """Set a named component of the episode's score."""
        with self._lock:
            self.rewards[name] = float(value)

    @contextmanager
    def call(self, name: str, /, **arguments: Any) -> Iterator[Call]:
        """Record a tool call: arguments, result or error, and duration.

        Calls inside another recorded tool are not recorded.
        """
        if _in_a_tool.get():
            yield Call("")
            return
        call = self._find_call(name, {key: as_json(value) for key, value in arguments.items()})
        begun = time.perf_counter()
        inside = _in_a_tool.set(True)
        try:
            yield call
        except BaseException as error:
            self._add_result(call.id, f"{type(error).__name__}: {error}", begun, is_error=True)
            raise
        else:
            self._add_result(call.id, as_text(call.result), begun, is_error=False)
        finally:
            _in_a_tool.reset(inside)

    def finished(self, result: Any) -> None:
        """Record the agent's return value as its last message, unless it already is."""
        if result is None:
            return
        text = as_text(result)
        with self._lock:
            last = self._messages[-1] if self._messages else None
            if last is not None and last.role == "assistant" and last.content == text:
                return
            self.assistant(text)

    def episode(
        self, *, stop: StopReason = StopReason.FINISHED, failure: Failure | None = None
    ) -> tuple[Episode, Task]:
        """The records to store."""
        with self._lock:
            if self._thoughts:  # reasoning without a message after it
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
        """Add input messages in OpenAI's chat format."""
        for message in messages:
            role = str(message.get("role"))
            known: dict[str, Role] = {"system": "system", "developer": "system", "tool": "tool"}
            self._add(known.get(role, "user"), as_text(message.get("content")))

    def _add(self, role: Role, content: str) -> None:
        with self._lock:
            self._append(Message(role=role, content=content))

    def _append(self, message: Message) -> None:
        content, reasoning = well_formed(message.content), well_formed(message.reasoning)
        self._messages.append(replace(message, content=content, reasoning=reasoning))
        self._last_message_at = time.perf_counter()

    def _find_call(self, name: str, arguments: dict[str, JSON]) -> Call:
        """Find the call in the last assistant message, or add it there."""
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
                # No result since: these are parallel tool calls.
                self._messages[-1] = replace(last, tool_calls=(*open_calls, call))
            else:
                self.assistant("", tool_calls=[call])
            return Call(call.id)

    def _add_result(self, call_id: str, content: str, begun: float, is_error: bool) -> None:
        with self._lock:
            self._durations[len(self._messages)] = time.perf_counter() - begun
            self._append(
                Message(role="tool", content=content, tool_call_id=call_id, is_error=is_error)
            )


F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_STORE = Path("traces.sqlite")
MAX_ERROR_LEN = 2000
"""Characters kept of an exception's message."""


class Recorder:
    """Records agents in this process; each episode is stored when it ends.

    Thread-safe, and safe for concurrent asyncio tasks. Secrets are removed before storing, unless
    `redact` is False.

    Example:
        ```
        recorder = Recorder("traces.sqlite", env="support", model="qwen2.5-1.5b")

        @recorder.tool
        def order_status(order: int) -> str: ...

        @recorder.agent
        def answer(question: str) -> str: ...
        ```
    """

    def __init__(
        self,
        store: Path | str = DEFAULT_STORE,
        *,
        env: str = "recorded",
        model: str = "",
        tools: Sequence[ToolSpec] = (),
        redact: bool = True,
    ) -> None:
        self.path = Path(store)
        self.env = env
        self.model = model
        self.tools = tuple(tools)
        self._redact = redact
        self._writing = threading.Lock()

    @contextmanager
    def episode(
        self, prompt: str = "", *, task_id: str = "", model: str = "", env: str = ""
    ) -> Iterator[Recording]:
        """Record the block as one episode.

        An exception is recorded and raised again. A nested episode is stored on its own, with its
        parent's id in the evidence.
        """
        recording = Recording(
            env=env or self.env, task_id=task_id, model=model or self.model, tools=self.tools
        )
        parent = current_recording()
        if parent is not None:
            recording.evidence["parent"] = parent.id
        if prompt:
            recording.user(prompt)
        token = _current.set(recording)
        try:
            yield recording
        except BaseException as error:
            self._store_failed(recording, error)
            raise
        else:
            self._store(recording)
        finally:
            _current.reset(token)

    def agent(self, function: F, *, prompt: str = "") -> F:
        """Decorator: record every call of an agent as an episode.

        Args:
            function: The agent, sync or async.
            prompt: The parameter with the user's input; the first text if empty.
        """
        _refuse_generators(function)
        signature = inspect.signature(function)

        def begin(recording: Recording, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            _record_input(recording, signature.bind(*given, **named).arguments, prompt)

        if _is_async(function):

            @functools.wraps(function)
            async def recorded_async(*given: Any, **named: Any) -> Any:
                with self.episode() as recording:
                    begin(recording, given, named)
                    result = await function(*given, **named)
                    recording.finished(result)
                    return result

            return recorded_async  # type: ignore[return-value]

        @functools.wraps(function)
        def recorded(*given: Any, **named: Any) -> Any:
            with self.episode() as recording:
                begin(recording, given, named)
                result = function(*given, **named)
                recording.finished(result)
                return result

        return recorded  # type: ignore[return-value]

    def tool(self, function: F) -> F:
        """Decorator: record every call of a tool in the current episode, if there is one."""
        _refuse_generators(function)
        signature = inspect.signature(function)
        name = getattr(function, "__name__", type(function).__name__)

        def arguments(given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
            bound = signature.bind(*given, **named)
            return {key: value for key, value in bound.arguments.items() if key != "self"}

        if _is_async(function):

            @functools.wraps(function)
            async def used_async(*given: Any, **named: Any) -> Any:
                recording = current_recording()
                if recording is None:
                    return await function(*given, **named)
                with recording.call(name, **arguments(given, named)) as call:
                    call.result = await function(*given, **named)
                    return call.result

            return used_async  # type: ignore[return-value]

        @functools.wraps(function)
        def used(*given: Any, **named: Any) -> Any:
            recording = current_recording()
            if recording is None:
                return function(*given, **named)
            with recording.call(name, **arguments(given, named)) as call:
                call.result = function(*given, **named)
                return call.result

        return used  # type: ignore[return-value]

    def _store_failed(self, recording: Recording, error: BaseException) -> None:
        cancelled = isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit)
        failure = Failure(
            kind=type(error).__name__, message=well_formed(str(error))[:MAX_ERROR_LEN]
        )
        try:
            self._store(
                recording,
                StopReason.CANCELLED if cancelled else StopReason.AGENT_FAILED,
                failure,
            )
        except PracticumError as problem:  # must not hide the agent's own error
            error.add_note(f"and the episode could not be recorded: {problem}")

    def _store(
        self,
        recording: Recording,
        stop: StopReason = StopReason.FINISHED,
        failure: Failure | None = None,
    ) -> None:
        episode, task = recording.episode(stop=stop, failure=failure)
        if self._redact:
            redactor = Redactor()
            episode, task = redactor.episode(episode), redactor.task(task)
        # SQLite connections belong to one thread, so each episode opens its own.
        with self._writing, SqliteTraceStore(self.path) as store:
            store.add_imported([episode], tasks=[task], purpose="record")


@overload
def record(agent: F, /) -> F: ...


@overload
def record(
    *,
    store: Path | str = ...,
    prompt: str = ...,
    env: str = ...,
    model: str = ...,
    redact: bool = ...,
) -> Callable[[F], F]: ...


def record(
    agent: Any = None,
    /,
    *,
    store: Path | str = DEFAULT_STORE,
    prompt: str = "",
    env: str = "recorded",
    model: str = "",
    redact: bool = True,
) -> Any:
    """Record every call of an agent as an episode in a store.

    Example:
        ```
        import practicum

        @practicum.record(store="traces.sqlite", model="qwen2.5-1.5b")
        async def answer(question: str) -> str: ...
        ```

    Args:
        agent: The agent, when it is wrapped without options: `record(answer)`.
        store: The store, created if missing.
        prompt: The parameter with the user's input; the first text if empty.
        env: Environment name of the episodes.
        model: Model name of the episodes.
        redact: Whether to remove secrets.
    """
    recorder = Recorder(store, env=env, model=model, redact=redact)
    if agent is not None:
        return recorder.agent(agent, prompt=prompt)
    return functools.partial(recorder.agent, prompt=prompt)


def _record_input(recording: Recording, arguments: Mapping[str, Any], prompt: str) -> None:
    """Record the user's input, and all arguments as evidence."""
    if prompt and prompt not in arguments:
        raise UserError(
            f"prompt={prompt!r} is no argument of the recorded agent; "
            f"it was given {', '.join(arguments) or 'none'}"
        )
    kept = {name: as_json(value) for name, value in arguments.items() if name != "self"}
    value = arguments[prompt] if prompt else next(filter(_is_prompt, arguments.values()), None)
    if isinstance(value, str):
        recording.user(value)
    elif _is_prompt(value):
        recording.given(value)  # type: ignore[arg-type]
    elif value is not None:
        recording.user(str(value))
    recording.evidence["arguments"] = kept


def _is_prompt(value: Any) -> bool:
    """Whether it is a text or a list of chat messages."""
    return isinstance(value, str) or (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, Mapping) and "role" in one for one in value)
    )


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - the method itself is needed
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _refuse_generators(function: Callable[..., Any]) -> None:
    if not callable(function):
        raise UserError(f"{function!r} cannot be recorded; give a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UserError(
            f"{getattr(function, '__name__', function)!r} is a generator, whose end nobody knows; "
            "record the function that uses it, or open an episode: with recorder.episode(...)"
        )
