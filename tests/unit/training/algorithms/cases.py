"""Episodes, groups and terms of a loss in few words."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from practicum.core.loss import LossTerms
from practicum.core.sample import Averaging, Episode, Estimates, Group
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import Node, SampledSpan, StopReason, Trace

LENGTHS = (4, 1, 7, 3, 5)
CONSTANT = 11


def make_trace(
    name: str, turns: Sequence[tuple[int, ...]], stop: StopReason, forced: Sequence[int] = ()
) -> Trace:
    """One given token, then each turn's tokens with one given token between turns.

    Turns whose number is in `forced` carry no loss.
    """
    nodes = [Node(parent=None, messages=(), token_ids=(0,))]
    for turn, ids in enumerate(turns):
        if turn:
            nodes.append(Node(parent=len(nodes) - 1, messages=(), token_ids=(0,)))
        mask = (turn not in forced,) * len(ids)
        span = SampledSpan(logprobs=(-1.0,) * len(ids), loss_mask=mask)
        nodes.append(Node(parent=len(nodes) - 1, messages=(), token_ids=ids, sampled=span))
    return Trace(id=name, task_id="t", env="e", nodes=tuple(nodes), stop=stop)


def make_episode(
    *turns: tuple[int, ...],
    score: Score,
    stop: StopReason = StopReason.FINISHED,
    name: str = "",
    forced: Sequence[int] = (),
) -> Episode:
    trace = make_trace(name or str(turns), turns, stop, forced)
    return Episode(trace=trace, outcome=None, score=score)


def paid(*rewards: float) -> Score:
    """A score that says what each turn earned."""
    return Score(components={"turns": sum(rewards)}, turn_values=rewards)


def whole(value: float) -> Score:
    """A score of the episode as a whole."""
    return Score(components={"solved": value})


def group(*episodes: Episode) -> Group:
    return Group(task=Task(id="t", env="e", split="train"), episodes=episodes)


def turns_of(*arrays: Sequence[float]) -> tuple[np.ndarray, ...]:
    """One float32 array a turn."""
    return tuple(np.asarray(a, np.float32) for a in arrays)


def kl_estimates(*differences: Sequence[float]) -> Estimates:
    """Estimates whose logp - logp_base are these, turn by turn."""
    base = [np.linspace(-1.0, -2.0, len(d)) for d in differences]
    own = [b + np.asarray(d) for b, d in zip(base, differences, strict=True)]
    return Estimates(logprobs=turns_of(*own), base_logprobs=turns_of(*base))


def random_terms(
    seed: int,
    averaging: Averaging = "episode",
    *,
    per_token: bool = False,
    apart: float = 0.4,
    lengths: Sequence[int] = LENGTHS,
) -> LossTerms:
    """Sequences of different lengths, in float64, whose ratios are spread around 1.

    Args:
        seed: Of all that is drawn.
        averaging: What the weights are the mean of.
        per_token: Whether each token has an advantage of its own; else each sequence has one.
        apart: How far the sampler's log-probabilities are from the policy's.
        lengths: Tokens of each sequence.
    """
    chance = np.random.default_rng(seed)
    samples = np.repeat(np.arange(len(lengths)), lengths)
    tokens = samples.size
    share = {
        "episode": 1.0 / (len(lengths) * np.asarray(lengths)),
        "token": np.full(len(lengths), 1.0 / tokens),
        "constant": np.full(len(lengths), 1.0 / (len(lengths) * CONSTANT)),
    }[averaging]
    advantages = chance.normal(size=tokens if per_token else len(lengths))
    logprobs = -chance.exponential(size=tokens) - 0.1
    values = chance.normal(size=tokens)

    def tensor(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.float64)

    return LossTerms(
        logprobs=tensor(logprobs).requires_grad_(),
        old_logprobs=tensor(logprobs + apart * chance.normal(size=tokens)),
        advantages=tensor(advantages if per_token else advantages[samples]),
        weights=tensor(share[samples]),
        base_logprobs=tensor(logprobs + chance.normal(size=tokens)),
        samples=torch.tensor(samples),
        entropies=tensor(chance.exponential(size=tokens)).requires_grad_(),
        values=tensor(values).requires_grad_(),
        old_values=tensor(values + 0.3 * chance.normal(size=tokens)),
        returns=tensor(chance.normal(size=tokens)),
    )


def sequences(terms: LossTerms) -> list[list[int]]:
    """Places of each sequence's terms."""
    owners = terms.samples.tolist()
    return [[i for i, owner in enumerate(owners) if owner == n] for n in range(max(owners) + 1)]


def assert_same_loss(
    ours: Callable[[], torch.Tensor],
    reference: Callable[[], torch.Tensor],
    *inputs: torch.Tensor,
) -> None:
    """Both losses, and their gradients by each of the inputs, are equal."""
    one, other = ours(), reference()
    assert abs(float(one.detach()) - float(other.detach())) < 1e-9
    assert abs(float(other.detach())) > 1e-3
    gradients = zip(
        torch.autograd.grad(one, inputs), torch.autograd.grad(other, inputs), strict=True
    )
    for left, right in gradients:
        torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)
        assert right.abs().max() > 1e-3
