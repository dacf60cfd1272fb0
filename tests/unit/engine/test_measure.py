from typing import Any

import numpy as np
import torch
from tests.unit.engine.reference import build_policy, stock_model
from tests.unit.engine.training_cases import (
    every_way,
    play,
    row_logprob,
    sampled_batches,
    samples_of,
)

from practicum.training.prefix_tree import build_batches


@every_way
async def test_what_is_measured_is_what_plain_rows_say(how: dict[str, Any]) -> None:
    policy = build_policy()
    samples = samples_of(await play(policy, **how))
    batches = build_batches(samples, 70)
    before = policy.learner.fingerprint()
    found = policy.learner.measure(batches, frozenset({"base"}))
    assert policy.learner.fingerprint() == before
    stock = stock_model(policy)
    by_id = {s.id: s for s in samples}
    for batch, measured in zip(batches, found, strict=True):
        for number, key in enumerate(batch.sample_ids):
            own = batch.term_sample == number
            with torch.no_grad():
                mine = row_logprob(stock, by_id[key]).numpy()
                with stock.disable_adapter():
                    base = row_logprob(stock, by_id[key]).numpy()
            np.testing.assert_allclose(measured.logprobs[own], mine, rtol=0, atol=2e-5)
            np.testing.assert_allclose(measured.base_logprobs[own], base, rtol=0, atol=2e-5)
            assert np.abs(mine - base).max() > 0.01
        assert measured.values is None


def test_only_what_is_asked_for_is_measured() -> None:
    policy = build_policy(value_lr=1e-3)
    batches = sampled_batches(policy)
    [plain] = policy.learner.measure(batches, frozenset())
    assert plain.base_logprobs is None
    assert plain.values is None
    [valued] = policy.learner.measure(batches, frozenset({"values"}))
    assert valued.values.tolist() == [0.0] * batches[0].term_decision.size
    assert policy.learner.measure([], frozenset({"values", "base"})) == []
