"""`record` and `Recorder`: agents that are Python functions, recorded as they run."""

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, overload

from practicum.core.errors import PracticumError, UserError
from practicum.core.json_values import as_json, well_formed
from practicum.core.trace import Failure, StopReason, ToolSpec
from practicum.recording.recording import Recording, _current, current_recording
from practicum.redaction import Redactor
from practicum.store import SqliteTraceStore

__all__ = ["Recorder", "record"]

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_STORE = Path("traces.sqlite")
LONGEST_MESSAGE = 2000
"""Characters that are kept of what an exception says."""


class Recorder:
    """Writes episodes of agents in this process into a store, one as soon as it ends.

    Safe to use from many threads and tasks at once. Secrets are taken out before anything is
    stored, unless `redact` is False.

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
        """Record what happens inside the block as one episode.

        An exception is recorded and raised again. Inside another episode this one is its own, and
        names the other as its parent.
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
        """Record every call of an agent as an episode; what it is given and what it gives back.

        Args:
            function: The agent, an ordinary function or an `async` one.
            prompt: The parameter that holds what the agent is told; the first text if empty.
        """
        _refuse_generators(function)
        signature = inspect.signature(function)

        def begin(recording: Recording, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            _note_input(recording, signature.bind(*given, **named).arguments, prompt)

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
        """Record every use of a tool in the episode that runs around it; none elsewhere."""
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
            kind=type(error).__name__, message=well_formed(str(error))[:LONGEST_MESSAGE]
        )
        try:
            self._store(
                recording,
                StopReason.CANCELLED if cancelled else StopReason.AGENT_FAILED,
                failure,
            )
        except PracticumError as problem:  # the agent's own error is the one to be seen
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
        # An open store belongs to one thread, so each episode opens it anew.
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
        store: Where episodes go; made where there is none.
        prompt: The parameter that holds what the agent is told; the first text if empty.
        env: What the episodes are filed under.
        model: The model that acts, for the record.
        redact: Whether secrets are taken out first.
    """
    recorder = Recorder(store, env=env, model=model, redact=redact)
    if agent is not None:
        return recorder.agent(agent, prompt=prompt)
    return functools.partial(recorder.agent, prompt=prompt)


def _note_input(recording: Recording, arguments: Mapping[str, Any], prompt: str) -> None:
    """Write down what the agent was told, and all its arguments as evidence."""
    if prompt and prompt not in arguments:
        raise UserError(
            f"prompt={prompt!r} is no argument of the recorded agent; "
            f"it was given {', '.join(arguments) or 'none'}"
        )
    kept = {name: as_json(value) for name, value in arguments.items() if name != "self"}
    told = arguments[prompt] if prompt else next(filter(_is_told, arguments.values()), None)
    if isinstance(told, str):
        recording.user(told)
    elif _is_told(told):
        recording.given(told)  # type: ignore[arg-type]
    elif told is not None:
        recording.user(str(told))
    recording.evidence["arguments"] = kept


def _is_told(value: Any) -> bool:
    """Whether it is a text, or a list of messages."""
    return isinstance(value, str) or (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, Mapping) and "role" in one for one in value)
    )


def _is_async(function: Callable[..., Any]) -> bool:
    called = getattr(function, "__call__", None)  # noqa: B004 - asked for what it is, not whether
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def _refuse_generators(function: Callable[..., Any]) -> None:
    if not callable(function):
        raise UserError(f"{function!r} cannot be recorded; give a function")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UserError(
            f"{getattr(function, '__name__', function)!r} is a generator, whose end nobody knows; "
            "record the function that uses it, or open an episode: with recorder.episode(...)"
        )
