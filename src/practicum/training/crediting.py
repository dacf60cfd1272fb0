"""From a step's groups to batches: estimates, credit, samples, prefix trees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from practicum.batching import build_batches, episode_samples, group_samples, loss_tokens, walks
from practicum.core.interfaces import Algorithm, Learner, Need, Teacher
from practicum.core.sample import Batch, Credit, Episode, Estimates, Floats, Group, Sample
from practicum.core.trace import Trace

__all__ = ["credit_step", "estimate", "step_batches"]

ESTIMATED = ("logprobs", "base_logprobs", "values", "teacher_logprobs")
"""Fields of `Estimates`; all but the last are the learner's."""

CreditedEpisodes = list[tuple[Episode, Credit]]


def credit_step(
    groups: Sequence[Group], algorithm: Algorithm, estimates: Mapping[str, Estimates]
) -> CreditedEpisodes:
    """The usable episodes of all groups, each with its credit."""
    credits = algorithm.credit(groups, estimates)
    return [
        pair
        for group, of_group in zip(groups, credits, strict=True)
        for pair in zip(group.usable, of_group, strict=True)
    ]


def estimate(
    groups: Sequence[Group],
    needs: frozenset[Need],
    learner: Learner,
    teacher: Teacher | None,
    budget_tokens: int,
) -> dict[str, Estimates]:
    """What the learner, and a teacher, say of every loss token of the groups' episodes."""
    if not needs:
        return {}
    traces = [episode.trace for group in groups for episode in group.usable]
    samples = [sample for trace in traces for sample in _uncredited(trace)]
    found: dict[str, dict[str, Floats]] = {name: {} for name in ESTIMATED}
    if needs & {"base", "values"}:
        batches = build_batches(samples, budget_tokens)
        for batch, measured in zip(batches, learner.measure(batches, needs), strict=True):
            for name in ESTIMATED[:3]:
                found[name].update(_by_sample(batch, getattr(measured, name)))
    if "teacher" in needs:
        assert teacher is not None
        said = teacher.logprobs(samples)
        found["teacher_logprobs"] = {s.id: x for s, x in zip(samples, said, strict=True)}
    return {
        trace.id: Estimates(**{name: _by_turn(trace, of) for name, of in found.items() if of})
        for trace in traces
    }


def _uncredited(trace: Trace) -> list[Sample]:
    return episode_samples(trace, Credit(advantages=(0.0,) * len(trace.turns)), 1.0)


def _by_sample(batch: Batch, terms: Floats | None) -> Iterable[tuple[str, Floats]]:
    """The terms of each sample, in the order of its tokens."""
    if terms is None:
        return []
    return [(key, terms[batch.term_sample == n]) for n, key in enumerate(batch.sample_ids)]


def _by_turn(trace: Trace, by_sample: Mapping[str, Floats]) -> tuple[Floats, ...]:
    """An array for each turn; a turn without loss tokens has an empty one."""
    turns: dict[int, Floats] = {}
    for number, (_, fresh) in enumerate(walks(trace)):
        sizes = [sum(s.loss_mask) if (s := trace.nodes[i].sampled) else 0 for i in fresh]
        terms = by_sample[f"{trace.id}#{number}" if number else trace.id]
        turns.update(zip(fresh, np.split(terms, list(accumulate(sizes))[:-1]), strict=True))
    return tuple(turns.get(node, np.zeros(0, np.float32)) for node in trace.turns)


def step_batches(
    credited: CreditedEpisodes,
    algorithm: Algorithm,
    *,
    budget_tokens: int,
    constant: int,
    seed: Sequence[int],
) -> list[Batch]:
    """Prefix trees of all minibatches; which episode is in which is drawn by the seed.

    Episodes without a token to learn from are left out, so that they do not thin out a minibatch.
    """
    kept = [(e, credit) for e, credit in credited if credit.counts and loss_tokens(e.trace)]
    count = min(algorithm.minibatches, len(kept))
    if count > 1:
        order = np.random.default_rng(list(seed)).permutation(len(kept))
        kept = [kept[i] for i in order]
    batches: list[Batch] = []
    for number in range(count):
        part = kept[number::count]
        episodes, credits = [e for e, _ in part], [credit for _, credit in part]
        samples = group_samples(episodes, credits, algorithm.averaging, constant)
        batches += [replace(b, minibatch=number) for b in build_batches(samples, budget_tokens)]
    return batches
