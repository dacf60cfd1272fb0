"""An episode in one row: what lists, tables and charts need without reading the whole of it."""

import time
from dataclasses import dataclass

from practicum.core.sample import Episode
from practicum.core.task import Task

__all__ = ["EpisodeSummary", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSummary:
    """The columns of `traces.sqlite`."""

    id: str
    attempt: int
    step: int
    purpose: str
    """What it was made for: `train`, `eval`, ..."""
    task_id: str
    level: int | None
    """None when the task was not given with the episode."""
    env: str
    score: float | None
    success: bool | None
    stop: str
    n_turns: int
    sampled_tokens: int
    created_at: float
    """Seconds since the epoch when it was stored; when it began, for one recorded elsewhere."""
    source: str = ""
    """What recorded it; empty for a rollout of Practicum's own."""
    model: str = ""


def summarise(
    episode: Episode, *, attempt: int, step: int, purpose: str, task: Task | None
) -> EpisodeSummary:
    """The row of an episode stored now."""
    trace, outcome = episode.trace, episode.outcome
    began = trace.started_at if trace.source else 0.0
    return EpisodeSummary(
        id=trace.id,
        attempt=attempt,
        step=step,
        purpose=purpose,
        task_id=trace.task_id,
        level=task.level if task else None,
        env=trace.env,
        score=episode.score.value,
        success=outcome.success if outcome else None,
        stop=trace.stop.value,
        n_turns=len(trace.turns),
        sampled_tokens=trace.sampled_tokens,
        created_at=began or time.time(),
        source=trace.source,
        model=trace.model,
    )
