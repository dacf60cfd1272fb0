"""Families whose attention is capped, in a window or with sinks, or whose layers are their own.

The stock model is the judge: whole rows, no cache, no tree, no plan.
"""

import asyncio
import random
from typing import Any

import peft
import pytest
import torch
from tests.unit.engine.families import build_pair
from tests.unit.engine.reference import (
    ask,
    random_requests,
    recorded,
    row_logprobs,
    sample_all,
    tiny,
)

from practicum.engine.decoder.attention import ATTENTION
from practicum.engine.decoder.decoders import FusedDecoder, decoder_of
from practicum.engine.decoder.other_attention import BLOCK, Scoring, attend_tree, depths
from practicum.engine.sampling.sampling_engine import TorchEngine

WINDOWED = ["Gemma2 capped", "Gemma3Text", "GptOss", "Mistral", "Phi3"]
FAMILIES = [*WINDOWED, "Phi", "GPTNeoX", "GPT2", "OPT"]
TARGETS = ["q_proj", "v_proj", "down_proj", "qkv_proj", "query_key_value", "fc2", "c_attn"]


def engine_over(model: Any) -> TorchEngine:
    decoder = decoder_of(model)
    return TorchEngine(model, decoder, tiny().tokenizer, tiny().codec, fingerprint=lambda: "family")


@pytest.mark.parametrize("family", FAMILIES)
async def test_long_paths_are_sampled_as_the_stock_model_says(family: str) -> None:
    ours, stock = build_pair(family)
    requests = random_requests(4, count=10)
    assert max(len(request.prompt_ids) for request in requests) > 8  # beyond every window
    engine = engine_over(ours)
    for _ in range(2):  # the second time every prompt is in the cache
        for request, completion in zip(requests, await sample_all(engine, requests), strict=True):
            expected = row_logprobs(stock, request, completion)
            assert recorded(completion) == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_likeliest_tokens_are_those_of_generate(family: str) -> None:
    ours, stock = build_pair(family)
    prompt = [5, 200, 31, 7, 9, 11, 250, 3, 90, 14, 77]
    greedy = ask(*prompt, temperature=0.0, max_tokens=12)
    ids = torch.tensor([prompt])
    with torch.no_grad():
        row = stock.generate(ids, max_new_tokens=12, do_sample=False, eos_token_id=259)
    completion = await engine_over(ours).sample(greedy)
    assert [*completion.token_ids] == row[0, len(prompt) :].tolist()


def adapted(model: Any) -> Any:
    names = {name.rsplit(".", 1)[-1] for name, _ in model.named_modules()}
    targets = [*names.intersection(TARGETS)]
    turned = "c_attn" in targets  # GPT-2 keeps its weights the other way round
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=targets, fan_in_fan_out=turned)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        wrapped = peft.get_peft_model(model, config)
        for name, parameter in sorted(wrapped.named_parameters()):
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.1)
    return wrapped.eval()


ROWS = [(1, 2, 3, *range(10, 22)), (1, 2, 3, *range(10, 16), *range(40, 51)), (1, 2, 60, 61)]
"""Two that part late and one that parts early, longer than every window."""


def gradients(loss: torch.Tensor, model: Any) -> list[torch.Tensor]:
    named = sorted((n, p) for n, p in model.named_parameters() if p.requires_grad)
    return list(torch.autograd.grad(loss, [p for _, p in named]))


@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_trees_gradients_are_those_of_the_padded_batch(family: str, checkpointed: bool) -> None:
    ours, stock = (adapted(model) for model in build_pair(family))
    prefixes = sorted({row[: i + 1] for row in ROWS for i in range(len(row))})
    ends = [1 + max(k for k, p in enumerate(prefixes) if p[: len(one)] == one) for one in prefixes]
    states = decoder_of(ours.get_base_model()).learn(
        torch.tensor([prefix[-1] for prefix in prefixes]),
        torch.tensor([len(prefix) - 1 for prefix in prefixes]),
        torch.tensor(ends),
        checkpointed=checkpointed,
    )
    # The same tokens in three padded rows; a token that rows share counts once.
    longest = max(map(len, ROWS))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in ROWS])
    real = torch.tensor([[i < len(row) for i in range(longest)] for row in ROWS])
    rows = stock.get_base_model().base_model(
        input_ids=ids, attention_mask=real.long(), use_cache=False
    )
    places = [
        next((r, len(p) - 1) for r, row in enumerate(ROWS) if row[: len(p)] == p) for p in prefixes
    ]
    padded = torch.stack([rows.last_hidden_state[place] for place in places])
    torch.testing.assert_close(states, padded, atol=2e-5, rtol=2e-5)
    weights = torch.linspace(-1, 1, states.numel()).view_as(states)
    found = gradients((states * weights).sum(), ours)
    expected = gradients((padded * weights).sum(), stock)
    apart = sum(
        float((a - b).double().square().sum()) for a, b in zip(found, expected, strict=True)
    )
    assert (apart / sum(float(b.double().square().sum()) for b in expected)) ** 0.5 < 1e-5


def test_the_fused_decoder_leaves_only_what_outgrows_its_window() -> None:
    ours, _ = build_pair("Mistral")  # a window of 8
    decoder = decoder_of(ours)
    assert isinstance(decoder, FusedDecoder)
    assert ours.config._attn_implementation == ATTENTION
    short, long = (torch.arange(count) for count in (8, 9))
    with torch.no_grad():
        within = decoder.learn(short, short, torch.full((8,), 8))
        beyond = decoder.learn(long, long, torch.full((9,), 9))
    torch.testing.assert_close(beyond[:8], within, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_a_long_tree_are_its_whole_mask(seed: int) -> None:
    chance = random.Random(seed)
    parents: list[int] = [-1]
    while len(parents) < 2 * BLOCK + 40:  # depth first: a parent is on the last one's path
        path = [len(parents) - 1]
        while parents[path[-1]] >= 0:
            path.append(parents[path[-1]])
        parents.append(path[0] if chance.random() < 0.95 else chance.choice(path))
    count = len(parents)
    on_path = torch.eye(count, dtype=torch.bool)
    for i, parent in enumerate(parents):
        if parent >= 0:
            on_path[i] |= on_path[parent]
    end = torch.tensor([1 + int(on_path[:, j].nonzero().max()) for j in range(count)])
    place = on_path.sum(1) - 1
    assert torch.equal(depths(end), place)
    torch.manual_seed(seed)
    query, key, value = (torch.randn(count, heads, 8, dtype=torch.float64) for heads in (4, 2, 2))
    scoring = Scoring(0.3, softcap=2.0, window=seed * 9 or None, sinks=torch.randn(4).double())
    found = attend_tree(query, key, value, end, scoring)
    hidden = ~on_path
    if scoring.window is not None:
        hidden |= place[:, None] - place[None] >= scoring.window
    keys, values = (x.repeat_interleave(2, 1).transpose(0, 1) for x in (key, value))
    scores = torch.tanh(query.transpose(0, 1) @ keys.mT * 0.3 / 2.0) * 2.0
    scores = scores.masked_fill(hidden, -torch.inf)
    assert scoring.sinks is not None
    sums = scores.exp().sum(-1, keepdim=True) + scoring.sinks.exp()[:, None, None]
    expected = (scores.exp() / sums @ values).transpose(0, 1)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_rows_of_several_requests_at_once_do_not_mix() -> None:
    ours, stock = build_pair("Gemma3Text")
    requests = random_requests(9, count=6)

    async def one_by_one() -> list[Any]:
        engine = engine_over(ours)
        return [await engine.sample(request) for request in requests]

    for request, completion in zip(requests, asyncio.run(one_by_one()), strict=True):
        expected = row_logprobs(stock, request, completion)
        assert recorded(completion) == pytest.approx(expected, abs=2e-5)
