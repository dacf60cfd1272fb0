"""One row of `metrics.jsonl` for one step."""

from statistics import fmean

from practicum.core.interfaces import UpdateReport
from practicum.core.task import JSON
from practicum.training.collect import CollectedStep
from practicum.training.reward_metrics import reward_metrics

__all__ = ["rollout_metrics", "update_metrics"]


def rollout_metrics(collected: CollectedStep) -> dict[str, JSON]:
    """What the episodes came to. Masked and unscored ones are counted, never averaged in."""
    episodes = [e for g in collected.groups for e in g.episodes]
    values = [v for g in collected.groups for v in g.values]
    outcomes = [e.outcome.success for e in episodes if e.is_usable and e.outcome is not None]
    known = [float(success) for success in outcomes if success is not None]
    return {
        "reward": fmean(values) if values else None,
        "success": fmean(known) if known else None,
        "episodes": len(episodes),
        "groups": len(collected.groups),
        "trained_groups": len(collected.trained),
        "flat_share": collected.flat_share,
        "masked_episodes": sum(e.trace.is_masked for e in episodes),
        "unscored_episodes": sum(not e.trace.is_masked and e.score.value is None for e in episodes),
        "turns": fmean(len(e.trace.turns) for e in episodes),
        "sampled_tokens": sum(e.trace.sampled_tokens for e in episodes),
        **reward_metrics(collected.groups),
    }


def update_metrics(report: UpdateReport) -> dict[str, JSON]:
    """What the update did."""
    return {
        "applied": report.applied,
        "loss": report.loss,
        "grad_norm": report.grad_norm,
        "entropy": report.entropy,
        "clip_share": report.clip_share,
        "value_loss": report.value_loss,
        "kl_to_base": report.kl_to_base,
        "logprob_gap": report.logprob_gap,
        "largest_gap": report.largest_gap,
        "update_tokens": report.tokens,
        "row_tokens": report.row_tokens,
        "fingerprint": report.fingerprint,
        **({} if report.truncated_share is None else {"truncated_share": report.truncated_share}),
    }
