"""What a LifelongAgentBench client sends and expects, checked as it comes in."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AGENT_FAULTS",
    "ChatItem",
    "EvaluationOutcome",
    "LifelongSession",
    "MetricRow",
    "SampleStatus",
]


class SampleStatus(StrEnum):
    """How an episode stands, in that project's words."""

    INITIAL = "initial"
    RUNNING = "running"
    COMPLETED = "completed"
    AGENT_VALIDATION_FAILED = "agent_validation_failed"
    TASK_LIMIT_REACHED = "task_limit_reached"
    TASK_ENVIRONMENT_ERROR = "task_environment_error"
    TASK_UNKNOWN_ERROR = "task_unknown_error"
    AGENT_CONTEXT_LIMIT = "agent_context_limit"
    AGENT_OUT_OF_MEMORY = "agent_out_of_memory"
    AGENT_UNKNOWN_ERROR = "agent_unknown_error"


AGENT_FAULTS = frozenset(
    {
        SampleStatus.AGENT_CONTEXT_LIMIT,
        SampleStatus.AGENT_OUT_OF_MEMORY,
        SampleStatus.AGENT_UNKNOWN_ERROR,
    }
)
"""Set by the client when its model gave no turn; the episode ends there."""


class EvaluationOutcome(StrEnum):
    """What an episode came to."""

    UNSET = "unset"
    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNKNOWN = "unknown"
    IGNORED = "ignored"


class ChatItem(BaseModel):
    """One message."""

    role: Literal["user", "agent"]
    content: str


class ChatHistory(BaseModel):
    """All messages of an episode; the client keeps them and sends them every time."""

    value: list[ChatItem] = Field(default_factory=list)


class EvaluationRecord(BaseModel):
    """The verdict."""

    outcome: EvaluationOutcome = EvaluationOutcome.UNSET
    detail_dict: dict[str, float | int | bool | None] | None = None


class LifelongSession(BaseModel):
    """The whole record that travels in every request and every answer."""

    model_config = ConfigDict(extra="ignore")

    task_name: str
    sample_index: int | str
    sample_status: SampleStatus = SampleStatus.INITIAL
    chat_history: ChatHistory = Field(default_factory=ChatHistory)
    finish_reason: str | None = None
    task_output: dict[str, str | None] | None = None
    evaluation_record: EvaluationRecord = Field(default_factory=EvaluationRecord)

    def say(self, role: Literal["user", "agent"], content: str) -> None:
        """Add a message."""
        self.chat_history.value.append(ChatItem(role=role, content=content))

    def end(self, status: SampleStatus, reason: str | None = None) -> None:
        """The episode is over; what the agent answered is in its evidence, not in an output."""
        self.sample_status = status
        self.finish_reason = reason
        self.task_output = {}

    def as_json(self) -> dict[str, Any]:
        """As the client reads it."""
        return self.model_dump(mode="json")


class MetricRow(BaseModel):
    """What a client reports of one finished episode."""

    model_config = ConfigDict(extra="ignore")

    sample_index: int | str
    sample_status: SampleStatus
    evaluation_record: EvaluationRecord
