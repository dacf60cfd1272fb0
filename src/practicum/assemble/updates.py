"""One update from groups of episodes, for loops that are not a run's."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from practicum.assemble.build_policy import stage_view
from practicum.core.config.run_config import RunConfig
from practicum.core.errors import UserError
from practicum.core.interfaces import Algorithm, Learner
from practicum.core.sample import Batch, Credit, Episode, Group
from practicum.training.algorithms.build_algorithms import build_algorithm
from practicum.training.rollout_steps import credit_step, estimate, step_batches

Advantages = Sequence[Sequence[float | Sequence[float]]]
"""For each group one advantage for each usable episode, or for each of the episode's turns."""


class Lesson(NamedTuple):
    """What an update learns from, and by which loss."""

    batches: list[Batch]
    algorithm: Algorithm


def lesson_of(
    groups: Sequence[Group],
    config: RunConfig,
    learner: Learner,
    *,
    seed: Sequence[int],
    advantages: Advantages | None = None,
) -> Lesson:
    """Batches of the groups' usable episodes.

    Args:
        groups: At least one.
        config: The algorithm and its options.
        learner: Measures what the algorithm's credit needs to know.
        seed: Decides which episode is in which minibatch.
        advantages: Of each group's usable episodes; the algorithm's own unless given.
    """
    stage = config.all_stages[0]
    chosen = stage.algorithm.for_episodes(sum(len(group.usable) for group in groups))
    algorithm = build_algorithm(chosen, config.rollouts)
    budget = stage_view(config, stage).algorithm.micro_batch_tokens
    if advantages is None:
        estimates = estimate(groups, algorithm.credit_needs, learner, None, budget)
        credited = credit_step(groups, algorithm, estimates)
    else:
        credited = list(_credited(groups, advantages))
    batches = step_batches(
        credited,
        algorithm,
        budget_tokens=budget,
        constant=config.rollouts.max_tokens,
        seed=seed,
    )
    return Lesson(batches, algorithm)


def _credited(groups: Sequence[Group], advantages: Advantages) -> Iterator[tuple[Episode, Credit]]:
    if len(advantages) != len(groups):
        raise UserError(
            f"there are advantages for {len(advantages)} groups and {len(groups)} groups; give a "
            "list for each group"
        )
    for number, (group, of_group) in enumerate(zip(groups, advantages, strict=True), start=1):
        if len(of_group) != len(group.usable):
            raise UserError(
                f"group {number} has {len(group.usable)} usable episodes and {len(of_group)} "
                "advantages; give one for each of group.usable"
            )
        for episode, given in zip(group.usable, of_group, strict=True):
            turns = len(episode.trace.turns)
            each = tuple(given) if isinstance(given, Sequence) else (float(given),) * turns
            if len(each) != turns:
                raise UserError(
                    f"an episode of group {number} has {turns} turns and {len(each)} advantages; "
                    "give one number for all of them, or one for each"
                )
            yield episode, Credit(advantages=each)
