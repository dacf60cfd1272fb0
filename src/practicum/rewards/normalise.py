"""Components that count by their weights and not by their ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev

from practicum.core.interfaces import GroupReward
from practicum.core.sample import Episode, Group

__all__ = ["InOrder", "NormalisedComponents"]

FLAT = 1e-9
"""Spread below which a component's values are all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalisedComponents:
    """Divides each component's weight by the component's spread among the group's episodes.

    With w the weight and s the standard deviation (of n - 1), the weight becomes w / s: components
    themselves stay as they were. One that is the same for all says nothing, and counts 0. Turn
    values are scaled with `turns`, the label of the component they sum to. A group with fewer than
    two usable episodes stays as it is.
    """

    turns: str = ""

    async def rescore(self, group: Group) -> Group:
        """The group with other weights."""
        usable = group.usable
        if len(usable) < 2:
            return group
        labels = list(usable[0].score.components)
        scale = {label: _inverse_spread(usable, label) for label in labels}
        episodes = [self._scaled(e, scale) if e.is_usable else e for e in group.episodes]
        return replace(group, episodes=tuple(episodes))

    def _scaled(self, episode: Episode, scale: Mapping[str, float]) -> Episode:
        score = episode.score
        weights = {
            label: score.weights.get(label, 1.0) * scale.get(label, 0.0)
            for label in score.components
        }
        by_turn = scale.get(self.turns, 0.0)
        turn_values = tuple(value * by_turn for value in score.turn_values) if by_turn else ()
        return replace(episode, score=replace(score, weights=weights, turn_values=turn_values))


def _inverse_spread(episodes: Sequence[Episode], label: str) -> float:
    values = [v for e in episodes if (v := e.score.components.get(label)) is not None]
    spread = stdev(values) if len(values) > 1 else 0.0
    return 1.0 / spread if spread > FLAT else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InOrder:
    """Several group rewards, each of which sees what the one before it made."""

    rewards: tuple[GroupReward, ...]

    async def rescore(self, group: Group) -> Group:
        """The group as the last one leaves it."""
        for reward in self.rewards:
            group = await reward.rescore(group)
        return group
