"""PPO with a value head (Schulman et al. 2017, arXiv 1707.06347).

Credit is generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438) over steps that
are turns (`gae="turn"`) or tokens (`gae="token"`). With rewards r_t and values V_t,

    delta_t = r_t + discount * V_{t+1} - V_t
    A_t     = delta_t + discount * decay * A_{t+1}
    G_t     = A_t + V_t                                 what the value head is to predict

After the last step V is 0; where a limit cut the episode off, it is the last value known, because
the episode would have gone on (`bootstrap_cut_off`). A turn's reward is paid at its end, and each
token pays for KL (`kl_in_reward`). What is earned in a turn without a decision counts as earned in
the turn before it. Advantages then have mean 0 and standard deviation 1 over the tokens of the step
(`normalise_advantages`).

Over turns, the value of a turn is the value before its first loss token; all its tokens have its
advantage, and only that first token has a target: the returns of the others are `NO_TARGET`, and
the loss leaves their values out. A sample's weight is then shared evenly by its turns, so that the
value loss is a mean over turns; over tokens each one has its own weight.

Loss, with r = exp(logp - logp_old) and c(V) = clip(V, V_old - value_clip, V_old + value_clip):

      - min(r A, clip(r, 1 - clip, 1 + clip) A)
      + value_weight * 1/2 max((V - G)^2, (c(V) - G)^2)
      - entropy_bonus * entropy
      + kl * (exp(logp_base - logp) - (logp_base - logp) - 1)

averaged over the tokens of the step. The paper writes the value loss without the 1/2 and without
clipping it, and normalises nothing; these are as PPO is commonly run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from practicum.algorithms.credit import (
    Precise,
    by_turn,
    is_cut_off,
    normalise,
    token_penalties,
    turn_rewards,
)
from practicum.algorithms.methods import OnlineMethod
from practicum.algorithms.surrogate import clipped_gain, sum_by_sample, weigh
from practicum.core.interfaces import Need
from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Averaging, Credit, Episode, Estimates, Floats, Group, Ints

__all__ = [
    "NO_TARGET",
    "Ppo",
    "deciding_rewards",
    "generalised_advantages",
    "ppo_loss",
    "value_error",
]

NO_TARGET = float(np.finfo(np.float32).min)
"""In place of a return: the value before this token is not to be predicted. No return is as low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ppo(OnlineMethod):
    """PPO with its settings."""

    epochs: int = 4
    averaging: Averaging = "token"
    gae: Literal["turn", "token"] = "turn"
    discount: float = 1.0
    decay: float = 0.95
    """The lambda of GAE: 0 trusts the value head after one step, 1 waits for what is earned."""
    clip: float = 0.2
    value_clip: float = 0.2
    """How far a value may move from what it was when credited; 0 does not limit it."""
    value_weight: float = 0.5
    entropy_bonus: float = 0.0
    normalise_advantages: bool = True
    bootstrap_cut_off: bool = True
    turn_limit: int = 0
    """Tokens a turn may have: a last turn as long counts as cut off; 0 looks at turns only."""

    @property
    def by_sequence(self) -> bool:
        """Over turns the value loss shares a sample's weight between them."""
        return self.gae == "turn"

    @property
    def credit_needs(self) -> frozenset[Need]:
        """Values; the base model's log-probabilities too where the reward has KL in it."""
        return frozenset({"values", "base"} if self.kl_in_reward > 0.0 else {"values"})

    @property
    def loss_needs(self) -> frozenset[Need]:
        """Values, and what the loss's other parts read."""
        found: set[Need] = {"values"}
        if self.kl > 0.0:
            found.add("base")
        if self.entropy_bonus:
            found.add("entropy")
        return frozenset(found)

    def is_informative(self, group: Group) -> bool:
        """Always: an episode is compared with what the value head expected of it."""
        return bool(group.usable)

    def credit(
        self, groups: Sequence[Group], estimates: Mapping[str, Estimates]
    ) -> list[list[Credit]]:
        """Advantages, and what the value head is to predict, for each token."""
        credit_one = self._over_turns if self.gae == "turn" else self._over_tokens
        found = [[credit_one(e, estimates) for e in group.usable] for group in groups]
        advantages: Sequence[Sequence[Sequence[Floats | Precise]]]
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
    ) -> tuple[list[Precise], list[Precise]]:
        """Advantages and returns of a turn's tokens, where a turn is one step."""
        said = by_turn(episode.trace, estimates[episode.trace.id].values)
        rewards = deciding_rewards(
            turn_rewards(episode, estimates, self.kl_in_reward), [v.size for v in said]
        )
        values = np.asarray([v[0] for v in said if v.size], np.float64)
        steps = iter(zip(self._estimate(episode, rewards, values), values, strict=True))
        advantages, returns = [], []
        for tokens in said:
            targets = np.full(tokens.size, NO_TARGET)
            advantage, value = next(steps) if tokens.size else (0.0, 0.0)
            targets[:1] = advantage + value
            advantages.append(np.full(tokens.size, advantage))
            returns.append(targets)
        return advantages, returns

    def _over_tokens(
        self, episode: Episode, estimates: Mapping[str, Estimates]
    ) -> tuple[list[Precise], list[Precise]]:
        """Advantages and returns of a turn's tokens, where each of them is one step."""
        said = by_turn(episode.trace, estimates[episode.trace.id].values)
        lengths = np.asarray([v.size for v in said], np.int64)
        paid = token_penalties(episode.trace, estimates, self.kl_in_reward)
        rewards = -np.concatenate([np.zeros(0), *paid])
        ends = np.cumsum(lengths[lengths > 0]) - 1
        rewards[ends] += deciding_rewards(turn_rewards(episode, {}, 0.0), lengths.tolist())
        values = np.concatenate([np.zeros(0), *said])
        advantages = self._estimate(episode, rewards, values)
        return _split(advantages, lengths), _split(advantages + values, lengths)

    def _estimate(
        self, episode: Episode, rewards: Sequence[float] | Precise, values: Precise
    ) -> Precise:
        goes_on = self.bootstrap_cut_off and is_cut_off(episode.trace, self.turn_limit)
        last = float(values[-1]) if goes_on and values.size else 0.0
        return generalised_advantages(
            rewards, values, discount=self.discount, decay=self.decay, last_value=last
        )

    def loss(self, terms: LossTerms) -> LossReport:
        """Policy, value and entropy together; see the module's formula."""
        return ppo_loss(terms, self)


def deciding_rewards(rewards: Sequence[float], lengths: Sequence[int]) -> list[float]:
    """Rewards of the turns that have a loss token; others' count as earned by the one before.

    What is earned before the first decision is nobody's doing.

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
    rewards: Sequence[float] | Precise,
    values: Sequence[float] | Precise,
    *,
    discount: float,
    decay: float,
    last_value: float = 0.0,
) -> Precise:
    """GAE of one episode's steps; `last_value` is what is expected after the last of them.

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


def ppo_loss(terms: LossTerms, settings: Ppo) -> LossReport:
    """Clipped policy gradient, the value head's error, and a bonus for entropy."""
    ratio = torch.exp(terms.logprobs - terms.old_logprobs)
    gain, clipped = clipped_gain(ratio, terms.advantages, settings.clip, settings.clip)
    if settings.entropy_bonus:
        gain = gain + settings.entropy_bonus * terms.entropies
    report = weigh(terms, gain, clipped, kl=settings.kl)
    error = settings.value_weight * value_error(terms, settings.value_clip)
    return LossReport(loss=report.loss + error, clipped=report.clipped, value_loss=error.detach())


def value_error(terms: LossTerms, value_clip: float) -> torch.Tensor:
    """Half the weighted mean of squared errors, over the terms that have a target.

    The terms of a sample without a target give their weight to those that have one.
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


def _split(tokens: Precise, lengths: Ints) -> list[Precise]:
    """The tokens of each turn; no turns give no parts."""
    return [tokens[end - n : end] for n, end in zip(lengths, np.cumsum(lengths), strict=True)]


def _floats(turns: Sequence[Floats | Precise]) -> tuple[Floats, ...]:
    return tuple(turn.astype(np.float32) for turn in turns)
