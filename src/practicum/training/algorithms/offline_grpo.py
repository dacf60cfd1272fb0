"""GRPO on recorded answers: off-policy, each token weighed by how likely the policy makes it now.

Credit, for answer i of a group with scores R_1..R_G, is that of `grpo`:

    A_i = (R_i - mean(R)) / (std(R) + 1e-4)          std with G - 1; not divided with `scale: none`

Loss over the tokens t of each answer, with r = exp(logp - logp_recorded), at most `max_ratio`:

    - min(r A, clip(r, 1 - eps, 1 + eps) A)

averaged over an answer's tokens, then over the answers of the update. r is the importance weight of
the token: what the policy has come to say more often than whoever answered counts more. Where no
log-probabilities were recorded, the answers are taken to have been sampled by the policy that the
stage starts from: r is then 1 at first, and the clip holds the policy near its start. How far that
is from the truth nothing can say; the run warns of it.
"""

from typing import TYPE_CHECKING

import numpy as np

from practicum.core.interfaces import Advantages, Examples, Need, SumPair, Sums
from practicum.core.loss import LossReport, LossTerms
from practicum.stats.advantages import episode_advantages
from practicum.training.algorithms.credit import ExampleMethod, truncated_loss
from practicum.training.algorithms.grpo import grpo_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import OfflineGrpoConfig


class OfflineGrpo(ExampleMethod):
    """GRPO on recorded groups; it is its own `Objective`."""

    name = "offline_grpo"
    config: "OfflineGrpoConfig"
    kind = "grpo"
    needs_measure = False
    epochs: int = 1
    loss_needs: frozenset[Need] = frozenset()
    by_sequence: bool = False
    from_policy: bool = False

    def advantages(
        self, rows: Examples, policy_sums: Sums, base_sums: Sums, mismatched: SumPair
    ) -> Advantages:
        """Each answer's advantage within its group; the loss is left to the update."""
        groups: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            groups.setdefault(row.pair, []).append(place)
        found = np.zeros(len(rows), np.float32)
        for places in groups.values():
            scores = [rows[place].reward for place in places]
            known = tuple(score for score in scores if score is not None)
            if len(known) < len(scores) or len(known) < 2:
                raise ValueError(f"{len(known)} of {len(scores)} answers of a group have a score")
            found[places] = episode_advantages(known, self.config.scale)
        return found, None, {"groups": float(len(groups))}

    def loss(self, terms: LossTerms) -> LossReport:
        """The clipped objective; see the module's formula."""
        clip = self.config.clip
        return truncated_loss(
            lambda some: grpo_loss(some, clip_low=clip, clip_high=clip, kl=0.0),
            terms,
            self.config.max_ratio,
        )
