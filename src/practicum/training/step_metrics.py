"""`collect_step` (roll out a step's groups) and the metrics of a step in `metrics.jsonl`."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from practicum.core.interfaces import Algorithm, Curriculum, UpdateReport
from practicum.core.sample import Episode, Group
from practicum.core.task import JSON, Task
from practicum.core.trace import Trace, repeated_share, words_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedStep:
    """The groups of a step."""

    trained: tuple[Group, ...]
    """The informative ones, to train on."""
    groups: tuple[Group, ...]
    """All, including those whose scores are all equal."""

    @property
    def flat_share(self) -> float:
        """Share of groups that were not informative."""
        return 1.0 - len(self.trained) / len(self.groups)


async def collect_step(
    roll_out: Callable[[list[Task], int], Awaitable[list[Group]]],
    curriculum: Curriculum,
    algorithm: Algorithm,
    *,
    tasks_per_step: int,
    replace_share: float,
) -> CollectedStep:
    """Roll out groups until `tasks_per_step` are informative or the extra groups are used up.

    Args:
        roll_out: Rolls out a group for each task; its second argument numbers the rounds.
        curriculum: Gives the tasks.
        algorithm: Its `is_informative` decides.
        tasks_per_step: Groups wanted.
        replace_share: Extra groups allowed, as a share of `tasks_per_step`.
    """
    trained: list[Group] = []
    groups: list[Group] = []
    extras = math.ceil(replace_share * tasks_per_step)
    wanted, rounds = tasks_per_step, 0
    while wanted > 0:
        made = await roll_out(curriculum.next_tasks(wanted), rounds)
        for group in made:
            curriculum.observe(group)
            if algorithm.is_informative(group):
                trained.append(group)
        groups += made
        wanted = min(tasks_per_step - len(trained), extras)
        extras -= wanted
        rounds += 1
    return CollectedStep(trained=tuple(trained), groups=tuple(groups))


def reward_metrics(groups: Sequence[Group]) -> dict[str, JSON]:
    """Means over the usable episodes of a step.

    `reward_NAME` is a component before its weight. `decides_NAME` is the component's share of the
    score differences within groups, which are all the gradient depends on: the sum of
    |weight * (component - group mean)| over that of all components. A component that pays but
    decides nothing, long responses and much `repetition` (share of repeated word 3-grams) are
    signs of a reward being hacked.
    """
    usable = [episode for group in groups for episode in group.usable]
    if not usable:
        return {}
    labels = sorted({label for episode in usable for label in episode.score.components})
    metrics: dict[str, JSON] = {
        f"reward_{label}": fmean(
            c for e in usable if (c := e.score.components.get(label)) is not None
        )
        for label in labels
    }
    differences = {label: sum(_difference(g.usable, label) for g in groups) for label in labels}
    total = sum(differences.values())
    if len(labels) > 1 and total > 0.0:
        metrics |= {f"decides_{label}": differences[label] / total for label in labels}
    metrics["response_tokens"] = fmean(e.trace.sampled_tokens for e in usable)
    metrics["repetition"] = fmean(repeated_share(_words(e.trace)) for e in usable)
    return metrics


def _difference(episodes: Sequence[Episode], label: str) -> float:
    values = [
        episode.score.weights.get(label, 1.0) * component
        for episode in episodes
        if (component := episode.score.components.get(label)) is not None
    ]
    mean = fmean(values) if values else 0.0
    return sum(abs(value - mean) for value in values)


def _words(trace: Trace) -> list[str]:
    said = (m.content for t in trace.turns for m in trace.nodes[t].messages)
    return words_of("\n".join(said))


def rollout_metrics(collected: CollectedStep) -> dict[str, JSON]:
    """Metrics of the episodes. Masked and unscored ones are counted but not averaged in."""
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
    """Metrics of the update."""
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
        "out_of_memory": report.out_of_memory,
        "micro_batch_splits": report.micro_batch_splits,
        "gradient_checkpointing": report.gradient_checkpointing,
        **({} if report.truncated_share is None else {"truncated_share": report.truncated_share}),
    }
