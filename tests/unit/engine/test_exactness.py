"""Trees against padded rows: the same loss and the same gradient, on every path that is there.

The padded batch is computed by the stock model: all rows at once, filled up to the longest, with an
attention mask, and every logit there is.
"""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import build_policy, stock_model
from tests.unit.engine.training_cases import plain_gradients, relative_error, row_logprob

from practicum.core.sample import Sample
from practicum.engine.policy import TorchPolicy
from practicum.training.algorithms.grpo import Grpo
from practicum.training.prefix_tree import build_batches

CLIP = 0.2


def random_samples(seed: int, *, depth: int = 6, unshared: bool = False) -> list[Sample]:
    """Walks through random histories: prompts shared or not, branches, prefixes, repetitions."""
    rng = np.random.default_rng(seed)
    stems = [np.asarray(rng.integers(0, 250, rng.integers(3, 20)))]
    for _ in range(int(rng.integers(2, 9))):
        stem = stems[int(rng.integers(len(stems)))]
        if unshared or rng.random() < 0.2:
            stem = np.asarray(rng.integers(0, 250, rng.integers(3, 20)))
        for _ in range(int(rng.integers(1, depth + 1))):
            stem = np.concatenate([stem, rng.integers(0, 250, rng.integers(1, 9))])
            stems.append(stem)
    chosen = [stems[int(rng.integers(len(stems)))] for _ in range(int(rng.integers(2, 8)))]
    samples = []
    for number, tokens in enumerate(chosen):
        mask = rng.random(tokens.size) < 0.5
        mask[0], mask[-1] = False, True
        count = tokens.size
        samples.append(
            Sample(
                token_ids=tokens.astype(np.int64),
                loss_mask=mask,
                old_logprobs=np.zeros(count, np.float32),
                advantages=np.full(count, rng.normal(), np.float32),
                temperatures=np.full(count, rng.choice([0.7, 1.0, 1.4]), np.float32),
                choices={},
                weight=float(1 / len(chosen) / mask.sum()),
                trace_id=f"walk {number}",
            )
        )
    return samples


def on_policy(model: Any, samples: list[Sample], noise: float) -> list[Sample]:
    """The same walks as if an earlier, slightly different policy had sampled them."""
    rng = np.random.default_rng(7)
    found = []
    for sample in samples:
        old = np.zeros(sample.token_ids.size, np.float32)
        with torch.no_grad():
            old[sample.loss_mask] = row_logprob(model, sample).numpy()
        old += noise * rng.standard_normal(old.size).astype(np.float32) * sample.loss_mask
        found.append(replace(sample, old_logprobs=old))
    return found


def padded(model: Any, samples: list[Sample]) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of the padded batch."""
    longest = max(s.token_ids.size for s in samples)

    def fill(name: str, kind: torch.dtype) -> torch.Tensor:
        rows = [np.pad(getattr(s, name), (0, longest - s.token_ids.size)) for s in samples]
        return torch.from_numpy(np.stack(rows)).to(kind)

    ids, mask = fill("token_ids", torch.long), fill("loss_mask", torch.bool)
    lengths = torch.tensor([s.token_ids.size for s in samples])
    attention = (torch.arange(longest)[None] < lengths[:, None]).long()
    logits = model(input_ids=ids, attention_mask=attention, use_cache=False).logits.float()
    heat = fill("temperatures", torch.float32).clamp(min=0.1)[:, 1:, None]
    logprobs = torch.log_softmax(logits[:, :-1] / heat, -1).gather(2, ids[:, 1:, None])[..., 0]
    old, advantage = fill("old_logprobs", torch.float32), fill("advantages", torch.float32)
    ratio = (logprobs - old[:, 1:]).exp()
    gain = torch.minimum(
        ratio * advantage[:, 1:], ratio.clamp(1 - CLIP, 1 + CLIP) * advantage[:, 1:]
    )
    weight = torch.tensor([s.weight for s in samples])[:, None]
    loss = -(weight * gain * mask[:, 1:]).sum()
    return float(loss.detach()), plain_gradients(model, loss)


def learned(
    policy: TorchPolicy, samples: list[Sample], budget: int = 100_000
) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients of a real update."""
    kept: dict[str, torch.Tensor] = {}

    def keep(*_: object) -> None:
        named = [(n, p) for n, p in policy.model.named_parameters() if p.grad is not None]
        kept.update((n, p.grad.clone()) for n, p in named)

    hook = policy.learner._optimizer.register_step_pre_hook(keep)
    report = policy.learner.update(build_batches(samples, budget), Grpo(clip=CLIP))
    hook.remove()
    return report.loss, kept


def exact_policy() -> TorchPolicy:
    return build_policy(max_logprob_gap=1e9, max_grad_norm=1e9, lr=0.0)


PATHS = ["whole", "sparse", "chunked", "checkpointed", "in parts", "module"]


@pytest.fixture(params=PATHS)
def policy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TorchPolicy:
    """One policy for each way to compute an update."""
    found = exact_policy()
    if request.param == "sparse":  # many blocks, where small batches have one
        from practicum.engine.decoder.tree_attention import TreePlan

        monkeypatch.setattr(
            "practicum.engine.decoder.decoders.tree_plan", lambda end: TreePlan.of(end, block=8)
        )
    elif request.param == "chunked":
        monkeypatch.setattr("practicum.engine.decoder.head.CHUNK_LOGITS", 3 * 320)
    elif request.param == "checkpointed":
        found.learner._fit.checkpointed = True
    elif request.param == "in parts":
        found.learner._most_tokens = 40
    elif request.param == "module":
        from practicum.engine.decoder.decoders import ModuleDecoder

        found.learner._decoder = ModuleDecoder(found.model.get_base_model())
    return found


@pytest.mark.parametrize("unshared", [False, True], ids=["shared", "unshared"])
def test_random_trees_learn_what_the_padded_batch_learns(
    policy: TorchPolicy, unshared: bool
) -> None:
    stock = stock_model(policy)
    for seed in range(12):
        samples = on_policy(stock, random_samples(seed, unshared=unshared), noise=0.15)
        expected_loss, expected = padded(stock, samples)
        loss, found = learned(policy, samples)
        assert loss == pytest.approx(expected_loss, abs=1e-6)
        assert relative_error(found, expected) < 1e-5


def test_micro_batches_of_any_size_add_up_to_the_same() -> None:
    policy = exact_policy()
    stock = stock_model(policy)
    for seed in range(4):
        samples = on_policy(stock, random_samples(100 + seed), noise=0.15)
        expected_loss, expected = padded(stock, samples)
        for budget in (1, 50, 90):
            loss, found = learned(policy, samples, budget)
            assert loss == pytest.approx(expected_loss, abs=1e-6)
            assert relative_error(found, expected) < 1e-5


HALF = """
import torch
from tests.unit.engine import test_exactness as t
from tests.unit.engine.decoder import test_decoders as d
from practicum.engine.decoder.decoders import decoder_of


def halved(model):
    for name, p in model.named_parameters():
        if "lora" not in name:
            p.data = p.data.to(torch.bfloat16)
    return model


def angle(found, expected):
    cosine = torch.nn.functional.cosine_similarity
    return float(cosine(torch.cat(found).double(), torch.cat(expected).double(), 0))


def flat(grads, names):
    return [grads[name].float().flatten() for name in names]


ours, theirs = [], []
for seed in range(6):
    policy, half = t.exact_policy(), t.exact_policy()
    stock = t.stock_model(policy)
    samples = t.on_policy(stock, t.random_samples(seed), noise=0.0)
    _, exact = t.padded(stock, samples)
    half.learner._decoder = decoder_of(halved(half.model).get_base_model())
    _, found = t.learned(half, samples)
    _, plain = t.padded(halved(stock), samples)
    ours.append(1 - angle(flat(found, exact), flat(exact, exact)))
    theirs.append(1 - angle(flat(plain, exact), flat(exact, exact)))
print(sum(ours) / sum(theirs))

worst = 1.0
for family in d.KNOWN:
    model = d.adapted(family)
    _, exact = d.learned(decoder_of(model.get_base_model()), model)
    half = halved(d.adapted(family))
    for checkpointed in (False, True):
        _, found = d.learned(
            decoder_of(half.get_base_model()), half, checkpointed=checkpointed
        )
        worst = min(worst, angle([g.flatten() for g in found], [g.flatten() for g in exact]))
print(worst)
"""


@pytest.mark.rare
def test_bfloat16_is_as_near_to_float32_as_the_padded_batch_in_bfloat16() -> None:
    """In a process of its own: some CPUs announce instructions for it that they do not have."""
    there = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", HALF], env=there, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    farther, worst = map(float, done.stdout.split())
    assert farther < 1.5
    assert worst > 0.9999
