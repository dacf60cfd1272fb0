"""What in a run is worth a person's eye, signs of a gamed reward among it.

Pure functions over the rows of a run. Almost all of them compare the first steps with the last
quarter, and all ask the same question: does success rise with what is paid? A reward that rises
together with success is no alarm, however it rises.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple, TypeVar

from practicum.analysis.alarms import Told, find_alarms
from practicum.analysis.evaluations import EvalPoint
from practicum.analysis.flat_advice import flat_advice
from practicum.analysis.idle_steps import why_all_alike
from practicum.analysis.run_view import RunView, StepRow
from practicum.core.checkpoint import are_many_masked
from practicum.core.config.reward_config import (
    ComponentConfig,
    FormatComponent,
    JudgeComponent,
    RewardConfig,
    SyntaxComponent,
)
from practicum.evaluation.report import find_masked, masked_words
from practicum.stats.differences import mean_errors, share_errors, step_noise

T = TypeVar("T")


FEWEST_STEPS = 12
"""Below this, the first and the last of the steps say nothing."""
SURE = 3.0
"""Standard errors from which a change between two windows of steps is taken for one."""
SUCCESS_SURE = 2.0
"""The same for success: here it is the lack of a change that makes an alarm."""
SOLVED_ENOUGH = 0.9
"""Success from which there is nothing left to rise, and what remains is the manner of it."""
LENGTH_FACTOR = 1.4
"""How much longer or shorter episodes must get."""
TURNS_FACTOR = 0.75
"""What share of their turns must be left."""
REPETITION_RISE = 0.1
"""How much the share of repeated word sequences must rise."""
COMPONENT_SHARE = 0.5
"""Share of the reward's rise that one component makes up."""
OUTWEIGHS = 0.8
"""The same where success rises too."""
DECIDES = 0.85
"""Share of the differences within groups from which one component decides alone."""
JUDGE_SPREAD = 0.15
"""On the judge's scale from 0 to 1: from here on, the order of a group is half chance."""


class Suspicion(NamedTuple):
    """One sign: a word for it, and a sentence."""

    kind: str
    text: str
    is_severe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardShape:
    """What a run's reward is made of."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """By component; empty where the reward is not composed."""
    of_success: frozenset[str] = frozenset()
    """Components that say whether the task was done."""
    of_form: frozenset[str] = frozenset()
    """Components that say what the text looks like."""
    judges: frozenset[str] = frozenset()


def shape_of(config: RewardConfig) -> RewardShape:
    """The shape of a config's reward."""

    def labels(*kinds: type[ComponentConfig]) -> frozenset[str]:
        return frozenset(p.logged_as for p in config.components if isinstance(p, kinds))

    return RewardShape(
        weights={part.logged_as: part.weight for part in config.components},
        of_success=frozenset(p.logged_as for p in config.components if p.measures_success),
        of_form=labels(FormatComponent, SyntaxComponent),
        judges=labels(JudgeComponent),
    )


class Change(NamedTuple):
    """A figure in the first steps and in the last quarter of a run."""

    first: float
    last: float
    errors: float
    """The difference in standard errors, positive for a rise."""

    @property
    def rose(self) -> bool:
        """Whether it surely rose."""
        return self.errors >= SURE

    @property
    def fell(self) -> bool:
        """Whether it surely fell."""
        return self.errors <= -SURE


def change_of(steps: Sequence[StepRow], name: str) -> Change | None:
    """How a figure changed over the run; None where too few steps have it."""
    values = [value for row in steps if (value := row.number(name)) is not None]
    if len(values) < FEWEST_STEPS:
        return None
    first, last = _first_and_last(values)
    difference = fmean(last) - fmean(first)
    errors = mean_errors(difference, _noise(values), len(first), len(last))
    return Change(fmean(first), fmean(last), errors)


def _first_and_last(rows: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """The first eighth, since a policy can fall for something at once, and the last quarter."""
    return rows[: max(2, len(rows) // 8)], rows[-max(2, len(rows) // 4) :]


def _noise(values: Sequence[float]) -> float:
    """The noise of the noisier half, since a policy that has settled on one thing has none left."""
    half = len(values) // 2
    return max(step_noise(part) for part in (values[:half], values[half:]))


class _Success(NamedTuple):
    """How success went, held-out where that is known."""

    first: float
    last: float
    errors: float
    where: str

    @property
    def rose(self) -> bool:
        return self.errors >= SUCCESS_SURE

    @property
    def fell(self) -> bool:
        return self.errors <= -SUCCESS_SURE

    @property
    def in_words(self) -> str:
        moved = "rose" if self.rose else "fell" if self.fell else "did not rise"
        return f"{self.where} success {moved} ({self.first:.2f} to {self.last:.2f})"


def _success(steps: Sequence[StepRow], evaluations: Sequence[EvalPoint]) -> _Success | None:
    """Held-out success has the last word; training success speaks where it points the same way."""
    trained = _trained_success(steps)
    known = [point.success for point in evaluations if point.success is not None]
    if len(known) < 2:
        return trained
    one, two = known[0], known[-1]
    errors = share_errors(one.value, one.n, two.value, two.n)
    if 0.0 < errors < SUCCESS_SURE and trained is not None and trained.rose:
        return trained
    return _Success(one.value, two.value, errors, "held-out")


def _trained_success(steps: Sequence[StepRow]) -> _Success | None:
    known = [
        (share, row.number("episodes") or 0.0)
        for row in steps
        if (share := row.number("success")) is not None
    ]
    if len(known) < FEWEST_STEPS:
        return None
    begin, end = _first_and_last(known)
    (first, first_n), (last, last_n) = _pooled(begin), _pooled(end)
    return _Success(first, last, share_errors(first, first_n, last, last_n), "training")


def _pooled(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    total = sum(n for _, n in rows)
    return (sum(s * n for s, n in rows) / total if total else 0.0), total


def find_hacking(
    steps: Sequence[StepRow], evaluations: Sequence[EvalPoint], shape: RewardShape
) -> list[Suspicion]:
    """All signs in a run, each once.

    A run that has first learned its task and then something else is looked at from where success
    was best: what it has lost since then counts, though it is still better than at first.
    """
    found = _judge_disagrees(steps, shape)
    success = _success(steps, evaluations)
    if success is None:
        return found
    if not success.rose:
        return found + _unearned(steps, success, shape)
    since_best = steps[_best_quarter(steps) :]
    since = _success(since_best, ())
    if since is not None and since.errors <= -SURE:
        return found + _unearned(since_best, since, shape)
    if success.last < SOLVED_ENOUGH:
        found += _outweighs(steps, success, shape)
    return found


def _best_quarter(steps: Sequence[StepRow]) -> int:
    """Where the quarter with the most success begins, the last one left out."""
    quarter = max(1, len(steps) // 4)

    def share(start: int) -> float:
        known = [
            v for r in steps[start : start + quarter] if (v := r.number("success")) is not None
        ]
        return fmean(known) if known else 0.0

    return max(range(0, max(1, len(steps) - 2 * quarter + 1), quarter), key=share)


def _unearned(steps: Sequence[StepRow], success: _Success, shape: RewardShape) -> list[Suspicion]:
    """Signs in steps over which success did not rise."""
    reward = change_of(steps, "reward")
    if reward is None or (success.last >= SOLVED_ENOUGH and not success.fell):
        return []
    if not success.fell and _is_for_the_task(steps, shape):
        return _repeats(steps, success)
    found = _one_decides(steps, shape, success) + _repeats(steps, success)
    if not _pays_more(steps, reward, shape):
        return found
    text = f"reward rose from {reward.first:.2f} to {reward.last:.2f} while {success.in_words}"
    found.insert(0, Suspicion("reward", f"{text}: see what pays", is_severe=success.fell))
    found += _length(steps, success)
    found += _early_stop(steps, success)
    found += _components(steps, reward, shape, success)
    return found


def _is_for_the_task(steps: Sequence[StepRow], shape: RewardShape) -> bool:
    """Whether at least half of what is gained is paid for the task itself.

    Environments pay for parts of a task, and a policy learns the parts before the whole. Where
    nothing else is paid for, reward that rises before success is no sign of anything.
    """
    gains = {
        label: weight * (change.last - change.first)
        for label, weight in shape.weights.items()
        if (change := change_of(steps, f"reward_{label}")) is not None
    }
    gained = sum(gain for gain in gains.values() if gain > 0.0)
    for_the_task = sum(gains[label] for label in gains.keys() & shape.of_success)
    return not shape.weights or for_the_task >= max(0.5 * gained, 1e-9)


def _pays_more(steps: Sequence[StepRow], reward: Change, shape: RewardShape) -> bool:
    """Whether the reward rose, or a component of it: normalised ones rise without their sum."""
    gains = [
        math.copysign(1.0, weight) * change.errors
        for label, weight in shape.weights.items()
        if weight and (change := change_of(steps, f"reward_{label}")) is not None
    ]
    return reward.rose or (not reward.fell and any(gain >= SURE for gain in gains))


def _length(steps: Sequence[StepRow], success: _Success) -> list[Suspicion]:
    length = change_of(steps, "response_tokens")
    if length is None or min(length.first, length.last) <= 0.0:
        return []
    factor = length.last / length.first
    if length.rose and factor >= LENGTH_FACTOR:
        how = "longer"
    elif length.fell and factor <= 1.0 / LENGTH_FACTOR:
        how = "shorter"
    else:
        return []
    return [
        Suspicion(
            "length",
            f"episodes became {how} ({length.first:.0f} to {length.last:.0f} tokens) and are paid "
            f"more, while {success.in_words}",
        )
    ]


def _repeats(steps: Sequence[StepRow], success: _Success) -> list[Suspicion]:
    share = change_of(steps, "repetition")
    if share is None or not share.rose or share.last - share.first < REPETITION_RISE:
        return []
    return [
        Suspicion(
            "repetition",
            f"{share.last:.0%} of what is written is said again ({share.first:.0%} at first), "
            f"while {success.in_words}",
        )
    ]


def _early_stop(steps: Sequence[StepRow], success: _Success) -> list[Suspicion]:
    turns = change_of(steps, "turns")
    if turns is None or not turns.fell or turns.last > TURNS_FACTOR * turns.first:
        return []
    return [
        Suspicion(
            "early stop",
            f"episodes end after {turns.last:.1f} turns ({turns.first:.1f} at first) and are paid "
            f"more, while {success.in_words}",
        )
    ]


def _outweighs(steps: Sequence[StepRow], success: _Success, shape: RewardShape) -> list[Suspicion]:
    """A component that pays most of a rise to which success, far from whole, adds little."""
    reward = change_of(steps, "reward")
    if reward is None or not reward.rose:
        return []
    for label in sorted(shape.weights.keys() - shape.of_success - shape.judges):
        change = change_of(steps, f"reward_{label}")
        gain = shape.weights[label] * (change.last - change.first) if change else 0.0
        if gain >= OUTWEIGHS * (reward.last - reward.first):
            text = (
                f"{label} makes up {gain / (reward.last - reward.first):.0%} of the reward's rise"
            )
            return [Suspicion("takes over", f"{text}, while {success.in_words}")]
    return []


def _components(
    steps: Sequence[StepRow], reward: Change, shape: RewardShape, success: _Success
) -> list[Suspicion]:
    """Components that make up most of the reward's rise and do not measure success."""
    found = []
    rise = reward.last - reward.first
    for label in sorted(shape.weights.keys() - shape.of_success):
        change = change_of(steps, f"reward_{label}")
        if change is None or not (change.rose or change.fell):
            continue
        gain = shape.weights[label] * (change.last - change.first)
        if gain <= 0.0 or gain < COMPONENT_SHARE * rise:
            continue
        kind = "format" if label in shape.of_form else "component"
        text = f"{label} went from {change.first:.2f} to {change.last:.2f}"
        why = f"makes up most of the reward's rise, while {success.in_words}"
        found.append(Suspicion(kind, f"{text} and {why}"))
    return found


def _one_decides(
    steps: Sequence[StepRow], shape: RewardShape, success: _Success
) -> list[Suspicion]:
    recent = steps[-max(1, len(steps) // 4) :]
    for label in sorted(shape.weights.keys() - shape.of_success - shape.judges):
        known = [v for row in recent if (v := row.number(f"decides_{label}")) is not None]
        if known and fmean(known) >= DECIDES:
            text = f"{label} decides {fmean(known):.0%} of which episodes are better than others"
            return [Suspicion("takes over", f"{text}, while {success.in_words}")]
    return []


def _judge_disagrees(steps: Sequence[StepRow], shape: RewardShape) -> list[Suspicion]:
    recent = steps[-5:]
    for label in sorted(shape.judges):
        spreads = [v for row in recent if (v := row.number(f"reward_{label}_spread")) is not None]
        if spreads and fmean(spreads) >= JUDGE_SPREAD:
            text = f"{label} gives the same episode scores {fmean(spreads):.2f} apart"
            advice = "a clearer rubric, more repeats or a stronger judge helps"
            return [Suspicion("judge", f"{text}: {advice}")]
    return []


RECENT_STEPS = 5
"""Steps looked at: one odd step is noise, and a long window hides what is happening now."""
FLAT_SHARE_HIGH = 0.5
"""Above this, more than half of the work done teaches nothing."""
MASKED_SHARE_HIGH = 0.1
"""Above this, failures decide which episodes are learned from."""
GAP_SHARE_NEAR = 0.5
"""Share of the limit from which the sampler and the learner are drifting apart."""


class Alert(NamedTuple):
    """A sentence, and whether it is about something broken rather than something to watch."""

    text: str
    is_severe: bool


def find_alerts(view: RunView, *, has_alarms: bool = True) -> list[Alert]:
    """The alerts of a run, the severe ones first; the alarms of training among them or not."""
    recent = view.steps[-RECENT_STEPS:]
    found = [Alert(problem, True) for problem in view.problems]
    found += _refused_updates(view.steps)
    found += _out_of_memory(view.steps)
    found += _masked_evaluations(view)
    if recent:
        told = alarms_of(view)
        found += _present(told) if has_alarms else []
        found += _gap(recent, view)
        found += _lost_episodes(recent)
        found += [] if told.active & {"flat", "idle"} else _all_alike(recent, told)
        found += _hacking(view, told)
    return sorted(found, key=lambda alert: not alert.is_severe)


def alarms_of(view: RunView) -> Told:
    """The alarms that training told of the run, or would have told."""
    evaluated = {p.step: (p.success.value, p.success.n) for p in view.evaluations if p.success}
    return find_alarms([(row.step, row.values) for row in view.steps], evaluated)


def alarm_lines(view: RunView) -> list[str]:
    """Every alarm of the run and what was done about it, in the order of the steps."""
    told = [(alarm.step, 0, alarm.text) for alarm in alarms_of(view).alarms]
    told += [(found.step, 1, found.text) for found in view.recoveries]
    return [f"step {step}: {text}" for step, _, text in sorted(told)]


def _present(told: Told) -> list[Alert]:
    """The alarms whose signs are still there, each by its last time."""
    last = {alarm.kind: alarm for alarm in told.alarms if alarm.kind in told.active}
    return [Alert(f"step {a.step}: {a.text}", is_severe=True) for a in last.values()]


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


def _out_of_memory(steps: Sequence[StepRow]) -> list[Alert]:
    short = [row for row in steps if row.number("out_of_memory")]
    if not short:
        return []
    splits = int(sum(row.number("micro_batch_splits") or 0 for row in steps))
    text = (
        f"{_count(len(short), 'update')} ran out of memory and went on, last at step "
        f"{short[-1].step}: {_count(splits, 'micro-batch split')} in all"
    )
    if steps[-1].values.get("gradient_checkpointing") is True:
        text += ", gradient checkpointing is on"
    return [Alert(text, is_severe=False)]


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
    for counted, why in (
        ("masked_episodes", "masked: the environment or the agent failed"),
        ("unscored_episodes", "not scored: the reward failed"),
        ("timed_out_episodes", "cut off at agent.deadline_s, and failed"),
    ):
        lost = int(sum(row.number(counted) or 0 for row in recent))
        if lost:
            text = f"{lost} of the last {episodes:.0f} episodes {why}"
            found.append(Alert(text, is_severe=lost > MASKED_SHARE_HIGH * episodes))
    return found


def _masked_evaluations(view: RunView) -> list[Alert]:
    """Evaluations with many masked attempts; a policy may fail so that it is not scored."""
    return [
        Alert(
            f"step {p.step}: {masked_words(p.masked, p.attempts)}: {find_masked(str(view.path))}",
            is_severe=True,
        )
        for p in view.evaluations
        if are_many_masked(p.masked, p.attempts)
    ]


def _all_alike(recent: Sequence[StepRow], told: Told) -> list[Alert]:
    """A reward that seems to pay everything the same, or else flat groups."""
    alike = "" if "equal" in told.active else why_all_alike(recent[-1].values)
    return [Alert(alike, is_severe=True)] if alike else _flat_groups(recent)


def _flat_groups(recent: Sequence[StepRow]) -> list[Alert]:
    share, success = _mean(recent, "flat_share"), _mean(recent, "success")
    if share is None or share <= FLAT_SHARE_HIGH:
        return []
    advice = flat_advice(success, _mean(recent, "unreadable_turns"))
    text = f"{share:.0%} of recent groups had equal scores"
    reached = "" if success is None else f" (success {success:.2f})"
    return [Alert(f"{text}{reached}: {advice}", is_severe=False)]


def _hacking(view: RunView, told: Told) -> list[Alert]:
    """Signs of a gamed reward, less those that an alarm says already."""
    signs = find_hacking(view.steps, view.evaluations, shape_of(view.config.reward))
    said = {"success": "reward", "length": "length"}
    known = {said[kind] for kind in told.active if kind in said}
    return [Alert(sign.text, sign.is_severe) for sign in signs if sign.kind not in known]


def _mean(rows: Sequence[StepRow], name: str) -> float | None:
    known = [value for row in rows if (value := row.number(name)) is not None]
    return fmean(known) if known else None


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
