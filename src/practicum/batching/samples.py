"""Credited episodes to training samples: one for each root-to-leaf walk."""

from collections.abc import Sequence

import numpy as np

from practicum.core.sample import Averaging, Credit, Episode, Sample
from practicum.core.trace import Node, Trace

__all__ = ["episode_samples", "group_samples", "loss_tokens", "walks"]


def group_samples(
    episodes: Sequence[Episode],
    credits: Sequence[Credit],
    averaging: Averaging = "episode",
    constant: int = 1,
) -> list[Sample]:
    """Samples of all episodes of an optimizer step, weighted so that the loss is a mean.

    Args:
        episodes: Those that are learned from.
        credits: What each one is credited with.
        averaging: Of what it is the mean. With `episode` an episode counts the same however long
            it is; with `token` each token does; with `constant` an episode's sum is divided by
            `constant`.
        constant: A length, with `constant`.
    """
    lengths = [loss_tokens(episode.trace) for episode in episodes]
    total = {"episode": 1, "token": sum(lengths), "constant": constant}[averaging]
    count = 1 if averaging == "token" else len(episodes)
    samples: list[Sample] = []
    for episode, credit, length in zip(episodes, credits, lengths, strict=True):
        share = 1 if averaging == "episode" else length
        samples += episode_samples(episode.trace, credit, share / (count * (total or 1)))
    return samples


def loss_tokens(trace: Trace) -> int:
    """Tokens of a trace that carry loss."""
    return sum(sum(n.sampled.loss_mask) for n in trace.nodes if n.sampled is not None)


def walks(trace: Trace) -> list[tuple[tuple[int, ...], list[int]]]:
    """Each root-to-leaf path to learn from, and its nodes whose loss no walk before it carries."""
    found, trained = [], set[int]()
    for leaf in trace.leaves():
        path = trace.path(leaf)
        fresh = [i for i in path if _has_loss(trace.nodes[i]) and i not in trained]
        if fresh:
            trained.update(fresh)
            found.append((path, fresh))
    return found


def episode_samples(trace: Trace, credit: Credit, weight: float) -> list[Sample]:
    """One sample for each leaf. A sampled node on several walks carries its loss on the first.

    The trace's loss tokens share `weight`.
    """
    for part in (credit.advantages, credit.returns or credit.advantages):
        if len(part) != len(trace.turns):
            raise ValueError(
                f"trace {trace.id!r} has {len(trace.turns)} turns and credit for {len(part)}"
            )
    each = weight / (loss_tokens(trace) or 1)
    return [
        _walk_sample(trace, path, frozenset(fresh), credit, (number, each))
        for number, (path, fresh) in enumerate(walks(trace))
    ]


def _has_loss(node: Node) -> bool:
    return node.sampled is not None and any(node.sampled.loss_mask)


def _walk_sample(
    trace: Trace,
    path: tuple[int, ...],
    fresh: frozenset[int],
    credit: Credit,
    place: tuple[int, float],
) -> Sample:
    length = sum(len(trace.nodes[i].token_ids) for i in path)
    token_ids = np.zeros(length, np.int64)
    loss_mask = np.zeros(length, np.bool_)
    old_logprobs = np.zeros(length, np.float32)
    credited = {
        name: np.zeros(length, np.float32)
        for name in CREDITED
        if name == "advantages" or getattr(credit, name)
    }
    turn_of = {node: turn for turn, node in enumerate(trace.turns)}
    temperatures = np.ones(length, np.float32)
    choices: dict[int, tuple[int, ...]] = {}
    at = 0
    for i in path:
        node = trace.nodes[i]
        span = slice(at, at + len(node.token_ids))
        token_ids[span] = node.token_ids
        if i in fresh and node.sampled is not None:
            loss_mask[span] = node.sampled.loss_mask
            old_logprobs[span] = _untruncated_logprobs(node)
            for name, array in credited.items():
                array[span][loss_mask[span]] = getattr(credit, name)[turn_of[i]]
            temperatures[span] = node.sampled.temperature
            choices.update(
                (at + offset, allowed)
                for offset, allowed in enumerate(node.sampled.choices)
                if allowed and node.sampled.loss_mask[offset]
            )
        at = span.stop
    return Sample(
        token_ids=token_ids,
        loss_mask=loss_mask,
        old_logprobs=np.where(loss_mask, old_logprobs, np.float32(0)),
        temperatures=temperatures,
        choices=choices,
        weight=place[1],
        trace_id=trace.id,
        walk=place[0],
        **credited,
    )


CREDITED = ("advantages", "returns", "old_values")
"""Fields of a credit that a sample has an array for."""


def _untruncated_logprobs(node: Node) -> "np.typing.NDArray[np.float32]":
    assert node.sampled is not None
    logprobs = np.asarray(node.sampled.logprobs, np.float32)
    if node.sampled.log_kept:
        logprobs = logprobs + np.asarray(node.sampled.log_kept, np.float32)
    return logprobs
