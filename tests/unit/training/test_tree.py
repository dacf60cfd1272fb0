import random
from collections import Counter

import numpy as np
import pytest

from practicum.core.sample import Batch, Sample
from practicum.training.prefix_tree import build_batch, build_batches

Term = tuple[tuple[int, ...], int, float, tuple[int, ...], float, float, float]
"""Path before the token, token, temperature, choices, old log-probability, advantage, weight."""


def make_sample(tokens: tuple[int, ...], chance: random.Random, name: str) -> Sample:
    """Arrays of random values; the first token never carries loss."""
    n = len(tokens)
    mask = np.array([i > 0 and chance.random() < 0.6 for i in range(n)])
    choices = {
        i: tuple(sorted({tokens[i], chance.randrange(9)}))
        for i in range(n)
        if mask[i] and chance.random() < 0.5
    }
    return Sample(
        token_ids=np.array(tokens, np.int64),
        loss_mask=mask,
        old_logprobs=np.array([chance.choice([-1.0, -2.5]) for _ in range(n)], np.float32),
        advantages=np.array([chance.choice([0.5, -1.0]) for _ in range(n)], np.float32),
        temperatures=np.array([chance.choice([1.0, 0.7]) for _ in range(n)], np.float32),
        choices=choices,
        weight=chance.choice([0.25, 0.125]),
        trace_id=name,
    )


def random_samples(seed: int) -> list[Sample]:
    """Paths from a small alphabet: they share, repeat and contain each other."""
    chance = random.Random(seed)
    paths: list[tuple[int, ...]] = [()]
    samples = []
    for number in range(chance.randrange(1, 14)):
        trunk = chance.choice(paths)
        path = trunk[: chance.randrange(len(trunk) + 1)] if chance.random() < 0.3 else trunk
        path += tuple(chance.randrange(3) for _ in range(chance.randrange(5)))
        path = path or (1,)
        paths.append(path)
        samples.append(make_sample(path, chance, f"sample {number}"))
    return samples


def episode_tree_samples(seed: int) -> list[Sample]:
    """Walks of trees of turns, up to six deep, from prompts that are shared or not.

    A turn has up to three continuations, which may begin alike. A walk may end at any turn, so
    that some samples are prefixes of others, and some are there twice.
    """
    chance = np.random.default_rng(seed)
    turns = random.Random(seed)
    walks: list[tuple[int, ...]] = []
    for _ in range(int(chance.integers(1, 4))):
        opening = (1, 2, 1) if chance.random() < 0.5 else ()
        level = [opening + tuple(chance.integers(0, 9, chance.integers(1, 5)).tolist())]
        for _ in range(int(chance.integers(1, 7))):
            level = [
                walk + tuple(chance.integers(0, 3, chance.integers(1, 4)).tolist())
                for walk in level
                for _ in range(int(chance.integers(1, 4)))
            ]
            level = [level[i] for i in chance.permutation(len(level))[:4]]
            walks += [walk for walk in level if chance.random() < 0.6]
        walks += level
    walks += [walks[i] for i in chance.integers(0, len(walks), 3)]
    return [make_sample(walk, turns, f"walk {number}") for number, walk in enumerate(walks)]


def sort(samples: list[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda s: s.token_ids.tolist())


def path_to(batch: Batch, index: int) -> tuple[int, ...]:
    """Tokens on the way to a token of the tree, by the relation that attention uses."""
    return tuple(
        int(batch.token_ids[j]) for j in range(index + 1) if j <= index < int(batch.end[j])
    )


def terms_of_samples(samples: list[Sample]) -> Counter[Term]:
    found: Counter[Term] = Counter()
    for s in samples:
        tokens = tuple(s.token_ids.tolist())
        for at in np.flatnonzero(s.loss_mask).tolist():
            found[
                tokens[:at],
                tokens[at],
                float(s.temperatures[at]),
                s.choices.get(at, ()),
                float(s.old_logprobs[at]),
                float(s.advantages[at]),
                s.weight,
            ] += 1
    return found


def terms_of_batch(batch: Batch) -> Counter[Term]:
    found: Counter[Term] = Counter()
    for m, d in enumerate(batch.term_decision.tolist()):
        found[
            path_to(batch, int(batch.predictor[d])),
            int(batch.target[d]),
            float(batch.temperature[d]),
            tuple(i for i in batch.choice_ids[d].tolist() if i >= 0),
            float(batch.term_old_logprob[m]),
            float(batch.term_advantage[m]),
            float(batch.term_weight[m]),
        ] += 1
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_tree_holds_each_prefix_once_and_exactly_its_ancestors(seed: int) -> None:
    samples = sort(random_samples(seed))
    batch = build_batch(samples)
    prefixes = {
        tuple(s.token_ids[: i + 1].tolist()) for s in samples for i in range(s.token_ids.size)
    }
    paths = [path_to(batch, i) for i in range(batch.token_ids.size)]
    assert len(paths) == len(prefixes)
    assert set(paths) == prefixes
    assert batch.position.tolist() == [len(path) - 1 for path in paths]
    for i, mine in enumerate(paths):
        for j, other in enumerate(paths):
            is_ancestor = mine[: len(other)] == other
            assert (j <= i < int(batch.end[j])) == is_ancestor


@pytest.mark.parametrize("seed", range(40))
def test_every_loss_token_of_every_sample_is_a_term(seed: int) -> None:
    samples = sort(random_samples(seed))
    batch = build_batch(samples)
    assert terms_of_batch(batch) == terms_of_samples(samples)
    owners = Counter(batch.term_sample.tolist())
    assert owners == Counter({n: int(s.loss_mask.sum()) for n, s in enumerate(samples)}) - Counter()
    assert batch.sample_ids == tuple(s.trace_id for s in samples)
    assert batch.row_tokens == sum(s.token_ids.size for s in samples)


@pytest.mark.parametrize("seed", range(40))
def test_equal_decisions_are_made_once(seed: int) -> None:
    batch = build_batch(sort(random_samples(seed)))
    decisions = list(
        zip(
            batch.predictor.tolist(),
            batch.target.tolist(),
            batch.temperature.tolist(),
            map(tuple, batch.choice_ids.tolist()),
            strict=True,
        )
    )
    assert len(set(decisions)) == len(decisions)
    assert set(batch.term_decision.tolist()) == set(range(len(decisions)))


@pytest.mark.parametrize("seed", range(40))
def test_a_tree_of_episodes_is_its_prefixes_in_order(seed: int) -> None:
    """Sorted prefixes are a depth-first walk; a subtree ends after all that extend its prefix."""
    samples = sort(episode_tree_samples(seed))
    batch = build_batch(samples)
    rows = [tuple(s.token_ids.tolist()) for s in samples]
    prefixes = sorted({row[: i + 1] for row in rows for i in range(len(row))})
    assert batch.token_ids.tolist() == [prefix[-1] for prefix in prefixes]
    assert batch.position.tolist() == [len(prefix) - 1 for prefix in prefixes]
    for j, trunk in enumerate(prefixes):
        descendants = [i for i, other in enumerate(prefixes) if other[: len(trunk)] == trunk]
        assert descendants == list(range(j, int(batch.end[j])))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("budget", [12, 40, 10_000])
def test_what_each_token_of_an_episode_adds_to_the_loss_is_kept(seed: int, budget: int) -> None:
    """Weight times advantage, summed over every sample with loss on that token."""
    samples = episode_tree_samples(seed)
    expected: dict[tuple[int, ...], float] = {}
    for s in samples:
        for at in np.flatnonzero(s.loss_mask).tolist():
            token = tuple(s.token_ids[: at + 1].tolist())
            expected[token] = expected.get(token, 0.0) + s.weight * float(s.advantages[at])
    found: dict[tuple[int, ...], float] = {}
    for batch in build_batches(samples, budget):
        for d, weight, advantage in zip(
            batch.term_decision, batch.term_weight, batch.term_advantage, strict=True
        ):
            token = (*path_to(batch, int(batch.predictor[d])), int(batch.target[d]))
            found[token] = found.get(token, 0.0) + float(weight) * float(advantage)
    assert found == expected  # powers of two add up exactly


@pytest.mark.parametrize("seed", range(20))
def test_terms_follow_the_samples_in_order(seed: int) -> None:
    samples = sort(episode_tree_samples(seed))
    batch = build_batch(samples)
    expected = [
        (number, int(s.token_ids[at]), float(s.old_logprobs[at]))
        for number, s in enumerate(samples)
        for at in np.flatnonzero(s.loss_mask).tolist()
    ]
    targets = batch.target[batch.term_decision].tolist()
    olds = batch.term_old_logprob.tolist()
    assert list(zip(batch.term_sample.tolist(), targets, olds, strict=True)) == expected


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("budget", [1, 7, 15, 1000])
def test_any_budget_covers_all_samples_exactly_once(seed: int, budget: int) -> None:
    samples = random_samples(seed)
    batches = build_batches(samples, budget)
    names = [name for batch in batches for name in batch.sample_ids]
    assert sorted(names) == sorted(s.trace_id for s in samples)
    together: Counter[Term] = Counter()
    for batch in batches:
        assert batch.token_ids.size <= budget or len(batch.sample_ids) == 1
        together += terms_of_batch(batch)
    assert together == terms_of_samples(samples)


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_the_samples_does_not_matter(seed: int) -> None:
    """Not even among samples with the same tokens."""
    samples = episode_tree_samples(seed)
    shuffled = random.Random(1).sample(samples, len(samples))
    for one, other in zip(build_batches(samples, 30), build_batches(shuffled, 30), strict=True):
        for name in ("token_ids", "position", "end", "predictor", "target", "choice_ids"):
            assert np.array_equal(getattr(one, name), getattr(other, name))
        assert np.array_equal(one.term_decision, other.term_decision)
        assert one.sample_ids == other.sample_ids


def test_samples_of_one_prompt_stay_together_where_they_fit() -> None:
    chance = random.Random(0)
    prompts = ((1,) * 10, (2,) * 10)
    rows = [(*prompt, answer) for prompt in prompts for answer in (3, 4, 5)]
    batches = build_batches([make_sample(row, chance, str(row)) for row in rows], 25)
    assert [batch.token_ids.tolist() for batch in batches] == [
        [1] * 10 + [3, 4, 5],
        [2] * 10 + [3, 4, 5],
    ]


def test_token_ids_of_any_size_are_put_in_order() -> None:
    """Ids that differ in one byte, in several, and in none of the low ones."""
    chance = random.Random(0)
    ids = (2**17, 1, 256, 255, 65536, 0, 2**33, 151_935)
    samples = [make_sample((7, i), chance, str(i)) for i in ids]
    [batch] = build_batches([*samples, make_sample((7,), chance, "prompt")], 1000)
    assert batch.token_ids.tolist() == [7, *sorted(ids)]
    assert batch.sample_ids == ("prompt", *map(str, sorted(ids)))


def test_a_batch_has_arrays_of_its_own_in_the_declared_types() -> None:
    floats = {"temperature", "term_old_logprob", "term_advantage", "term_weight"}
    ints = {"token_ids", "position", "end", "predictor", "target", "choice_ids"}
    ints |= {"term_decision", "term_sample"}
    sample = make_sample((4, 5, 6, 7), random.Random(2), "one")
    given = [getattr(sample, n) for n in ("token_ids", "old_logprobs", "advantages")]
    for batch in (build_batch([sample]), build_batch([])):
        for name in floats | ints:
            array = getattr(batch, name)
            assert array.dtype == (np.float32 if name in floats else np.int64)
            assert array.flags.writeable
            assert not any(np.shares_memory(array, other) for other in given)


def test_the_example_of_the_docstring() -> None:
    chance = random.Random(0)
    rows = [(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 6)]
    batch = build_batch([make_sample(row, chance, str(row)) for row in rows])
    assert batch.token_ids.tolist() == [1, 2, 3, 4, 5, 6]
    assert batch.position.tolist() == [0, 1, 2, 3, 3, 2]
    assert batch.end.tolist() == [6, 6, 5, 4, 5, 6]


def test_loss_on_a_first_token_is_refused() -> None:
    sample = make_sample((4, 5), random.Random(0), "first")
    wrong = Sample(
        token_ids=sample.token_ids,
        loss_mask=np.array([True, False]),
        old_logprobs=sample.old_logprobs,
        advantages=sample.advantages,
        temperatures=sample.temperatures,
        choices={},
    )
    with pytest.raises(ValueError, match="first token"):
        build_batch([wrong])


def test_no_samples_make_no_batches() -> None:
    assert build_batches([], 100) == []


def test_samples_without_loss_still_make_a_sound_batch() -> None:
    chance = random.Random(3)
    sample = make_sample((4, 5, 6), chance, "given")
    quiet = Sample(
        token_ids=sample.token_ids,
        loss_mask=np.zeros(3, np.bool_),
        old_logprobs=sample.old_logprobs,
        advantages=sample.advantages,
        temperatures=sample.temperatures,
        choices={},
    )
    batch = build_batch([quiet])
    assert batch.stats() == {"tokens": 3, "row_tokens": 3, "decisions": 0, "terms": 0}
