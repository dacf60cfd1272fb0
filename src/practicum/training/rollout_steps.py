"""Online training steps: roll out groups, credit them, build batches, update.

`RolloutSteps` is one strict on-policy step after the other; `overlapped_steps` builds on it.
"""

import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from practicum.agents.rollout import RolloutParts, jump_started, run_groups, warmed
from practicum.core.capabilities import (
    CreditsRoles,
    GivesJumpStarts,
    ReportsMastery,
    ReportsReplicas,
    ReportsWorkers,
)
from practicum.core.config.config_sections import RolloutConfig
from practicum.core.errors import PolicyMismatch, UserError
from practicum.core.interfaces import (
    Algorithm,
    Curriculum,
    Learner,
    Need,
    Sampler,
    Teacher,
)
from practicum.core.sample import Batch, Credit, Episode, Estimates, Floats, Group, Sample
from practicum.core.task import JSON, Task
from practicum.core.trace import StopReason, Trace, repeated_share, words_of
from practicum.training.prefix_tree import (
    build_batches,
    episode_samples,
    group_samples,
    loss_tokens,
    training_paths,
)
from practicum.training.stages import StepFailed, StepResult, update_metrics

ESTIMATED = ("logprobs", "base_logprobs", "values", "teacher_logprobs")
"""Fields of `Estimates`; the last is the teacher's, the others are the learner's."""

CreditedEpisodes = list[tuple[Episode, Credit]]


HOTTER = 1.5
"""What the temperature is multiplied by, each time that a task is tried again because no episode of
its group got anywhere."""

RollOut = Callable[[list[Task], int, float], Awaitable[list[Group]]]
"""Rolls out a group for each task; takes the number of the round, and what the temperature is
multiplied by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedStep:
    """The groups of a step."""

    trained: tuple[Group, ...]
    """The informative ones, to train on."""
    groups: tuple[Group, ...]
    """All that were rolled out at the run's own temperature, also those whose scores are equal."""
    hotter: tuple[Group, ...] = ()
    """Second tries at tasks that nobody solved, at a higher temperature."""

    @property
    def everything(self) -> tuple[Group, ...]:
        """All groups."""
        return self.groups + self.hotter

    @property
    def unaided(self) -> tuple[Group, ...]:
        """Those at the run's own temperature whose episodes did all by themselves."""
        return tuple(group for group in self.groups if not group.is_jump_started)

    @property
    def flat_share(self) -> float:
        """Share of all groups that were not informative."""
        return 1.0 - len(self.trained) / len(self.everything)


async def collect_step(
    roll_out: RollOut,
    curriculum: Curriculum,
    algorithm: Algorithm,
    *,
    tasks_per_step: int,
    replace_share: float,
) -> CollectedStep:
    """Roll out groups until `tasks_per_step` are informative or the extra groups are used up.

    An uninformative group is replaced by another: where none of its episodes succeeded, of the same
    task at a higher temperature, because the policy has to find something new there; otherwise of
    the curriculum's next task. Only choices among actions are made hotter: free text falls apart.

    Args:
        roll_out: Rolls out a round of groups.
        curriculum: Gives the tasks.
        algorithm: Its `is_informative` decides.
        tasks_per_step: Groups wanted.
        replace_share: Extra groups allowed, as a share of `tasks_per_step`.
    """
    trained: list[Group] = []
    groups: list[Group] = []
    hotter: list[Group] = []
    extras = math.ceil(replace_share * tasks_per_step)
    wanted, rounds, failed = tasks_per_step, 0, list[Task]()
    while wanted > 0:
        again = failed[:wanted]
        failed = []
        fresh = curriculum.next_tasks(wanted - len(again))
        made = await roll_out(fresh, 2 * rounds, 1.0) if fresh else []
        hot = await roll_out(again, 2 * rounds + 1, HOTTER**rounds) if again else []
        for group in made:
            curriculum.observe(group)
        for group in (*made, *hot):
            if algorithm.is_informative(group):
                trained.append(group)
            elif is_unsolved(group) and chose_actions(group):
                failed.append(group.task)
        groups += made
        hotter += hot
        wanted = min(tasks_per_step - len(trained), extras)
        extras -= wanted
        rounds += 1
    return CollectedStep(trained=tuple(trained), groups=tuple(groups), hotter=tuple(hotter))


def is_unsolved(group: Group) -> bool:
    """Whether it is known of every usable episode that it failed."""
    known = [e.outcome.success for e in group.usable if e.outcome is not None]
    return bool(known) and all(success is False for success in known)


def chose_actions(group: Group) -> bool:
    """Whether all that its episodes wrote was chosen among what their environment offered."""
    spans = [n.sampled for e in group.usable for n in e.trace.nodes if n.sampled is not None]
    return bool(spans) and all(span.choices and all(span.choices) for span in spans)


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
    """Metrics of the episodes. Masked and unscored ones are counted but not averaged in.

    Reward and success are of what the policy did from the beginning by itself.
    """
    episodes = [e for g in collected.groups for e in g.episodes]
    values = [v for g in collected.unaided for v in g.values]
    return {
        "reward": fmean(values) if values else None,
        "success": _success(collected.unaided),
        **_metrics_by_env(collected.unaided),
        **_jump_start_metrics(collected.groups),
        **_time_metrics(collected.everything),
        "episodes": len(episodes),
        "groups": len(collected.everything),
        "trained_groups": len(collected.trained),
        "hotter_groups": len(collected.hotter),
        "flat_share": collected.flat_share,
        "score_spread": max(values) - min(values) if values else None,
        "mean_level": fmean(g.task.level for g in collected.groups),
        "masked_episodes": sum(e.trace.is_masked for e in episodes),
        "unscored_episodes": sum(not e.trace.is_masked and e.score.value is None for e in episodes),
        "timed_out_episodes": sum(e.trace.stop is StopReason.TIMED_OUT for e in episodes),
        "turns": fmean(len(e.trace.turns) for e in episodes),
        "unreadable_turns": unreadable_turns([e.trace for e in episodes]),
        "sampled_tokens": sum(e.trace.sampled_tokens for e in episodes),
        **reward_metrics(collected.groups),
    }


def _success(groups: Iterable[Group]) -> float | None:
    """The share of usable episodes that succeed; None where it is known of none."""
    outcomes = [e.outcome.success for g in groups for e in g.usable if e.outcome is not None]
    known = [float(success) for success in outcomes if success is not None]
    return fmean(known) if known else None


def _metrics_by_env(groups: Sequence[Group]) -> dict[str, JSON]:
    """Reward and success of each environment, where the step's tasks are of several."""
    envs = sorted({group.task.env for group in groups})
    metrics: dict[str, JSON] = {}
    for env in envs if len(envs) > 1 else ():
        ours = [group for group in groups if group.task.env == env]
        values = [value for group in ours for value in group.values]
        metrics[f"{env}/reward"] = fmean(values) if values else None
        metrics[f"{env}/success"] = _success(ours)
    return metrics


def _jump_start_metrics(groups: Sequence[Group]) -> dict[str, JSON]:
    started = [group for group in groups if group.is_jump_started]
    if not started:
        return {}
    return {
        "jump_started_groups": len(started),
        "jump_start_success": _success(started),
        "given_turns": fmean(e.given_turns for g in started for e in g.usable),
    }


def _time_metrics(groups: Sequence[Group]) -> dict[str, JSON]:
    """How long episodes took, and of all of them together what they waited for."""
    spent = [e.seconds for g in groups for e in g.episodes if e.seconds is not None]
    if not spent:
        return {}
    return {
        "median_episode_s": median(one.total for one in spent),
        "slowest_episode_s": max(one.total for one in spent),
        "sampling_s": sum(one.sampling for one in spent),
        "environment_s": sum(one.environment for one in spent),
        "judging_s": sum(one.judging for one in spent),
    }


def unreadable_turns(traces: Sequence[Trace]) -> float | None:
    """The share of turns in no known form: not text at all, or calls that could not be read.

    A model that has not learned how a task is answered, or has lost it, writes such turns.
    """
    said = [m.content for t in traces for at in t.turns for m in t.nodes[at].messages[-1:]]
    if not said:
        return None
    odd = sum(any(c == "\ufffd" or (c < " " and c not in "\t\n\r") for c in one) for one in said)
    refused = sum(m.is_error for t in traces for node in t.nodes for m in node.messages)
    return min(1.0, max(odd, refused) / len(said))


def credit_step(
    groups: Sequence[Group], algorithm: Algorithm, estimates: Mapping[str, Estimates]
) -> CreditedEpisodes:
    """The usable episodes of all groups, each with its credit."""
    roles = next((group.roles for group in groups if len(group.roles) > 1), ())
    if roles and not isinstance(algorithm, CreditsRoles):
        raise UserError(
            f"this algorithm credits an episode as the work of one, and {', '.join(roles)} took "
            "turns in it; use grpo, dr_grpo or another that compares the episodes of a group"
        )
    credits = algorithm.credit(groups, estimates)
    return [
        pair
        for group, of_group in zip(groups, credits, strict=True)
        for pair in zip(group.usable, of_group, strict=True)
    ]


def estimate(
    groups: Sequence[Group],
    needs: frozenset[Need],
    learner: Learner,
    teacher: Teacher | None,
    budget_tokens: int,
) -> dict[str, Estimates]:
    """Learner and teacher outputs for the loss tokens of the groups' episodes, by trace id."""
    if not needs:
        return {}
    traces = [episode.trace for group in groups for episode in group.usable]
    samples = [sample for trace in traces for sample in _uncredited(trace)]
    found: dict[str, dict[str, Floats]] = {name: {} for name in ESTIMATED}
    if needs & {"base", "values"}:
        batches = build_batches(samples, budget_tokens)
        for batch, measured in zip(batches, learner.measure(batches, needs), strict=True):
            for name in ESTIMATED[:3]:
                found[name].update(_by_sample(batch, getattr(measured, name)))
    if "teacher" in needs:
        assert teacher is not None
        logprobs = teacher.logprobs(samples)
        found["teacher_logprobs"] = {s.id: x for s, x in zip(samples, logprobs, strict=True)}
    return {
        trace.id: Estimates(**{name: _by_turn(trace, of) for name, of in found.items() if of})
        for trace in traces
    }


def _uncredited(trace: Trace) -> list[Sample]:
    return episode_samples(trace, Credit(advantages=(0.0,) * len(trace.turns)), 1.0)


def _by_sample(batch: Batch, terms: Floats | None) -> Iterable[tuple[str, Floats]]:
    """The terms of each sample, in token order."""
    if terms is None:
        return []
    return [(key, terms[batch.term_sample == n]) for n, key in enumerate(batch.sample_ids)]


def _by_turn(trace: Trace, by_sample: Mapping[str, Floats]) -> tuple[Floats, ...]:
    """An array for each turn; a turn without loss tokens has an empty one."""
    turns: dict[int, Floats] = {}
    for path in training_paths(trace):
        sizes = [sum(s.loss_mask) if (s := trace.nodes[i].sampled) else 0 for i in path.fresh]
        parts = np.split(by_sample[path.sample_id], list(accumulate(sizes))[:-1])
        turns.update(zip(path.fresh, parts, strict=True))
    return tuple(turns.get(node, np.zeros(0, np.float32)) for node in trace.turns)


def step_batches(
    credited: CreditedEpisodes,
    algorithm: Algorithm,
    *,
    budget_tokens: int,
    constant: int,
    seed: Sequence[int],
) -> list[Batch]:
    """The batches of all minibatches; the seed decides which episode is in which minibatch.

    Episodes without loss tokens are left out first, so that no minibatch is filled with them.
    """
    kept = [(e, credit) for e, credit in credited if credit.counts and loss_tokens(e.trace)]
    count = min(algorithm.minibatches, len(kept))
    if count > 1:
        order = np.random.default_rng(list(seed)).permutation(len(kept))
        kept = [kept[i] for i in order]
    batches: list[Batch] = []
    for number in range(count):
        part = kept[number::count]
        episodes, credits = [e for e, _ in part], [credit for _, credit in part]
        samples = group_samples(episodes, credits, algorithm.averaging, constant)
        batches += [replace(b, minibatch=number) for b in build_batches(samples, budget_tokens)]
    return batches


class StepRollouts(NamedTuple):
    """The groups of a step, and the seconds they took."""

    collected: CollectedStep
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSteps:
    """A `StepSource` that rolls out groups of the curriculum's tasks and trains on them."""

    parts: RolloutParts
    rollouts: RolloutConfig
    seed: int
    micro_batch_tokens: int
    sampler: Sampler
    learner: Learner
    algorithm: Algorithm
    curriculum: Curriculum
    on_episode: Callable[[Episode], None]
    teacher: Teacher | None = None

    @property
    def episodes_expected(self) -> int:
        """Not counting groups that replace uninformative ones."""
        return self.rollouts.tasks_per_step * self.rollouts.group_size

    async def gather(self, step: int) -> StepRollouts:
        """Roll out a step's groups with an empty prefix cache, so that a resumed run repeats it."""
        self.sampler.forget()
        return await self.roll_out(step, self.curriculum)

    async def roll_out(self, step: int, curriculum: Curriculum) -> StepRollouts:
        """Roll out a step's groups of the curriculum's next tasks."""
        started = time.monotonic()

        async def run(tasks: list[Task], round_number: int, heat: float) -> list[Group]:
            parts = self.parts if heat == 1.0 else warmed(self.parts, heat)
            if self.rollouts.jump_start and isinstance(curriculum, GivesJumpStarts):
                given = {task.id: curriculum.given_turns(task) for task in tasks}
                parts = jump_started(parts, given)
            return await run_groups(
                parts,
                tasks,
                self.rollouts.group_size,
                label=f"train/{step}/{round_number}",
                seed=self.seed,
                on_episode=self.on_episode,
            )

        collected = await collect_step(
            run,
            curriculum,
            self.algorithm,
            tasks_per_step=self.rollouts.tasks_per_step,
            replace_share=self.rollouts.replace_flat_groups,
        )
        return StepRollouts(collected, time.monotonic() - started)

    def learn(self, step: int, material: StepRollouts) -> StepResult:
        """Credit the episodes and update the weights."""
        started, collected = time.monotonic(), material.collected
        check_any_usable(collected)
        check_sampled_by(self.learner.fingerprint(), collected)
        return self.update(self.batches(step, collected), material, started)

    def update(
        self, batches: Sequence[Batch], material: StepRollouts, started: float
    ) -> StepResult:
        """Update from a step's batches; `update_s` counts from `started` (`time.monotonic`)."""
        collected = material.collected
        report = self.learner.update(batches, self.algorithm) if batches else None
        metrics = {**rollout_metrics(collected), **(update_metrics(report) if report else {})}
        if isinstance(self.curriculum, ReportsMastery):
            metrics |= self.curriculum.metrics()
        if isinstance(self.sampler, ReportsReplicas):
            metrics |= self.sampler.sampling_metrics()
        if isinstance(self.parts.environment, ReportsWorkers):
            metrics |= self.parts.environment.worker_metrics()
        metrics["rollout_s"] = material.seconds
        metrics["update_s"] = time.monotonic() - started
        return StepResult(
            report=report,
            metrics=metrics,
            episodes=tuple(e for g in collected.everything for e in g.episodes),
            tasks=tuple(g.task for g in collected.everything),
        )

    def batches(self, step: int, collected: CollectedStep) -> list[Batch]:
        """The batches of a step's groups, with their credit."""
        groups, budget = collected.trained, self.micro_batch_tokens
        needs = self.algorithm.credit_needs
        estimates = estimate(groups, needs, self.learner, self.teacher, budget)
        return step_batches(
            credit_step(groups, self.algorithm, estimates),
            self.algorithm,
            budget_tokens=budget,
            constant=self.rollouts.max_tokens,
            seed=(self.seed, step),
        )


def check_any_usable(collected: CollectedStep) -> None:
    """Stop a run in which every episode failed: later steps would fail too."""
    episodes = [e for g in collected.everything for e in g.episodes]
    if any(e.is_usable for e in episodes):
        return
    first = episodes[0]
    reason = first.trace.failure.message if first.trace.failure else first.score.reason
    raise StepFailed(
        f"all {len(episodes)} episodes of the step failed or were not scored; the first, of task "
        f"{first.trace.task_id!r}: {reason}; mend that",
        episodes,
        [group.task for group in collected.everything],
    )


def check_sampled_by(
    fingerprint: str, collected: CollectedStep, recent: Set[str] = frozenset()
) -> None:
    """Refuse episodes that were sampled by other weights than the learner's, or `recent` ones."""
    for group in collected.everything:
        for episode in group.episodes:
            foreign = episode.trace.fingerprints - {fingerprint} - recent
            if foreign:
                raise PolicyMismatch(
                    f"episode {episode.trace.id} was sampled by weights {sorted(foreign)[0]} but "
                    f"the learner holds {fingerprint}: another or a stale adapter is being "
                    "sampled; nothing was updated"
                )
