"""What an ART-style script collects: conversations with a reward, in groups to be compared."""

import asyncio
import contextlib
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Generator, Iterable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from inspect import isawaitable
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

LEARNING_RATE = 5e-6
"""ART's; small models on small tasks want a higher one."""


class TrainConfig(BaseModel):
    """What `model.train` is told."""

    model_config = ConfigDict(extra="forbid")

    learning_rate: float = Field(default=LEARNING_RATE, gt=0.0)
    kl_penalty_coef: float = Field(default=0.0, ge=0.0)
    """What leaving the base model costs a token, taken off its advantage."""
    beta: float = Field(default=0.0, ge=0.0)
    """Weight of the distance to the base model in the loss, as earlier versions of ART name it."""
    grad_accumulation_sequences: int | None = Field(default=None, ge=1)
    """Taken for the sake of ART's scripts: how a batch is split up is found out here."""


@dataclass(slots=True)
class TrainResult:
    """What one call of `train` came to."""

    step: int
    """Steps completed, this one included."""
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class LocalTrainResult(TrainResult):
    """The same, and where the adapter was saved."""

    checkpoint_path: str | None = None


@dataclass(slots=True, kw_only=True)
class Counting:
    """Counts attempts as they end, and shows the count where someone watches."""

    total: int = 1
    max_exceptions: float = 0
    """How many may fail; below 1, which share of all."""
    label: str | None = None
    """What is shown before the count; nothing is shown without one."""
    ended: int = 0
    exceptions: int = 0
    rewards: list[float] | None = None

    def done(self, trajectory: Any) -> None:
        """One more attempt was made."""
        self.ended += 1
        self.rewards = [*(self.rewards or ()), float(trajectory.reward)]
        self._show()

    def failed(self, error: Exception) -> None:
        """One more attempt failed; raises it where that is one too many."""
        self.ended += 1
        self.exceptions += 1
        self._show()
        if self.exceptions > self._allowed:
            raise error

    @property
    def _allowed(self) -> float:
        is_share = 0 < self.max_exceptions < 1
        return self.max_exceptions * self.total if is_share else self.max_exceptions

    def _show(self) -> None:
        if self.label is None or not sys.stderr.isatty():
            return
        said = f"\r{self.label}: {self.ended}/{self.total}"
        if self.rewards:
            said += f", reward {fmean(self.rewards):.3f}"
        if self.exceptions:
            said += f", exceptions {self.exceptions}"
        sys.stderr.write(said)
        sys.stderr.flush()

    def close(self) -> None:
        """End the line that was shown."""
        if self.label is not None and self.ended and sys.stderr.isatty():
            sys.stderr.write("\n")


_current: ContextVar[Counting | None] = ContextVar("counting", default=None)


def counting_now() -> Counting:
    """The gathering that is under way; outside of one, a count of one's own without exceptions."""
    return _current.get() or Counting()


@contextlib.contextmanager
def counting_as(counting: Counting) -> Iterator[None]:
    """Count with `counting` in the block, and in the tasks that are started there."""
    token = _current.set(counting)
    try:
        yield
    finally:
        _current.reset(token)
        counting.close()


MetadataValue = float | int | str | bool | None
Message = dict[str, Any]
"""OpenAI's dictionary of a message."""
Messages = list[Message]
MessageOrChoice = Any
MessagesAndChoices = list[MessageOrChoice]
"""OpenAI's message dictionaries, and among them the choices that are to be trained on."""
Tools = list[Any]


def is_choice(entry: Any) -> bool:
    """Whether an entry is an answer of a model rather than a message that was given to it.

    Choices are told by their shape, so that `openai` need not be loaded to look, and so that one
    that has been through JSON is still one.

    >>> is_choice({"index": 0, "message": {"role": "assistant", "content": "4"}})
    True
    >>> is_choice({"role": "assistant", "content": "4"})
    False
    """
    if isinstance(entry, dict):
        return "message" in entry and "role" not in entry
    return hasattr(entry, "message")


def messages_of(messages_and_choices: Iterable[Any]) -> list[dict[str, Any]]:
    """The conversation as plain messages, each with a text."""
    return [_message(entry) for entry in messages_and_choices]


def _message(entry: Any) -> dict[str, Any]:
    if not is_choice(entry):
        given = dict(entry) if isinstance(entry, dict) else _plain(entry)
        return {**given, "content": "" if given.get("content") is None else given["content"]}
    said = entry["message"] if isinstance(entry, dict) else entry.message
    said = said if isinstance(said, dict) else _plain(said)
    message = {"role": "assistant", "content": said.get("content") or ""}
    if said.get("tool_calls"):
        message["tool_calls"] = said["tool_calls"]
    return message


def _plain(value: Any) -> dict[str, Any]:
    """A message that is an object of some client's."""
    found: dict[str, Any] = value.model_dump(mode="json", exclude_none=True)
    return found


class History(BaseModel):
    """A conversation of its own that belongs to a trajectory: a sub-agent's, or a compacted one."""

    messages_and_choices: MessagesAndChoices
    tools: Tools | None = None

    def messages(self) -> list[dict[str, Any]]:
        """It as plain messages."""
        return messages_of(self.messages_and_choices)


class Trajectory(BaseModel):
    """One attempt at a task.

    Example:
        ```
        trajectory = Trajectory(messages_and_choices=[{"role": "user", "content": "2 + 2?"}])
        completion = await client.chat.completions.create(
            model=model.get_inference_name(), messages=trajectory.messages()
        )
        trajectory.messages_and_choices.append(completion.choices[0])
        trajectory.reward = 1.0 if completion.choices[0].message.content == "4" else 0.0
        ```
    """

    messages_and_choices: MessagesAndChoices = []
    tools: Tools | None = None
    additional_histories: list[History] = []
    reward: float = 0.0
    initial_policy_version: int | None = None
    final_policy_version: int | None = None
    metrics: dict[str, float | int | bool] = {}
    metadata: dict[str, MetadataValue] = {}
    logs: list[str] = []
    start_time: datetime = Field(default_factory=lambda: datetime.now().astimezone(), exclude=True)

    def log(self, message: str) -> None:
        """Keep a line with the trajectory."""
        self.logs.append(message)

    def finish(self) -> "Trajectory":
        """Note how long it took, in seconds."""
        took = datetime.now().astimezone() - self.start_time.astimezone()
        self.metrics["duration"] = took.total_seconds()
        return self

    @asynccontextmanager
    async def track_duration(self, metric_name: str) -> AsyncIterator[None]:
        """Add what the block takes to `METRIC_NAME_duration`."""
        started = time.monotonic()
        try:
            yield
        finally:
            key = f"{metric_name}_duration"
            self.metrics[key] = self.metrics.get(key, 0.0) + time.monotonic() - started

    def messages(self) -> list[dict[str, Any]]:
        """The conversation as plain messages, to be sent to a model."""
        return messages_of(self.messages_and_choices)

    def for_logging(self) -> dict[str, Any]:
        """What is worth showing of it; each message says whether it is trained on."""
        said = [
            {**message, "trainable": is_choice(entry)}
            for message, entry in zip(self.messages(), self.messages_and_choices, strict=True)
        ]
        fields = ("reward", "metrics", "metadata", "tools", "logs")
        return {**{name: getattr(self, name) for name in fields}, "messages": said}

    def __str__(self) -> str:
        return f"Trajectory(reward={self.reward}, metrics={self.metrics}, metadata={self.metadata})"


class GroupException(BaseModel):
    """An attempt that failed, as text."""

    type: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> "GroupException":
        """What an exception says."""
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        return cls(type=str(type(error)), message=str(error), traceback="".join(lines))


class _GroupType(type(BaseModel)):  # type: ignore[misc]
    """Lets `TrajectoryGroup(...)` be called with attempts that are still to be made."""

    def __call__(cls, trajectories: Iterable[Any] = (), **fields: Any) -> Any:
        items = list(trajectories)
        if any(isawaitable(item) for item in items):
            return PendingGroup(items, fields, cls)
        failed = [item for item in items if isinstance(item, BaseException)]
        fields["exceptions"] = [*failed, *(fields.get("exceptions") or ())]
        made = [item for item in items if not isinstance(item, BaseException)]
        given = {name: value for name, value in fields.items() if value is not None}
        return super().__call__(trajectories=made, **given)


class TrajectoryGroup(BaseModel, metaclass=_GroupType):
    """Attempts at one task, whose rewards are compared with each other.

    Made from attempts that are there it is a group; made from coroutines it is to be awaited, and
    `gather_trajectory_groups` does that. Exceptions among the attempts are kept in `exceptions`.
    """

    trajectories: list[Trajectory]
    exceptions: list[GroupException] = []
    metadata: dict[str, MetadataValue] = {}
    metrics: dict[str, float | int | bool] = {}
    logs: list[str] = []

    @field_validator("trajectories", mode="wrap")
    @classmethod
    def _keep_objects(cls, value: Any, check: Any) -> Any:
        """Trajectories of a subclass stay what they are."""
        return value if all(isinstance(one, Trajectory) for one in value) else check(value)

    @field_validator("exceptions", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return [GroupException.of(e) if isinstance(e, BaseException) else e for e in value]

    def log(self, message: str) -> None:
        """Keep a line with the group."""
        self.logs.append(message)

    def __iter__(self) -> Iterator[Trajectory]:  # type: ignore[override]
        return iter(self.trajectories)

    def __len__(self) -> int:
        return len(self.trajectories)


class PendingGroup:
    """A group whose attempts are still to be made; awaiting it makes them all at once."""

    def __init__(self, attempts: list[Any], fields: dict[str, Any], kind: Any) -> None:
        self._attempts = attempts
        self._fields = fields
        self._kind = kind

    def __len__(self) -> int:
        return len(self._attempts)

    def __await__(self) -> Generator[Any, None, TrajectoryGroup]:
        return self._made().__await__()

    async def _made(self) -> TrajectoryGroup:
        """The group in the order of its attempts, once all have ended.

        Raises:
            Exception: that of an attempt, where more have failed than are allowed. The others are
                cancelled.
        """
        counting = counting_now()

        async def made(attempt: Awaitable[Trajectory] | Trajectory) -> Trajectory | Exception:
            try:
                trajectory = await attempt if isawaitable(attempt) else attempt
            except Exception as error:  # noqa: BLE001 - raised again where it is one too many
                counting.failed(error)
                return error
            counting.done(trajectory)
            return trajectory

        tasks = [asyncio.ensure_future(made(attempt)) for attempt in self._attempts]
        try:
            results = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        group: TrajectoryGroup = self._kind(results, **self._fields)
        return group
