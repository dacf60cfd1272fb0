"""What an agent says of its own work, as evidence that a stored episode is scored from again."""

from dataclasses import replace

from practicum.core.score import Score
from practicum.core.task import JSON, Outcome
from practicum.core.working import REPORTED, AgentReport

__all__ = ["with_report"]


def with_report(outcome: Outcome, report: AgentReport) -> Outcome:
    """The environment's evidence, and the agent's beside it; the agent's word on success wins.

    >>> from practicum.core.trace import StopReason
    >>> half = AgentReport(stop=StopReason.FINISHED, score=Score(components={"tidy": 0.5}))
    >>> with_report(Outcome(success=None), half).evidence["reported"]["components"]
    {'tidy': 0.5}
    """
    if report.score is None and report.success is None and not report.evidence:
        return outcome
    evidence: dict[str, JSON] = {**outcome.evidence, **report.evidence}
    if report.score is not None:
        evidence[REPORTED] = _as_json(report.score)
    success = outcome.success if report.success is None else report.success
    return replace(outcome, success=success, evidence=evidence)


def _as_json(score: Score) -> JSON:
    return {
        "components": dict(score.components),
        "weights": dict(score.weights),
        "turn_values": list(score.turn_values),
        "reason": score.reason,
    }
