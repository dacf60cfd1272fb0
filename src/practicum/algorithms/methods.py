"""Settings that methods on fresh episodes share, and what follows from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from practicum.algorithms.credit import CreditBy, Scale, group_credit, has_spread
from practicum.core.interfaces import Need
from practicum.core.sample import Averaging, Credit, Estimates, Group

__all__ = ["GroupMethod", "OnlineMethod"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineMethod:
    """A method that learns from episodes its own policy has just made."""

    kl: float = 0.0
    """Weight of the distance to the base model in the loss."""
    kl_in_reward: float = 0.0
    """What a token pays for being likelier than under the base model, in the reward."""
    epochs: int = 1
    minibatches: int = 1
    averaging: Averaging = "episode"

    @property
    def by_sequence(self) -> bool:
        """Each term of the loss stands for itself."""
        return False

    @property
    def from_policy(self) -> bool:
        """The tokens are the policy's own."""
        return True

    @property
    def loss_needs(self) -> frozenset[Need]:
        """The base model's log-probabilities, where the loss keeps the policy near it."""
        return frozenset({"base"} if self.kl > 0.0 else ())

    @property
    def credit_needs(self) -> frozenset[Need]:
        """The base model's log-probabilities, where the reward keeps the policy near it."""
        return frozenset({"base"} if self.kl_in_reward > 0.0 else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMethod(OnlineMethod):
    """A method that compares the episodes of one task with each other."""

    credit_by: CreditBy = "turn"
    discount: float = 1.0
    """What a reward one turn later counts, with `credit_by="turn"`."""
    scale: Scale = "std"

    def is_informative(self, group: Group) -> bool:
        """Whether its episodes differ in what they scored, or may in what they pay for KL."""
        return has_spread(group) or (self.kl_in_reward > 0.0 and len(group.usable) > 1)

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """Advantages for each usable episode's turns."""
        return [
            [
                Credit(advantages=turns)
                for turns in group_credit(
                    group,
                    estimates,
                    credit_by=self.credit_by,
                    discount=self.discount,
                    scale=self.scale,
                    kl_in_reward=self.kl_in_reward,
                )
            ]
            for group in groups
        ]
