from pathlib import Path

from tests.unit.engine.reference import (
    ask,
    build_fresh_policy,
    build_policy,
    perturb,
    random_requests,
    sample_all,
)

from practicum.engine.policy import load_adapted_sampler, load_for_policy


async def test_a_saved_adapter_samples_as_the_policy_did(tmp_path: Path) -> None:
    policy = build_policy()
    policy.learner.save(tmp_path)
    loaded = load_for_policy("tiny", "float32", "cpu")
    sampler = load_adapted_sampler(loaded, tmp_path)
    requests = random_requests(2, count=6)
    assert await sample_all(sampler, requests) == await sample_all(policy.sampler, requests)
    assert sampler.fingerprint() == policy.learner.fingerprint()


async def test_without_an_adapter_the_base_model_samples() -> None:
    loaded = load_for_policy("tiny", "float32", "cpu")
    sampler = load_adapted_sampler(loaded, None)
    requests = random_requests(2, count=6)
    fresh = build_fresh_policy()
    found = await sample_all(sampler, requests)
    assert [c.logprobs for c in found] == [
        c.logprobs for c in await sample_all(fresh.sampler, requests)
    ]
    assert {c.fingerprint for c in found} == {loaded.fingerprint}


async def test_completions_carry_the_fingerprint_of_the_weights_that_sampled_them() -> None:
    policy = build_policy()
    completion = await policy.sampler.sample(ask(1, 2))
    assert completion.fingerprint == policy.learner.fingerprint() == policy.sampler.fingerprint()


async def test_weights_changed_behind_its_back_show_in_the_learners_fingerprint() -> None:
    policy = build_policy()
    completion = await policy.sampler.sample(ask(1, 2))
    perturb(policy.model, seed=4, size=1e-6)
    assert policy.learner.fingerprint() != completion.fingerprint


def test_trainable_share_counts_the_adapter_and_the_base() -> None:
    learning, base = build_policy().trainable_share
    # r (in + out): q and o 64+64, k and v 64+32, gate, up and down 64+128, in two layers
    assert learning == 2 * 16 * (2 * 128 + 2 * 96 + 3 * 192)
    assert base == sum(
        p.numel() for p in load_for_policy("tiny", "float32", "cpu").module.parameters()
    )
