"""PPO with a value head (Schulman et al. 2017, arXiv 1707.06347).

Credit is generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438) over steps that
are turns (`gae="turn"`) or tokens (`gae="token"`). With rewards r_t and values V_t,

    delta_t = r_t + discount * V_{t+1} - V_t
    A_t     = delta_t + discount * gae_lambda * A_{t+1}
    G_t     = A_t + V_t                                 the value head's target

After the last step V is 0; where a limit cut the episode off, it is the last value known, because
the episode would have gone on (`bootstrap_cut_off`). A turn's reward comes at its last token, the
KL penalty at each token (`kl_in: reward`). The reward of a turn without loss tokens is added to the
turn before it. Advantages are then normalised to mean 0 and standard deviation 1 over the tokens of
the step (`normalise_advantages`).

Over turns, the value of a turn is the value before its first loss token; all its tokens have its
advantage, and only that first token has a target: the returns of the others are `NO_TARGET`, and
the loss skips them. A sample's weight is then divided evenly among its turns, so that the value
loss is a mean over turns.

Loss, with r = exp(logp - logp_old) and c(V) = clip(V, V_old - value_clip, V_old + value_clip):

      - min(r A, clip(r, 1 - clip, 1 + clip) A)
      + value_coef * 1/2 max((V - G)^2, (c(V) - G)^2)
      - entropy * entropy of the choices
      + kl * (exp(logp_base - logp) - (logp_base - logp) - 1)

averaged over the tokens of the step. The paper writes the value loss without the 1/2 and without
clipping it, and normalises nothing; these are common practice.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Episode, Estimates, Floats, Group, Ints
from practicum.training.algorithms.credit import (
    Floats64,
    KlMethod,
    by_turn,
    is_cut_off,
    normalise,
    token_penalties,
    turn_rewards,
)
from practicum.training.algorithms.losses import clipped_surrogate, sum_by_sample, weighted_loss

if TYPE_CHECKING:
    from practicum.core.config.algorithm_config import OnlineConfig, PpoConfig

NO_TARGET = float(np.finfo(np.float32).min)
"""Marks a token without a value target. A number, so that arrays stay float32 without a mask."""


class Ppo(KlMethod):
    """PPO.

    Args:
        config: Its options.
        normalise_advantages: Normalise advantages over the tokens of the step.
        bootstrap_cut_off: Bootstrap from the last value where a limit ended the episode.
        options: Its options by name, and `turn_limit`.
    """

    name = "ppo"
    config: "PpoConfig"
    averaging: Averaging = "token"

    def __init__(
        self,
        config: "OnlineConfig | None" = None,
        *,
        normalise_advantages: bool = True,
        bootstrap_cut_off: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(config, **options)
        self.normalise_advantages = normalise_advantages
        self.bootstrap_cut_off = bootstrap_cut_off
        # Over turns the value loss shares a sample's weight between them.
        self.by_sequence = self.config.gae == "turn"

    @property
    def credit_needs(self) -> frozenset[Need]:
        """Values, and what the reward reads."""
        return super().credit_needs | {"values"}

    @property
    def loss_needs(self) -> frozenset[Need]:
        """Values, and what the loss's other parts read."""
        extra: set[Need] = {"values", "entropy"} if self.config.entropy else {"values"}
        return super().loss_needs | extra

    def is_informative(self, group: Group) -> bool:
        """Any usable group: the value head is the baseline."""
        return bool(group.usable)

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """GAE advantages and value targets for each token."""
        credit_one = self._over_turns if self.config.gae == "turn" else self._over_tokens
        found = [[credit_one(e, estimates) for e in group.usable] for group in groups]
        advantages: Sequence[Sequence[Sequence[Floats | Floats64]]]
        advantages = [[advantages for advantages, _ in group] for group in found]
        if self.normalise_advantages:
            advantages = normalise([[a for a, _ in group] for group in found])
        return [
            [
                Credit(
                    advantages=_floats(of_turns),
                    returns=_floats(returns),
                    old_values=by_turn(episode.trace, estimates[episode.trace.id].values),
                )
                for episode, of_turns, (_, returns) in zip(
                    group.usable, of_group, pairs, strict=True
                )
            ]
            for group, of_group, pairs in zip(groups, advantages, found, strict=True)
        ]

    def _over_turns(
        self, episode: Episode, estimates: Mapping[str, Estimates]
    ) -> tuple[list[Floats64], list[Floats64]]:
        """Advantages and returns by turn and token, where a turn is one step of GAE."""
        values_by_turn = by_turn(episode.trace, estimates[episode.trace.id].values)
        rewards = deciding_rewards(
            turn_rewards(episode, estimates, self.kl_in_reward), [v.size for v in values_by_turn]
        )
        values = np.asarray([v[0] for v in values_by_turn if v.size], np.float64)
        steps = iter(zip(self._estimate(episode, rewards, values), values, strict=True))
        advantages, returns = [], []
        for tokens in values_by_turn:
            targets = np.full(tokens.size, NO_TARGET)
            advantage, value = next(steps) if tokens.size else (0.0, 0.0)
            targets[:1] = advantage + value
            advantages.append(np.full(tokens.size, advantage))
            returns.append(targets)
        return advantages, returns

    def _over_tokens(
        self, episode: Episode, estimates: Mapping[str, Estimates]
    ) -> tuple[list[Floats64], list[Floats64]]:
        """Advantages and returns by turn and token, where a token is one step of GAE."""
        values_by_turn = by_turn(episode.trace, estimates[episode.trace.id].values)
        lengths = np.asarray([v.size for v in values_by_turn], np.int64)
        paid = token_penalties(episode.trace, estimates, self.kl_in_reward)
        rewards = -np.concatenate([np.zeros(0), *paid])
        ends = np.cumsum(lengths[lengths > 0]) - 1
        rewards[ends] += deciding_rewards(turn_rewards(episode, {}, 0.0), lengths.tolist())
        values = np.concatenate([np.zeros(0), *values_by_turn])
        advantages = self._estimate(episode, rewards, values)
        return _split(advantages, lengths), _split(advantages + values, lengths)

    def _estimate(
        self, episode: Episode, rewards: Sequence[float] | Floats64, values: Floats64
    ) -> Floats64:
        goes_on = self.bootstrap_cut_off and is_cut_off(episode.trace, self.turn_limit)
        last = float(values[-1]) if goes_on and values.size else 0.0
        return generalised_advantages(
            rewards,
            values,
            discount=self.config.discount,
            decay=self.config.gae_lambda,
            last_value=last,
        )

    def own_loss(self, terms: LossTerms) -> LossReport:
        """Policy, value and entropy together; see the module's formula."""
        return ppo_loss(terms, self.config, kl=self.kl)


def deciding_rewards(rewards: Sequence[float], lengths: Sequence[int]) -> list[float]:
    """Rewards of the turns with loss tokens; those of other turns are added to the turn before.

    Rewards before the first turn with loss tokens are dropped: no token could have earned them.

    >>> deciding_rewards([1.0, 2.0, 4.0, 8.0], [0, 3, 0, 2])
    [6.0, 8.0]
    """
    found: list[float] = []
    for reward, length in zip(rewards, lengths, strict=True):
        if length:
            found.append(reward)
        elif found:
            found[-1] += reward
    return found


def generalised_advantages(
    rewards: Sequence[float] | Floats64,
    values: Sequence[float] | Floats64,
    *,
    discount: float,
    decay: float,
    last_value: float = 0.0,
) -> Floats64:
    """GAE of one episode's steps; `last_value` is the value after the last of them.

    >>> generalised_advantages([0.0, 1.0], [0.5, 0.25], discount=1.0, decay=1.0).tolist()
    [0.5, 0.75]
    """
    found = np.zeros(len(values))
    running, after = 0.0, last_value
    for step in reversed(range(len(values))):
        delta = rewards[step] + discount * after - values[step]
        running = delta + discount * decay * running
        found[step], after = running, values[step]
    return found


def ppo_loss(terms: LossTerms, config: "PpoConfig", *, kl: float) -> LossReport:
    """Clipped policy gradient, value loss and entropy bonus."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs)
    surrogate, clipped = clipped_surrogate(ratio, terms.advantages, config.clip, config.clip)
    if config.entropy:
        surrogate = surrogate + config.entropy * terms.entropies
    report = weighted_loss(terms, surrogate, clipped, kl=kl)
    error = config.value_coef * value_error(terms, config.value_clip)
    return LossReport(loss=report.loss + error, clipped=report.clipped, value_loss=error.detach())


def value_error(terms: LossTerms, value_clip: float) -> torch.Tensor:
    """Half the weighted squared error, over the terms that have a target.

    A sample's weight is divided among its terms with a target.
    """
    has_target = terms.returns > NO_TARGET
    targets = torch.where(has_target, terms.returns, torch.zeros_like(terms.returns))
    errors = (terms.values - targets).square()
    if value_clip > 0.0:
        near = terms.old_values + (terms.values - terms.old_values).clamp(-value_clip, value_clip)
        errors = torch.maximum(errors, (near - targets).square())
    weights = terms.weights
    if not bool(has_target.all()):
        weight = sum_by_sample(weights, terms.samples)
        count = sum_by_sample(has_target.to(weights.dtype), terms.samples)
        weights = (weight / count.clamp(min=1.0))[terms.samples]
    return 0.5 * (weights * has_target * errors).sum()


def _split(tokens: Floats64, lengths: Ints) -> list[Floats64]:
    """The tokens of each turn; `np.split` would give one part for no turns."""
    return [tokens[end - n : end] for n, end in zip(lengths, np.cumsum(lengths), strict=True)]


def _floats(turns: Sequence[Floats | Floats64]) -> tuple[Floats, ...]:
    return tuple(turn.astype(np.float32) for turn in turns)
