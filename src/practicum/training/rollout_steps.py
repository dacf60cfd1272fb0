"""Steps whose material the policy makes itself: act, score, credit."""

import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from practicum.core.config import RolloutConfig
from practicum.core.errors import PolicyMismatch, PracticumError
from practicum.core.interfaces import Algorithm, Curriculum, Learner, Sampler, Teacher
from practicum.core.sample import Batch, Episode, Group
from practicum.core.task import Task
from practicum.rollouts import RolloutParts, run_groups
from practicum.training.collect import CollectedStep, collect_step
from practicum.training.crediting import credit_step, estimate, step_batches
from practicum.training.stages import StepResult
from practicum.training.step_metrics import rollout_metrics, update_metrics

__all__ = ["RolloutSteps"]


class Rolled(NamedTuple):
    """What was rolled out in a step, and how long that took."""

    collected: CollectedStep
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSteps:
    """Groups of episodes of the curriculum's tasks, learned from once they are scored."""

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
        """Without those that replace groups there is nothing to learn from."""
        return self.rollouts.tasks_per_step * self.rollouts.group_size

    async def gather(self, step: int) -> Rolled:
        """Roll out a step's groups."""
        self.sampler.forget()
        return await self.roll_out(step, self.curriculum)

    async def roll_out(self, step: int, curriculum: Curriculum) -> Rolled:
        """The groups of a step, of tasks from a curriculum."""
        started = time.monotonic()

        async def run(tasks: list[Task], round_number: int) -> list[Group]:
            return await run_groups(
                self.parts,
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
        return Rolled(collected, time.monotonic() - started)

    def learn(self, step: int, material: Rolled) -> StepResult:
        """Credit the episodes and update from them."""
        started, collected = time.monotonic(), material.collected
        check_any_usable(collected)
        check_sampled_by(self.learner.fingerprint(), collected)
        return self.update(self.batches(step, collected), material, started)

    def update(self, batches: Sequence[Batch], material: Rolled, started: float) -> StepResult:
        """Learn from the batches of a step, which was begun at `started`."""
        collected = material.collected
        report = self.learner.update(batches, self.algorithm) if batches else None
        metrics = {**rollout_metrics(collected), **(update_metrics(report) if report else {})}
        metrics["rollout_s"] = material.seconds
        metrics["update_s"] = time.monotonic() - started
        return StepResult(
            report=report,
            metrics=metrics,
            episodes=tuple(e for g in collected.groups for e in g.episodes),
            tasks=tuple(g.task for g in collected.groups),
        )

    def batches(self, step: int, collected: CollectedStep) -> list[Batch]:
        """What is learned from a step's groups, credited."""
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
    """Stop a run in which nothing works any more, rather than go through its steps in vain."""
    episodes = [e for g in collected.groups for e in g.episodes]
    if any(e.is_usable for e in episodes):
        return
    first = episodes[0]
    reason = first.trace.failure.message if first.trace.failure else first.score.reason
    raise PracticumError(
        f"all {len(episodes)} episodes of the step failed or were not scored; the first: {reason}"
    )


def check_sampled_by(
    fingerprint: str, collected: CollectedStep, recent: Set[str] = frozenset()
) -> None:
    """Refuse episodes that weights other than these, or those of recent updates, have sampled."""
    for group in collected.groups:
        for episode in group.episodes:
            foreign = episode.trace.fingerprints - {fingerprint} - recent
            if foreign:
                raise PolicyMismatch(
                    f"episode {episode.trace.id} was sampled by weights {sorted(foreign)[0]} but "
                    f"the learner holds {fingerprint}: another or a stale adapter is being "
                    "sampled; nothing was updated"
                )
