from typing import Any

import pytest
import torch
from tests.unit.engine.families import build_pair
from tests.unit.engine.reference import (
    random_requests,
    recorded,
    row_logits,
    row_logprobs,
    sample_all,
    tiny,
)

from practicum.core.sampling import SamplingRequest
from practicum.engine.decoder.decoders import decoder_of
from practicum.engine.sampling import scheduler as step_plan
from practicum.engine.sampling.sampling_engine import TorchEngine

FAMILIES = ["Llama", "Qwen2", "Qwen3", "Granite", "Cohere", "Gemma2"]


def engine_over(model: Any) -> TorchEngine:
    decoder = decoder_of(model)
    return TorchEngine(model, decoder, tiny().tokenizer, tiny().codec, fingerprint=lambda: "family")


@pytest.mark.parametrize("family", FAMILIES)
async def test_every_family_samples_what_its_stock_model_would(family: str) -> None:
    ours, stock = build_pair(family)
    requests = random_requests(4, count=8)
    completions = await sample_all(engine_over(ours), requests)
    for request, completion in zip(requests, completions, strict=True):
        expected = row_logprobs(stock, request, completion)
        assert recorded(completion) == pytest.approx(expected, abs=1e-5)


def test_the_stock_model_differs_where_a_window_matters() -> None:
    _, windowed = build_pair("Mistral")
    tokens = list(range(20))
    wide = row_logits(windowed, tokens)
    assert not torch.allclose(wide[-1], row_logits(windowed, tokens[-8:])[-1])


@pytest.mark.parametrize("least", [1, 3, 64])
@pytest.mark.parametrize("seed", [0, 1])
async def test_a_prefix_read_once_for_all_changes_nothing(
    least: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_plan, "SHARED_TRUNK", least)
    ours, stock = build_pair("Qwen2")
    prefix = tuple(range(3, 80))
    requests = [
        SamplingRequest(
            prompt_ids=prefix[: 77 if number % 3 else 30] + r.prompt_ids, params=r.params
        )
        for number, r in enumerate(random_requests(seed, count=12))
    ]
    engine = engine_over(ours)
    for _ in range(2):  # the second time every prompt is in the cache
        completions = await sample_all(engine, requests)
        for request, completion in zip(requests, completions, strict=True):
            expected = row_logprobs(stock, request, completion)
            assert recorded(completion) == pytest.approx(expected, abs=1e-5)
