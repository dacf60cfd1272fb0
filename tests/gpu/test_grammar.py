"""Rows that a grammar holds, beside rows that nothing holds, on a device."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import FULL, ask, sample_all, tiny
from tests.unit.engine.sampling.test_grammar import FORM
from tests.unit.engine.training_cases import batches_of, span_of

from practicum.core.trace import Node, Trace
from practicum.engine.learning.learner import LearnerSettings
from practicum.engine.models.lora import trainable
from practicum.engine.policy import TorchPolicy, load_for_policy
from practicum.engine.sampling.json_grammar import JsonGrammars

pytestmark = pytest.mark.gpu
pytest.importorskip("llguidance")


async def test_rows_with_and_without_a_grammar_are_recomputed_by_the_learner() -> None:
    loaded = load_for_policy("tiny", "float32", "cuda")
    policy = TorchPolicy.build(loaded, FULL, LearnerSettings(lr=1e-3), 0)
    with torch.no_grad():
        for _, parameter in trainable(policy.model):
            parameter += 0.1 * torch.randn_like(parameter)
    grammar = JsonGrammars(tiny().tokenizer).of(FORM)
    bound = [replace(ask(8, 8, i, seed=i, max_tokens=300), grammar=grammar) for i in range(4)]
    free = [ask(8, 8, i, seed=i, max_tokens=200) for i in range(4)]
    requests = [*bound, *free]
    completions = await sample_all(policy.sampler, requests)
    for completion in completions[: len(bound)]:
        assert json.loads(completion.text).keys() == FORM["properties"].keys()
    traces = [
        Trace(
            id=f"episode {number}",
            task_id="t",
            env="e",
            nodes=(
                Node(parent=None, messages=(), token_ids=request.prompt_ids),
                Node(
                    parent=0,
                    messages=(),
                    token_ids=completion.token_ids,
                    sampled=span_of(completion),
                ),
            ),
        )
        for number, (request, completion) in enumerate(zip(requests, completions, strict=True))
    ]
    batches = batches_of(traces)
    terms = 0
    for batch, measured in zip(batches, policy.learner.measure(batches, frozenset()), strict=True):
        np.testing.assert_allclose(measured.logprobs, batch.term_old_logprob, rtol=0, atol=1e-4)
        terms += measured.logprobs.size
    assert terms == sum(sum(c.loss_mask) for c in completions)
