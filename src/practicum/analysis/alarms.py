"""Alarms: signs in a run's metrics that its policy collapses or that its reward is gamed.

Pure functions of the rows of `metrics.jsonl`, so that the loop that trains and the views that show
a run say the same. `AlarmWatch` takes the rows one by one; `find_alarms` takes a run as a whole.

A false alarm costs more than a step of delay, so every sign must last for some steps, and two
things end all doubt: success that is high (low entropy and equal scores are then what mastery looks
like), and success that has clearly risen and has not been lost again.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Literal, NamedTuple

from practicum.analysis.flat_advice import SOLVED, UNSOLVED, flat_advice
from practicum.analysis.idle_steps import why_idle
from practicum.core.task import JSON
from practicum.stats.differences import mean_errors, share_errors, step_noise

AlarmKind = Literal["idle", "flat", "equal", "stalled", "entropy", "kl", "success", "length"]

FIRST_STEPS = 3
"""Steps of a stage that say where it started."""
RECENT_STEPS = 3
"""Steps that say where it stands: one odd step is noise."""
COMPARED_STEPS = 4
"""Steps of a window that is compared with another one, where the difference may be small."""
QUIET_STEPS = 5
"""Steps without a sign after which it counts as gone, and is told anew if it comes back."""
LEARNED_RISE = 0.1
"""Rise of success since the start from which a run has learned something."""
LOST_SHARE = 0.5
"""Share of its best success below which a run has lost what it had learned."""
KNOWN_WELL = 0.5
"""Success from which a fall with the reward is harm: below, luck with tasks does as much."""
SURE = 3.0
"""Standard errors from which a change is taken for one."""
SURE_OF_BEST = 4.0
"""The same against the best of many windows, which is partly the best by luck."""
ALIKE = 0.3
"""Correlation of success within a group: n episodes of one task say less than n of n tasks."""
REWARD_RISE = 2.0
"""Standard errors from which reward has risen."""
REWARD_KEPT = -2.0
"""The same from which it has been kept."""

FLAT_SHARE = 0.9
"""Share of flat groups from which hardly anything is learned in a step."""
FLAT_USUAL = 0.9
"""Share of flat groups that a sound run may have: rare rewards, or tasks of all difficulties."""
FLAT_CHANCE = 1e-4
"""Chance of so many flat groups in a row, by the run's own usual share, below which it is none."""
PLATEAU_STEPS = 5
"""Steps of flat groups after which they are told of a run that has learned something."""
ENTROPY_SHARE = 0.05
"""Share of the entropy at the start below which the policy hardly tries anything."""
UNSOLVED_ENTROPY_SHARE = 0.25
"""The same for a policy that solves nothing: whatever it settles on is not the task."""
STALLED_STEPS = 12
"""Steps without success and without more reward after which nothing more is expected."""
STALLED_EPISODES = 700
"""Episodes that those steps must have: the first success is a matter of luck."""
KL_LIMIT = 3.0
"""Nats per token: the base model would say what the policy says once in twenty times."""
KL_GROWTH = 5.0
"""Growth of the KL divergence within a few steps that no learning explains."""
KL_NOTICED = 1.0
"""KL divergence below which growth is no matter: every run starts at 0."""
HELDOUT_LOST = 0.2
"""Share of the held-out success before the stage that must be left: rollouts are warmer than
evaluations, so they solve less without any harm."""
HELDOUT_STEPS = 5
LENGTH_FACTOR = 2.0
"""How much longer or shorter episodes must get."""
LENGTH_STEPS = 5
MOST_STEPS = 20
"""Most steps looked at for noise or for flat groups: runs are long, and few steps are enough."""
SAME_LEVEL = 0.25
"""Difference of the mean task level up to which two windows are about the same tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One sign, told once."""

    kind: AlarmKind
    step: int
    """The step at which it is told."""
    since: int
    """The step of its first sign: earlier ones are sound."""
    text: str
    """One sentence: what is seen, and what to change."""


class _Row(NamedTuple):
    step: int
    values: Mapping[str, JSON]

    def number(self, name: str) -> float | None:
        """A recorded finite number, or None."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if math.isfinite(value) else None


class _Share(NamedTuple):
    """A share of episodes, and how many independent episodes say as much."""

    value: float
    n: float


@dataclass(slots=True)
class _History:
    """The steps of one stage, from its start or since the run last went back."""

    stage: JSON
    recoveries: JSON
    first: list[_Row]
    """The first steps of the stage, also where the run went back since."""
    heldout: _Share | None
    """Held-out success just before the stage."""
    rows: list[_Row] = field(default_factory=list)
    best: Sequence[_Row] = ()
    """The window with the most success among those before the last `COMPARED_STEPS` steps."""
    flat: list[_Row] = field(default_factory=list)
    """The last steps, as far as almost all of their groups were flat."""
    uneven: list[float] = field(default_factory=list)
    """The shares of flat groups of the steps before those, also where the run went back since."""

    def add(self, row: _Row) -> None:
        """One more step."""
        self.rows.append(row)
        if len(self.first) < FIRST_STEPS:
            self.first.append(row)
        if (share := row.number("flat_share")) is not None and share >= FLAT_SHARE:
            self.flat.append(row)
        else:
            known = [f for r in (*self.flat, row) if (f := r.number("flat_share")) is not None]
            self.uneven += known
            self.flat = []
        window = self.rows[-2 * COMPARED_STEPS : -COMPARED_STEPS]
        found, best = _success(window), _success(self.best)
        is_full = len(window) == COMPARED_STEPS
        if is_full and found is not None and (best is None or found.value >= best.value):
            self.best = window

    @property
    def recent(self) -> list[_Row]:
        """The last few steps."""
        return self.rows[-RECENT_STEPS:]

    @property
    def is_solved(self) -> bool:
        """Whether success is high now, give or take the chance of which tasks were drawn."""
        return _is_solved(self.recent)

    @property
    def has_learned(self) -> bool:
        """Whether success, or else the reward, has risen since the start and is still there."""
        start, now, best = _success(self.first), _success(self.recent), _success(self.best)
        if start is None or now is None:
            return _reward_change(self.first, self.rows[-COMPARED_STEPS:], self.rows) >= SURE
        is_kept = best is None or now.value >= LOST_SHARE * best.value
        return now.value >= start.value + LEARNED_RISE and is_kept

    def in_words(self) -> str:
        """Where success stands."""
        now = _success(self.recent)
        return "what is paid does not rise" if now is None else f"success is {now.value:.2f}"

    def flat_advice(self) -> str:
        """What would make groups differ, as far as the last steps tell."""
        now = _success(self.recent)
        unreadable = _mean(self.recent, "unreadable_turns")
        return flat_advice(None if now is None else now.value, unreadable)


class AlarmWatch:
    """Takes the rows of a run in their order and says what is wrong, once each time it begins.

    Example:
        >>> watch = AlarmWatch()
        >>> row = {"reward": 1.5, "success": 0.0, "episodes": 256, "groups": 32, "flat_share": 1.0}
        >>> [watch.observe(step, row) != [] for step in (1, 2, 3, 4)]
        [False, False, True, False]
    """

    def __init__(self) -> None:
        self._history: _History | None = None
        self._evaluated: tuple[int, _Share] | None = None
        self._seen: dict[AlarmKind, int] = {}

    @property
    def active(self) -> frozenset[AlarmKind]:
        """The signs that were told and are not gone."""
        return frozenset(self._seen)

    def evaluated(self, step: int, success: float, n: int) -> None:
        """Take a held-out evaluation after `step` steps."""
        self._evaluated = (step, _Share(success, n))

    def observe(self, step: int, metrics: Mapping[str, JSON]) -> list[Alarm]:
        """Take a step; the alarms that begin with it. Steps without episodes say nothing."""
        row = _Row(step, metrics)
        if not row.number("episodes") or row.number("reward") is None:
            return []
        if cause := why_idle(metrics):
            return self._tell_idle(step, cause)
        history = self._history_for(row)
        history.add(row)
        found = [alarm for detect in DETECTORS if (alarm := detect(history)) is not None]
        kinds = {alarm.kind for alarm in found}
        new = [alarm for alarm in found if alarm.kind not in self._seen]
        self._seen = {k: at for k, at in self._seen.items() if step - at < QUIET_STEPS}
        self._seen |= dict.fromkeys(kinds, step)
        if "equal" in kinds:  # says the same and more
            self._seen["flat"] = step
            return [alarm for alarm in new if alarm.kind != "flat"]
        return new

    def _tell_idle(self, step: int, cause: str) -> list[Alarm]:
        """At once: no other sign means anything where nothing can be learned."""
        is_new, self._seen = "idle" not in self._seen, {"idle": step}
        return [Alarm(kind="idle", step=step, since=step, text=cause)] if is_new else []

    def _history_for(self, row: _Row) -> _History:
        stage, recoveries = row.values.get("stage"), row.values.get("recoveries") or 0
        now = self._history
        if now is not None and (now.stage, now.recoveries) == (stage, recoveries):
            return now
        self._seen = {}
        if now is not None and now.stage == stage:
            # Gone back: where the stage started is still true, what it came to is not.
            self._history = _History(stage, recoveries, now.first, now.heldout, uneven=now.uneven)
            return self._history
        at, share = self._evaluated or (-1, None)
        self._history = _History(stage, recoveries, [], share if at == row.step - 1 else None)
        return self._history


class Told(NamedTuple):
    """All alarms of a run, in order, and the kinds that are not gone."""

    alarms: list[Alarm]
    active: frozenset[AlarmKind]


def watch_rows(
    rows: Iterable[tuple[int, Mapping[str, JSON]]],
    evaluations: Mapping[int, tuple[float, int]],
) -> tuple[AlarmWatch, list[Alarm]]:
    """A watch that has seen a run's rows, and what it said.

    Args:
        rows: Each step that counts with its metrics, in order.
        evaluations: Held-out success and the number of tasks, by the steps done before.
    """
    watch, alarms = AlarmWatch(), []
    for step, metrics in rows:
        if step - 1 in evaluations:
            watch.evaluated(step - 1, *evaluations[step - 1])
        alarms += watch.observe(step, metrics)
    return watch, alarms


def find_alarms(
    rows: Iterable[tuple[int, Mapping[str, JSON]]],
    evaluations: Mapping[int, tuple[float, int]],
) -> Told:
    """All alarms of a run; the arguments are those of `watch_rows`."""
    watch, alarms = watch_rows(rows, evaluations)
    return Told(alarms, watch.active)


def _flat_groups(history: _History) -> Alarm | None:
    """Groups whose episodes all score the same, in too many steps to be chance."""
    rows = history.flat[-MOST_STEPS:]
    now = _success(history.recent)
    is_able = history.has_learned or (now is not None and now.value >= KNOWN_WELL)
    needed = PLATEAU_STEPS if is_able else RECENT_STEPS
    if len(rows) < needed or _is_solved(rows[-PLATEAU_STEPS:]) or history.is_solved:
        return None
    groups = sum(row.number("groups") or 1.0 for row in rows)
    flat = sum((row.number("groups") or 1.0) * (row.number("flat_share") or 0.0) for row in rows)
    if _chance_of_flat(round(groups), round(flat), _usual_flat_share(history)) > FLAT_CHANCE:
        return None
    return _alarm(
        "flat",
        history,
        history.flat[0],
        f"{flat:.0f} of the last {groups:.0f} groups had equal scores while {history.in_words()}, "
        f"so nothing is learned: {history.flat_advice()}",
    )


def _equal_rewards(history: _History) -> Alarm | None:
    """Every episode of every task scores the same, and that is not full marks."""
    rows = history.flat[-RECENT_STEPS:]
    if _flat_groups(history) is None or len(rows) < RECENT_STEPS:
        return None
    rewards = [row.number("reward") or 0.0 for row in rows]
    spreads = [row.number("score_spread") for row in rows]
    has_tasks = all((row.number("groups") or 0) >= 2 for row in rows)
    is_same = max(rewards) - min(rewards) <= 1e-9
    if not has_tasks or not is_same or any(s is None or s > 1e-9 for s in spreads):
        return None
    return _alarm(
        "equal",
        history,
        history.flat[0],
        f"every episode of the last {len(rows)} steps scored {rewards[-1]:.3g}, whatever the task, "
        f"while {history.in_words()}: the policy does the same everywhere, or the reward pays the "
        f"same for everything; look at some episodes: {history.flat_advice()}",
    )


def _low_entropy(history: _History) -> Alarm | None:
    """A policy that has stopped trying before it succeeds."""
    start = _mean(history.first, "entropy")
    now = _last_with("entropy", history.rows, RECENT_STEPS)
    if not start or len(now) < RECENT_STEPS or now[0].step <= history.first[-1].step:
        return None
    solved = _success(now)
    is_unsolved = solved is not None and solved.value <= UNSOLVED
    low = (UNSOLVED_ENTROPY_SHARE if is_unsolved else ENTROPY_SHARE) * start
    if any((row.number("entropy") or 0.0) >= low for row in now):
        return None
    if history.is_solved or history.has_learned:
        return None
    return _alarm(
        "entropy",
        history,
        now[0],
        f"entropy fell from {start:.2g} to {_mean(now, 'entropy'):.2g} while "
        f"{history.in_words()}: the policy hardly explores; a lower algorithm.lr or a higher "
        "rollouts.temperature keeps it trying",
    )


def _stalled(history: _History) -> Alarm | None:
    """Nothing is solved, and nothing leads there: what is paid for the way does not rise."""
    episodes = history.rows[-1].number("episodes") or 1.0
    now = history.rows[-max(STALLED_STEPS, math.ceil(STALLED_EPISODES / episodes)) :]
    solved = _success(now)
    tried = sum(row.number("episodes") or 0.0 for row in now)
    if len(now) < STALLED_STEPS or tried < STALLED_EPISODES:
        return None
    if solved is None or solved.value > UNSOLVED / 4:
        return None
    if _reward_change(now[:COMPARED_STEPS], now[-COMPARED_STEPS:], history.rows) >= REWARD_RISE:
        return None
    return _alarm(
        "stalled",
        history,
        now[0],
        f"{history.in_words()} and reward stays at {_mean(now, 'reward') or 0.0:.2f} since "
        f"{len(now)} steps: practice has nothing to learn from; easier tasks, a longer "
        "warm_start.steps or pay for progress helps",
    )


def _far_out(history: _History) -> Alarm | None:
    """A policy far from the base model, without having learned its task."""
    if history.is_solved or history.has_learned or history.rows[-1].number("kl_to_base") is None:
        return None
    known = _last_with("kl_to_base", history.rows, 1 + COMPARED_STEPS)
    values = [row.number("kl_to_base") or 0.0 for row in known]
    start = _mean(history.first, "kl_to_base") or 0.0  # a warm start is far out already
    limit = max(KL_LIMIT, 2.0 * start)
    # Two in a row, or one that is beyond all doubt: a rare token can make a mean large.
    is_far = values[-1] > 2.0 * limit or (len(values) > 1 and min(values[-2:]) > limit)
    before = min(values[:-2], default=math.inf)
    grew = len(values) > 2 and min(values[-2:]) > max(KL_NOTICED, KL_GROWTH * before)
    if not is_far and not grew:
        return None
    how = "is" if is_far else f"grew from {before:.2g} in a few steps and is"
    return _alarm(
        "kl",
        history,
        known[-2:][0],
        f"KL to the base model {how} {values[-1]:.2g} nats per token while {history.in_words()}: "
        "the policy has left what the model knows; a lower algorithm.lr or a higher algorithm.kl "
        "holds it",
    )


def _success_lost(history: _History) -> Alarm | None:
    """Success that falls to less than half while reward rises, or with it from high up."""
    if history.is_solved:
        return None
    for steps in (COMPARED_STEPS, 2 * COMPARED_STEPS):
        now = history.rows[-steps:]
        for before, sure in ((history.first, SURE), (history.best, SURE_OF_BEST)):
            if len(before) < FIRST_STEPS or before[-1].step >= now[0].step:
                continue
            was, is_now = _success(before), _success(now)
            if was is None or is_now is None or not _same_level(before, now):
                continue
            change = _reward_change(before, now, history.rows)
            fell = is_now.value < LOST_SHARE * was.value and share_errors(*was, *is_now) <= -sure
            breaks = was.value >= KNOWN_WELL and change <= REWARD_KEPT
            if fell and (change >= REWARD_RISE or breaks):
                return _lost(history, now[0], (was, is_now), (before, now), change)
    return _heldout_lost(history)


def _heldout_lost(history: _History) -> Alarm | None:
    """Almost nothing is left of the held-out success before the stage, and nothing comes back."""
    was = history.heldout
    if was is None or history.has_learned:
        return None
    for steps in (HELDOUT_STEPS, 2 * HELDOUT_STEPS, 4 * HELDOUT_STEPS):
        now, last = history.rows[-steps:], history.rows[-FIRST_STEPS:]
        is_now = _success(now)
        if is_now is None or len(now) < steps or not _same_level(history.first, now):
            continue
        change = _reward_change(history.first, last, history.rows)
        lost = is_now.value < HELDOUT_LOST * was.value and share_errors(*was, *is_now) <= -SURE
        if lost and change > REWARD_KEPT:
            found = (was, is_now)
            return _lost(history, history.first[0], found, (history.first, last), change)
    return None


def _lost(
    history: _History,
    since: _Row,
    success: tuple[_Share, _Share],
    windows: tuple[Sequence[_Row], Sequence[_Row]],
    change: float,
) -> Alarm:
    was, now = success
    first, last = (_mean(window, "reward") or 0.0 for window in windows)
    fell = f"success fell from {was.value:.2f} to {now.value:.2f}"
    if change <= REWARD_KEPT:
        text = (
            f"{fell} and reward from {first:.2f} to {last:.2f}: updates have harmed the policy; a "
            "lower algorithm.lr or more rollouts.tasks_per_step makes them safer"
        )
    else:
        rose = change >= REWARD_RISE
        paid = f"rose from {first:.2f} to {last:.2f}" if rose else f"stays at {last:.2f}"
        text = (
            f"{fell} while reward {paid}: what pays is not the task; pay less for the way and more "
            "for the solution, or lower algorithm.lr"
        )
    return _alarm("success", history, since, text)


def _length_drift(history: _History) -> Alarm | None:
    """Episodes twice or half as long as at first, without success."""
    now = history.rows[-LENGTH_STEPS:]
    if len(now) < LENGTH_STEPS or now[0].step <= history.first[-1].step:
        return None
    if history.is_solved or history.has_learned or not _same_level(history.first, now):
        return None
    for name, noun in (("response_tokens", "tokens"), ("turns", "turns")):
        start, values = _mean(history.first, name), [row.number(name) for row in now]
        known = [value for value in values if value is not None]
        if not start or len(known) < len(values):
            continue
        if min(known) > LENGTH_FACTOR * start or max(known) < start / LENGTH_FACTOR:
            return _alarm(
                "length",
                history,
                now[0],
                f"episodes went from {start:.3g} to {fmean(known):.3g} {noun} while "
                f"{history.in_words()}: the policy draws them out or ends them early; see what "
                "pays for that, and take it out of the reward or lower algorithm.lr",
            )
    return None


DETECTORS: tuple[Callable[[_History], Alarm | None], ...] = (
    _equal_rewards,
    _flat_groups,
    _low_entropy,
    _stalled,
    _far_out,
    _success_lost,
    _length_drift,
)


def _alarm(kind: AlarmKind, history: _History, since: _Row, text: str) -> Alarm:
    return Alarm(kind=kind, step=history.rows[-1].step, since=since.step, text=text)


def _last_with(name: str, rows: Sequence[_Row], count: int) -> list[_Row]:
    """The last steps that recorded a number; a step without an update has fewer of them."""
    known = (row for row in reversed(rows) if row.number(name) is not None)
    return list(islice(known, count))[::-1]


def _mean(rows: Sequence[_Row], name: str) -> float | None:
    known = [value for row in rows if (value := row.number(name)) is not None]
    return fmean(known) if known else None


def _success(rows: Sequence[_Row]) -> _Share | None:
    """Success over all episodes of some steps; None where it is not known."""
    known = [
        (share, row.number("episodes") or 0.0, row.number("groups") or 1.0)
        for row in rows
        if (share := row.number("success")) is not None
    ]
    total = sum(n for _, n, _ in known)
    if not total:
        return None
    size = total / sum(groups for *_, groups in known)
    alike = 1.0 + ALIKE * (size - 1.0)  # the design effect of a sample in clusters
    return _Share(sum(share * n for share, n, _ in known) / total, total / alike)


def _is_solved(rows: Sequence[_Row]) -> bool:
    found = _success(rows)
    if found is None:
        return False
    groups = sum(row.number("groups") or 1.0 for row in rows)
    error = math.sqrt(found.value * (1.0 - found.value) / groups)
    return found.value + 2.0 * error >= SOLVED


def _reward_change(before: Sequence[_Row], now: Sequence[_Row], rows: Sequence[_Row]) -> float:
    """The change of the mean reward in standard errors, by the noise from step to step.

    The noisiest part of the run tells, since a policy that has settled has no noise left.
    """
    first, last = _mean(before, "reward"), _mean(now, "reward")
    if first is None or last is None:
        return 0.0
    recent = rows[-MOST_STEPS:]
    half = len(recent) // 2
    noise = max(
        step_noise([value for row in part if (value := row.number("reward")) is not None])
        for part in (before, recent[:half], recent[half:])
    )
    return mean_errors(last - first, noise, len(before), len(now))


def _same_level(before: Sequence[_Row], now: Sequence[_Row]) -> bool:
    """Whether two windows are about tasks of one difficulty, as far as is known."""
    one, two = _mean(before, "mean_level"), _mean(now, "mean_level")
    return one is None or two is None or abs(two - one) <= SAME_LEVEL


def _usual_flat_share(history: _History) -> float:
    """The share of flat groups before; without a past, what a sound run may have."""
    past = [*history.uneven, FLAT_USUAL, FLAT_USUAL]
    return min(FLAT_USUAL, fmean(past))


def _chance_of_flat(groups: int, flat: int, share: float) -> float:
    """The chance that at least `flat` of `groups` are flat, by the binomial distribution."""

    def log_chance(k: int) -> float:
        ways = math.lgamma(groups + 1) - math.lgamma(k + 1) - math.lgamma(groups - k + 1)
        return ways + k * math.log(share) + (groups - k) * math.log1p(-share)

    return sum(math.exp(log_chance(k)) for k in range(flat, groups + 1))
