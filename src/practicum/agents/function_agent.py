"""`FunctionAgent`: an agent that is a user's function, `async def rollout(task, client) -> float`.

A function that blocks, such as one with a blocking client inside `async def`, would deadlock with
the event loop that serves the model. So async functions share an event loop in a thread of their
own, and each blocking function has its own thread. Threads cannot be killed: one that hangs is
abandoned, and being a daemon it does not keep the process alive.
"""

import asyncio
import importlib
import inspect
import json
import math
import threading
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from practicum.core.capabilities import actions_of, tools_of
from practicum.core.conversation import (
    AgentReport,
    Assignment,
    Endpoint,
    Limited,
    ReachableConversation,
)
from practicum.core.errors import AgentFailure, MissingExtra, as_failure, user_line
from practicum.core.sampling import ActionForm
from practicum.core.score import Score
from practicum.core.trace import StopReason, ToolCall, ToolSpec
from practicum.core.user_code import call_in_thread, place_of

TIMEOUT_S = 600.0

ANSWER_S = 2.0
"""A loop that does not react so many seconds after a cancellation counts as blocked for good."""


class FunctionThreads:
    """Runs functions in threads; replaces the shared event loop when a function has blocked it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Runs an async function on the shared event loop."""
        loop = self._running_loop()
        pending = asyncio.run_coroutine_threadsafe(_guarded(call), loop)
        try:
            return await asyncio.wrap_future(pending)
        except asyncio.CancelledError:
            pending.cancel()
            await self._abandon_if_blocked(loop)
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name="practicum functions", daemon=True
            ).start()
        return self._loop

    async def _abandon_if_blocked(self, loop: asyncio.AbstractEventLoop) -> None:
        answered: Future[None] = Future()
        loop.call_soon_threadsafe(answered.set_result, None)
        try:
            await asyncio.wait_for(asyncio.wrap_future(answered), ANSWER_S)
        except TimeoutError:
            if self._loop is loop:
                self._loop = None


async def _guarded(call: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await call()
    except SystemExit as error:  # it would end the shared loop's thread
        raise as_failure(error) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedSession:
    """A session for use in another thread: its coroutines run on the session's own event loop.

    In an async function `call`, `act` and `outcome` are awaited; in a blocking one they return the
    result.
    """

    session: Any
    loop: asyncio.AbstractEventLoop
    blocking: bool

    @classmethod
    def of(cls, session: Any, *, blocking: bool) -> "ThreadedSession":
        """Wraps a session of the running event loop."""
        return cls(session=session, loop=asyncio.get_running_loop(), blocking=blocking)

    def prompt(self) -> Any:
        """The messages that open the conversation."""
        return self.session.prompt()

    def tools(self) -> list[ToolSpec]:
        """The session's tools; none in a discrete session."""
        return tools_of(self.session)

    def actions(self) -> tuple[ActionForm, ...]:
        """The actions allowed now; none in a session with tools."""
        return actions_of(self.session)

    def call(self, call: ToolCall) -> Any:
        """Runs a tool call."""
        return self._on_own_loop(self.session.call(call))

    def act(self, text: str) -> Any:
        """Performs the action written as `text`."""
        return self._on_own_loop(self.session.act(text))

    def outcome(self) -> Any:
        """The evidence so far."""
        return self._on_own_loop(self.session.outcome())

    def _on_own_loop(self, coroutine: Coroutine[Any, Any, Any]) -> Awaitable[Any] | Any:
        pending = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        return pending.result() if self.blocking else asyncio.wrap_future(pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAgent:
    """Calls `function(task, client)`, or `function(task, client, session)` if it takes three.

    What it returns is its score. A function that takes the session, or whose run has a reward of
    its own, may return None; then what it left behind is scored. The function may be async or not;
    it runs in a thread apart from the model's, so that one that blocks or hangs stops neither the
    model nor the run.
    """

    function: Callable[..., Any]
    name: str = "the function"
    """For error messages."""
    success_at: float = 1.0
    """The score from which an episode counts as a success."""
    is_scored_elsewhere: bool = False
    """Whether the run has a reward of its own."""
    threads: FunctionThreads = field(default_factory=FunctionThreads)

    async def work(
        self, assignment: Assignment, session: Any, conversation: ReachableConversation
    ) -> AgentReport:
        """Calls the function and reports its score."""
        called = type(self.function).__call__ if not inspect.isroutine(self.function) else None
        is_async = inspect.iscoroutinefunction(called or self.function)
        takes_session = takes_three(self.function)
        more = (ThreadedSession.of(session, blocking=not is_async),) if takes_session else ()
        endpoint = conversation.endpoint()

        async def call() -> Any:
            async with open_client(endpoint, blocking=False) as client:
                return await self.function(assignment.task, client, *more)

        def call_blocking() -> Any:
            with open_client(endpoint, blocking=True) as client:
                return self.function(assignment.task, client, *more)

        try:
            result = await (self.threads.run(call) if is_async else call_in_thread(call_blocking))
        except Exception as error:
            message = f"{self.name}: {type(error).__name__}: {error}{user_line(error)}"
            limit = conversation.limit_met() if isinstance(conversation, Limited) else None
            if limit is None:
                raise AgentFailure(message) from error
            return self.cut_off(limit, message)
        if result is None and (more or self.is_scored_elsewhere):
            return AgentReport(stop=StopReason.FINISHED)
        score = score_of(result, f"{self.name}{place_of(self.function)}")
        value = score.value
        return AgentReport(
            stop=StopReason.FINISHED,
            score=score,
            success=None if value is None else value >= self.success_at,
        )

    def cut_off(self, stop: StopReason, reason: str = "") -> AgentReport:
        """See `ScoresItself`: 0, unless the session or the run's own reward says what it is worth.

        A limit that ends the function is the policy's doing, and not the program's failure.
        """
        if self.is_scored_elsewhere:
            return AgentReport(stop=stop)
        if takes_three(self.function):
            is_late = stop is StopReason.TIMED_OUT
            return AgentReport(stop=stop, success=False if is_late else None)
        score = Score(components={"score": 0.0}, reason=reason)
        return AgentReport(stop=stop, score=score, success=False)


def takes_three(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with three arguments.

    >>> takes_three(lambda task, client: 0.0), takes_three(lambda task, client, session: 0.0)
    (False, True)
    """
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    return True


def score_of(result: Any, name: str) -> Score:
    """A function's result as a score; raises `AgentFailure` if it is none.

    >>> score_of({"right": 1, "short": 0.5}, "rollout").value
    1.5
    """
    if isinstance(result, Score):
        score = result
    elif isinstance(result, Mapping) and result:
        score = Score(components={str(k): _number(v, name) for k, v in result.items()})
    else:
        score = Score(components={"score": _number(result, name)})
    if score.value is not None and not math.isfinite(score.value):
        raise AgentFailure(f"{name} returned {score.value}; a score is a finite number")
    return score


def _number(value: Any, name: str) -> float:
    if hasattr(value, "item"):  # a numpy or torch scalar
        value = value.item()
    if not isinstance(value, int | float):
        raise AgentFailure(
            f"{name} returned {type(value).__name__}; return a number, a dict of numbers or a Score"
        )
    return float(value)


def open_client(endpoint: Endpoint, *, blocking: bool) -> Any:
    """A context manager that gives a client for one rollout.

    `openai.AsyncOpenAI` (`openai.OpenAI` for a blocking function) if `openai` is installed, or else
    a `PlainClient`.
    """
    try:
        import openai
    except ImportError:
        return nullcontext(PlainClient(base_url=f"{endpoint.url}/v1", api_key=endpoint.key))
    address: dict[str, Any] = {"base_url": f"{endpoint.url}/v1", "api_key": endpoint.key}
    # Plain HTTP on loopback: no proxy, and loading certificates for each client would be slow.
    direct: dict[str, Any] = {"verify": False, "trust_env": False, "timeout": TIMEOUT_S}
    if blocking:
        return openai.OpenAI(**address, http_client=openai.DefaultHttpxClient(**direct))
    return openai.AsyncOpenAI(**address, http_client=openai.DefaultAsyncHttpxClient(**direct))


def load_client() -> None:
    """Imports `openai` now, if it is installed, so that the first episode does not wait for it."""
    with suppress(ImportError):
        importlib.import_module("openai")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainClient:
    """The model's URL and key, for functions with a client of their own, and a minimal `post`."""

    base_url: str
    api_key: str

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(str(MissingExtra.for_extra("agents", f"client.{name}")))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Posts a JSON body, such as `client.post("chat/completions", {"messages": [...]})`.

        It blocks: use `await asyncio.to_thread(client.post, path, body)` in an async function.
        """
        request = urllib.request.Request(
            f"{self.base_url}/{path}",
            data=json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.api_key}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                result: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            message = error.read(2000).decode("utf-8", "replace")
            raise RuntimeError(f"the model's server answered {error.code}: {message}") from None
        return result
