import random
from typing import Any

import pytest
import torch
from tests.unit.policy.families import build_pair
from tests.unit.policy.reference import (
    ask,
    random_requests,
    recorded,
    row_logits,
    row_logprobs,
    sample_all,
    tiny,
)

from practicum.core.errors import UserError
from practicum.policy.attention import TreePlan
from practicum.policy.engine import TorchEngine

FAMILIES = ["Llama", "Qwen2", "Qwen3", "Granite", "Cohere", "Gemma2"]


def engine_over(model: Any) -> TorchEngine:
    return TorchEngine(model, tiny().tokenizer, tiny().codec, fingerprint=lambda: "family")


@pytest.mark.parametrize("family", FAMILIES)
async def test_every_family_samples_what_its_stock_model_would(family: str) -> None:
    ours, stock = build_pair(family)
    requests = random_requests(4, count=8)
    completions = await sample_all(engine_over(ours), requests)
    for request, completion in zip(requests, completions, strict=True):
        expected = row_logprobs(stock, request, completion)
        assert recorded(completion) == pytest.approx(expected, abs=1e-5)


def random_tree(chance: random.Random, rows: int) -> list[tuple[int, ...]]:
    """Rows, sorted, that begin alike."""
    paths = {tuple(chance.randrange(3) for _ in range(chance.randrange(1, 9))) for _ in range(rows)}
    return sorted(paths)


def lay_out(rows: list[tuple[int, ...]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """The prefixes of all rows in depth-first order, and where the subtree of each one ends."""
    prefixes = sorted({row[: i + 1] for row in rows for i in range(len(row))})
    ends = [
        1 + max(k for k, other in enumerate(prefixes) if other[: len(prefix)] == prefix)
        for prefix in prefixes
    ]
    return prefixes, ends


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("block", [1, 5, 128])
def test_a_tree_gives_each_token_the_states_of_its_own_row(family: str, block: int) -> None:
    ours, stock = build_pair(family)
    prefixes, ends = lay_out(random_tree(random.Random(block), rows=12))
    output = ours.base_model(
        input_ids=torch.tensor([[prefix[-1] for prefix in prefixes]]),
        position_ids=torch.tensor([[len(prefix) - 1 for prefix in prefixes]]),
        use_cache=False,
        plan=TreePlan.of(torch.tensor(ends), block),
    )
    logits = ours.lm_head(output.last_hidden_state[0])
    for i, prefix in enumerate(prefixes):
        states = stock.base_model(input_ids=torch.tensor([prefix]), use_cache=False)
        expected = stock.lm_head(states.last_hidden_state[0, -1])
        torch.testing.assert_close(logits[i], expected, rtol=0, atol=2e-5)


def test_a_trees_longest_path_is_its_depth() -> None:
    for seed in range(10):
        prefixes, ends = lay_out(random_tree(random.Random(seed), rows=9))
        plan = TreePlan.of(torch.tensor(ends), block=4)
        assert plan.longest_path() == max(map(len, prefixes))


async def test_a_sliding_window_is_harmless_until_a_path_outgrows_it() -> None:
    ours, stock = build_pair("Mistral")  # a window of 8
    engine = engine_over(ours)
    short = [ask(i, 2, 3, max_tokens=5, seed=i) for i in range(12)]  # 12 x 3 tokens in one step
    for request, completion in zip(short, await sample_all(engine, short), strict=True):
        assert recorded(completion) == pytest.approx(
            row_logprobs(stock, request, completion), abs=1e-5
        )
    with pytest.raises(UserError, match=r"attends to 8 tokens at a time.*has 9"):
        await engine.sample(ask(1, 2, 3, 4, 5, max_tokens=9))


async def test_softcapped_attention_is_refused_rather_than_left_out() -> None:
    ours, _ = build_pair("Gemma2")
    for layer in ours.model.layers:
        layer.self_attn.attn_logit_softcapping = 50.0
    with pytest.raises(UserError, match="'softcap'"):
        await engine_over(ours).sample(ask(1, 2))


def test_the_stock_model_differs_where_a_window_matters() -> None:
    _, windowed = build_pair("Mistral")
    tokens = list(range(20))
    wide = row_logits(windowed, tokens)
    assert not torch.allclose(wide[-1], row_logits(windowed, tokens[-8:])[-1])
