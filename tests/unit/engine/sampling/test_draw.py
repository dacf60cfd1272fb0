import math

import numpy as np
import pytest
import torch
from scipy import stats

from practicum.core.errors import PracticumError
from practicum.core.sampling import SamplingParams
from practicum.engine.sampling.draw import (
    Draw,
    RandomStream,
    draw,
    draw_among,
    draw_rows,
    likeliest,
    not_numbers,
)

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
def test_logits_that_are_no_numbers_are_noticed(temperature: float) -> None:
    logits = LOGITS.clone()
    logits[2] = float("nan")
    drawn = draw(logits, SamplingParams(temperature=temperature), 0.3)
    error = not_numbers(drawn.logprob)
    assert isinstance(error, PracticumError)
    assert "not a number" in str(error)


def test_a_stream_is_its_seed() -> None:
    first, again, other = RandomStream(5), RandomStream(5), RandomStream(6)
    numbers = [first.next() for _ in range(100)]
    assert numbers == [again.next() for _ in range(100)]
    assert numbers != [other.next() for _ in range(100)]
    assert all(0.0 <= n < 1.0 for n in numbers)
    assert RandomStream(2**64 - 1).next() != RandomStream(2**63 - 1).next()


def exact_among(
    logits: torch.Tensor, allowed: np.ndarray, params: SamplingParams
) -> tuple[np.ndarray, np.ndarray]:
    """The distribution among the allowed columns by the book, and the whole one, as logs."""
    scores = logits.double().numpy() / params.temperature
    whole = scores - np.logaddexp.reduce(scores)
    inside, kept, _ = exact(torch.from_numpy(np.where(allowed, scores, -np.inf)), COLD)
    if params.top_k or params.top_p < 1.0:
        cut = SamplingParams(top_k=params.top_k, top_p=params.top_p)
        inside, kept, _ = exact(torch.from_numpy(np.where(allowed, scores, -np.inf)), cut)
    assert kept <= set(np.flatnonzero(allowed).tolist())
    with np.errstate(divide="ignore"):
        return np.log(inside), whole


COLD = SamplingParams()
"""For scores that a temperature has divided already."""


@pytest.mark.parametrize("seed", range(20))
def test_among_allowed_columns_the_draw_is_theirs_and_the_sum_the_whole_vocabularys(
    seed: int,
) -> None:
    chance = np.random.default_rng(seed)
    logits = torch.from_numpy(chance.normal(size=40).astype(np.float32) * 3)
    allowed = chance.random(40) < 0.4
    allowed[chance.integers(40)] = True
    params = SamplingParams(
        temperature=float(chance.uniform(0.3, 2)),
        top_k=int(chance.choice([0, 0, 3, 50])),
        top_p=float(chance.choice([1.0, 1.0, 0.6])),
    )
    inside, whole = exact_among(logits, allowed, params)
    uniforms = np.linspace(0, 1, 200, endpoint=False).tolist()
    rows = torch.from_numpy(allowed)[None].expand(len(uniforms), -1)
    drawn = draw_among(
        logits[None].expand(len(uniforms), -1), rows, [params] * len(uniforms), uniforms
    )
    assert {d.column for d in drawn} <= set(np.flatnonzero(np.isfinite(inside)).tolist())
    assert {i for i in range(40) if inside[i] > math.log(0.01)} <= {d.column for d in drawn}
    for one in drawn:
        assert one.logprob == pytest.approx(inside[one.column], abs=1e-6)
        assert one.logprob + one.log_kept == pytest.approx(whole[one.column], abs=1e-5)


def test_frequencies_among_allowed_columns_follow_the_exact_distribution() -> None:
    allowed = np.asarray([True, False, True, True, False, False, True, False])
    params = SamplingParams(temperature=1.3)
    inside, _ = exact_among(LOGITS, allowed, params)
    stream = RandomStream(0)
    drawn = draw_among(
        LOGITS[None].expand(DRAWS, -1),
        torch.from_numpy(allowed)[None].expand(DRAWS, -1),
        [params] * DRAWS,
        stream.take(DRAWS).tolist(),
    )
    counts = np.bincount([d.column for d in drawn], minlength=8)
    assert not counts[~allowed].any()
    assert stats.chisquare(counts[allowed], np.exp(inside[allowed]) * DRAWS).pvalue > 0.001


def test_what_is_allowed_may_be_as_unlikely_as_it_likes() -> None:
    logits = torch.tensor([[500.0, 0.0, 1.0, -300.0]])
    allowed = torch.tensor([[False, True, True, False]])
    [one] = draw_among(logits, allowed, [SamplingParams()], [0.999])
    assert one.column == 2
    assert one.logprob == pytest.approx(-math.log1p(math.exp(-1.0)), abs=1e-6)
    assert one.logprob + one.log_kept == pytest.approx(-499.0, abs=1e-4)


def test_a_lone_column_is_certain_and_temperature_zero_takes_the_largest_allowed() -> None:
    lone = torch.arange(8)[None] == 4
    [one] = draw_among(LOGITS[None], lone, [SamplingParams(top_k=2, top_p=0.5)], [0.7])
    assert (one.column, one.logprob) == (4, pytest.approx(0.0, abs=1e-7))
    assert one.log_kept == pytest.approx(float(torch.log_softmax(LOGITS, -1)[4]), abs=1e-6)
    some = torch.tensor([[True, False, True, True, True, True, False, True]])
    assert draw_among(LOGITS[None], some, [SamplingParams(temperature=0.0)], [0.2]) == [
        Draw(3, 0.0, 0.0)
    ]


def test_logits_that_are_no_numbers_are_noticed_where_they_are_not_allowed_too() -> None:
    logits = LOGITS.clone()
    logits[2] = float("nan")
    allowed = torch.arange(8)[None] == 4
    [one] = draw_among(logits[None], allowed, [SamplingParams()], [0.3])
    assert not_numbers(one.logprob) is not None


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_row_that_is_no_numbers_leaves_the_others_as_they_are(
    temperature: float, wrong: float
) -> None:
    rows = torch.stack([LOGITS, torch.full_like(LOGITS, wrong), LOGITS.flip(0)])
    params = [SamplingParams(temperature=temperature, top_k=4)] * 3
    uniforms = [0.2, 0.5, 0.8]
    drawn = draw_rows(rows, params, uniforms)
    assert not_numbers(drawn[1].logprob) is not None
    for at in (0, 2):
        assert drawn[at] == draw_rows(rows[at : at + 1], params[:1], [uniforms[at]])[0]
        assert not_numbers(drawn[at].logprob) is None


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 1.9])
def test_the_likeliest_columns_come_in_order_whatever_is_cut(temperature: float) -> None:
    params = [SamplingParams(temperature=temperature, top_k=1, top_p=0.1), SamplingParams()]
    rows = torch.stack([LOGITS, LOGITS.flip(0)])
    found, plain = likeliest(rows, params, 3)
    log_p = torch.log_softmax(LOGITS.double() / (temperature or 1.0), -1)
    order = log_p.argsort(descending=True)[:3].tolist()
    assert [column for column, _ in found] == order == [7 - column for column, _ in plain]
    assert [value for _, value in found] == pytest.approx(log_p[order].tolist(), abs=1e-6)
    assert len(likeliest(rows, params, 50)[0]) == 8
