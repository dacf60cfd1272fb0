"""What in a run is worth a person's eye."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from practicum.monitor.hacking import find_hacking, shape_of
from practicum.monitor.reader import RunView, StepRow

__all__ = ["Alert", "find_alerts", "gap_limit"]

RECENT_STEPS = 5
"""Steps looked at: one odd step is noise, and a long window hides what is happening now."""
FLAT_SHARE_HIGH = 0.5
"""Above this, more than half of the work done teaches nothing."""
MASKED_SHARE_HIGH = 0.1
"""Above this, failures decide which episodes are learned from."""
GAP_SHARE_NEAR = 0.5
"""Share of the limit from which the sampler and the learner are drifting apart."""
ENTROPY_SHARE_LOW = 0.1
"""Below this share of what it was at first, the policy hardly explores."""
SOLVED = 0.9
"""Success from which low entropy and flat groups are what learning looks like at its end."""


class Alert(NamedTuple):
    """A sentence, and whether it is about something broken rather than something to watch."""

    text: str
    is_severe: bool


def find_alerts(view: RunView) -> list[Alert]:
    """The alerts of a run, the severe ones first."""
    recent = view.steps[-RECENT_STEPS:]
    found = [Alert(problem, True) for problem in view.problems]
    found += _refused_updates(view.steps)
    if recent:
        found += _gap(recent, view)
        found += _lost_episodes(recent)
        found += _flat_groups(recent)
        found += _entropy(view.steps)
        found += _hacking(view)
    return sorted(found, key=lambda alert: not alert.is_severe)


def gap_limit(view: RunView) -> float:
    """The sampler/learner distance at which the run stops, as `hardware.max_logprob_gap` says."""
    dtype = view.config.model.dtype
    if dtype == "auto":
        is_on_gpu = bool(view.attempts) and view.attempts[-1].device.startswith("cuda")
        dtype = "bfloat16" if is_on_gpu else "float32"
    return view.config.hardware.gap_limit(dtype)


def _refused_updates(steps: Sequence[StepRow]) -> list[Alert]:
    refused = [row.step for row in steps if row.is_refused]
    if not refused:
        return []
    return [
        Alert(
            f"{_count(len(refused), 'update')} refused as not finite, last at step "
            f"{refused[-1]}: a lower algorithm.lr helps",
            is_severe=True,
        )
    ]


def _gap(recent: Sequence[StepRow], view: RunView) -> list[Alert]:
    limit = gap_limit(view)
    gap = max((g for row in recent if (g := row.number("logprob_gap")) is not None), default=0.0)
    if gap < GAP_SHARE_NEAR * limit:
        return []
    return [
        Alert(
            f"sampler/learner gap {gap:.1e} is {gap / limit:.0%} of the {limit:.0e} at which the "
            "run stops",
            is_severe=gap >= limit,
        )
    ]


def _lost_episodes(recent: Sequence[StepRow]) -> list[Alert]:
    episodes = sum(row.number("episodes") or 0 for row in recent)
    found = []
    for field, why in (
        ("masked_episodes", "masked: the environment or the agent failed"),
        ("unscored_episodes", "not scored: the reward failed"),
    ):
        lost = int(sum(row.number(field) or 0 for row in recent))
        if lost:
            text = f"{lost} of the last {episodes:.0f} episodes {why}"
            found.append(Alert(text, is_severe=lost > MASKED_SHARE_HIGH * episodes))
    return found


def _flat_groups(recent: Sequence[StepRow]) -> list[Alert]:
    share, success = _mean(recent, "flat_share"), _mean(recent, "success")
    if share is None or share <= FLAT_SHARE_HIGH:
        return []
    advice = "the tasks may be too easy or too hard"
    if success is not None:
        advice = f"{'harder' if success >= SOLVED else 'easier'} tasks teach more"
    text = f"{share:.0%} of recent groups had equal scores"
    reached = "" if success is None else f" (success {success:.2f})"
    return [Alert(f"{text}{reached}: {advice}", is_severe=False)]


def _entropy(steps: Sequence[StepRow]) -> list[Alert]:
    if len(steps) < 2 * RECENT_STEPS:
        return []
    first, now = _mean(steps[:RECENT_STEPS], "entropy"), _mean(steps[-RECENT_STEPS:], "entropy")
    success = _mean(steps[-RECENT_STEPS:], "success")
    if first is None or now is None or now >= ENTROPY_SHARE_LOW * first:
        return []
    if success is not None and success >= SOLVED:
        return []
    reached = "" if success is None else f" at success {success:.2f}"
    return [
        Alert(
            f"entropy fell from {first:.2g} to {now:.2g}{reached}: the policy hardly explores",
            is_severe=False,
        )
    ]


def _hacking(view: RunView) -> list[Alert]:
    """Signs of a gamed reward; how they differ from honest learning is said in `hacking`."""
    signs = find_hacking(view.steps, view.evaluations, shape_of(view.config.reward))
    return [Alert(sign.text, sign.is_severe) for sign in signs]


def _mean(rows: Sequence[StepRow], name: str) -> float | None:
    known = [value for row in rows if (value := row.number(name)) is not None]
    return fmean(known) if known else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
