"""Credited episodes to training samples: one for each root-to-leaf walk."""

from collections.abc import Sequence

import numpy as np

from practicum.core.sample import Episode, Sample, TurnCredit
from practicum.core.trace import Node, Trace

__all__ = ["episode_samples", "group_samples"]


def group_samples(
    episodes: Sequence[Episode], credits: Sequence[TurnCredit], episodes_in_step: int
) -> list[Sample]:
    """Samples of several episodes, weighted so that the loss is a mean over episodes.

    Each episode counts the same however long it is: its loss tokens share a weight of
    1 / `episodes_in_step`.
    """
    samples: list[Sample] = []
    for episode, credit in zip(episodes, credits, strict=True):
        samples += episode_samples(episode.trace, credit, 1.0 / episodes_in_step)
    return samples


def episode_samples(trace: Trace, credit: TurnCredit, weight: float) -> list[Sample]:
    """One sample for each leaf. A sampled node on several walks carries its loss on the first."""
    advantage_of = dict(zip(trace.turns, credit, strict=True))
    loss_tokens = sum(sum(n.sampled.loss_mask) for n in trace.nodes if n.sampled is not None)
    if loss_tokens == 0:
        return []
    samples, trained = [], set[int]()
    for leaf in trace.leaves():
        path = trace.path(leaf)
        fresh = [i for i in path if _has_loss(trace.nodes[i]) and i not in trained]
        if not fresh:
            continue
        trained.update(fresh)
        advantages = {i: advantage_of[i] for i in fresh}
        samples.append(_walk_sample(trace, path, advantages, weight / loss_tokens))
    return samples


def _has_loss(node: Node) -> bool:
    return node.sampled is not None and any(node.sampled.loss_mask)


def _walk_sample(
    trace: Trace, path: tuple[int, ...], advantages: dict[int, float], weight: float
) -> Sample:
    length = sum(len(trace.nodes[i].token_ids) for i in path)
    token_ids = np.zeros(length, np.int64)
    loss_mask = np.zeros(length, np.bool_)
    old_logprobs = np.zeros(length, np.float32)
    advantage = np.zeros(length, np.float32)
    temperatures = np.ones(length, np.float32)
    choices: dict[int, tuple[int, ...]] = {}
    at = 0
    for i in path:
        node = trace.nodes[i]
        span = slice(at, at + len(node.token_ids))
        token_ids[span] = node.token_ids
        if i in advantages and node.sampled is not None:
            loss_mask[span] = node.sampled.loss_mask
            old_logprobs[span] = _untruncated_logprobs(node)
            advantage[span] = advantages[i]
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
        advantages=advantage,
        temperatures=temperatures,
        choices=choices,
        weight=weight,
        trace_id=trace.id,
    )


def _untruncated_logprobs(node: Node) -> "np.typing.NDArray[np.float32]":
    assert node.sampled is not None
    logprobs = np.asarray(node.sampled.logprobs, np.float32)
    if node.sampled.log_kept:
        logprobs = logprobs + np.asarray(node.sampled.log_kept, np.float32)
    return logprobs
