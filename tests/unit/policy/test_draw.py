import math

import numpy as np
import pytest
import torch
from scipy import stats

from practicum.core.errors import PracticumError
from practicum.core.sampling import SamplingParams
from practicum.policy.draw import Draw, RandomStream, draw

LOGITS = torch.tensor([0.3, 2.0, -1.0, 1.1, 0.0, float("-inf"), 1.9, -0.2])
DRAWS = 4000


def exact(logits: torch.Tensor, params: SamplingParams) -> tuple[np.ndarray, set[int], float]:
    """The distribution by the book, the columns it keeps, and their mass before the cut."""
    scores = logits.double().numpy() / params.temperature
    whole = np.exp(scores - scores.max())
    whole /= whole.sum()
    order = sorted(range(whole.size), key=lambda i: -whole[i])
    if params.top_k:
        order = order[: params.top_k]
    inside, kept = 0.0, []
    total = sum(whole[i] for i in order)
    for i in order:
        if inside >= params.top_p * total:
            break
        kept.append(i)
        inside += whole[i]
    cut = np.zeros_like(whole)
    cut[kept] = whole[kept] / whole[kept].sum()
    return cut, {i for i in kept if whole[i] > 0}, float(whole[kept].sum())


def draw_many(params: SamplingParams, count: int = DRAWS, seed: int = 0) -> list[Draw]:
    stream = RandomStream(seed)
    return [draw(LOGITS, params, stream.next()) for _ in range(count)]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.5),
        SamplingParams(temperature=2.5),
        SamplingParams(top_k=3),
        SamplingParams(top_p=0.7),
        SamplingParams(top_k=5, top_p=0.8, temperature=1.5),
    ],
    ids=str,
)
def test_frequencies_follow_the_exact_distribution(params: SamplingParams) -> None:
    expected, kept, mass = exact(LOGITS, params)
    drawn = draw_many(params)
    counts = np.bincount([d.column for d in drawn], minlength=LOGITS.numel())
    assert set(np.flatnonzero(counts)) <= kept
    support = sorted(kept)
    fit = stats.chisquare(counts[support], expected[support] * DRAWS)
    assert fit.pvalue > 0.001
    for one in drawn[:50]:
        assert one.logprob == pytest.approx(math.log(expected[one.column]), abs=1e-6)
        assert one.log_kept == pytest.approx(math.log(mass), abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_any_cut_keeps_exactly_the_columns_it_should(seed: int) -> None:
    chance = np.random.default_rng(seed)
    logits = torch.from_numpy(chance.normal(size=30).astype(np.float32) * 2)
    params = SamplingParams(
        temperature=float(chance.uniform(0.3, 2)),
        top_k=int(chance.integers(0, 35)),
        top_p=float(chance.uniform(0.05, 1)),
    )
    expected, kept, mass = exact(logits, params)
    drawn = [draw(logits, params, u) for u in np.linspace(0, 1, 400, endpoint=False)]
    assert {d.column for d in drawn} <= kept
    assert {i for i in kept if expected[i] > 0.005} <= {d.column for d in drawn}
    for one in drawn:
        whole = one.logprob + one.log_kept  # before the cut, which is what a learner computes
        log_p = torch.log_softmax(logits.double() / params.temperature, -1)[one.column]
        assert whole == pytest.approx(float(log_p), abs=1e-6)
        assert math.exp(one.log_kept) == pytest.approx(mass, abs=1e-6)


def test_without_a_cut_nothing_is_left_out() -> None:
    assert {d.log_kept for d in draw_many(SamplingParams(), 100)} == {0.0}


def test_temperature_zero_takes_the_largest_and_has_nothing_to_learn() -> None:
    drawn = draw_many(SamplingParams(temperature=0.0, top_k=2, top_p=0.5), 20)
    assert set(drawn) == {Draw(1, 0.0, 0.0)}


def test_a_low_temperature_comes_close_to_it() -> None:
    assert {d.column for d in draw_many(SamplingParams(temperature=0.005), 200)} == {1}


@pytest.mark.parametrize("uniform", [0.0, 1e-300, 0.5, 1 - 2**-53])
def test_the_ends_of_the_unit_interval_draw_possible_columns(uniform: float) -> None:
    logits = torch.tensor([float("-inf"), 0.0, float("-inf"), 0.1, float("-inf")])
    for params in (SamplingParams(), SamplingParams(top_k=1), SamplingParams(top_p=0.1)):
        one = draw(logits, params, uniform)
        assert one.column in {1, 3}
        assert math.isfinite(one.logprob)


def test_the_likeliest_column_always_stays() -> None:
    for top_p in (1e-9, 0.0):
        assert {d.column for d in draw_many(SamplingParams(top_p=top_p), 50)} == {1}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_refused(temperature: float) -> None:
    logits = LOGITS.clone()
    logits[2] = float("nan")
    with pytest.raises(PracticumError, match="not a number"):
        draw(logits, SamplingParams(temperature=temperature), 0.3)


def test_a_stream_is_its_seed() -> None:
    first, again, other = RandomStream(5), RandomStream(5), RandomStream(6)
    numbers = [first.next() for _ in range(100)]
    assert numbers == [again.next() for _ in range(100)]
    assert numbers != [other.next() for _ in range(100)]
    assert all(0.0 <= n < 1.0 for n in numbers)
    assert RandomStream(2**64 - 1).next() != RandomStream(2**63 - 1).next()
