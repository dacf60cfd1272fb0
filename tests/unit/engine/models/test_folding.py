import torch
from tests.unit.engine.reference import build_policy

from practicum.engine.models.lora import AdapterFold


def weights(policy) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in policy.model.named_parameters()}


def logits(policy) -> torch.Tensor:
    from practicum.engine.decoder.tree_attention import TreePlan

    ids = torch.tensor([[5, 9, 2, 200, 31, 7]])
    plan = TreePlan.of(torch.full((6,), 6))
    with torch.no_grad():
        return (
            policy.model.get_base_model()
            .base_model(
                input_ids=ids, position_ids=torch.arange(6)[None], use_cache=False, plan=plan
            )
            .last_hidden_state
        )


def test_a_folded_model_says_what_the_unfolded_one_says() -> None:
    policy = build_policy()
    plain = logits(policy)
    fold = AdapterFold(policy.model)
    fold.fold()
    assert fold.is_folded
    assert not torch.equal(logits(policy), plain)
    torch.testing.assert_close(logits(policy), plain, atol=1e-5, rtol=1e-5)
    fold.unfold()
    assert torch.equal(logits(policy), plain)


def test_unfolding_gives_every_weight_back_to_the_bit() -> None:
    policy = build_policy()
    before = weights(policy)
    fold = AdapterFold(policy.model)
    for _ in range(3):
        fold.fold()
        fold.fold()
        fold.unfold()
    after = weights(policy)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not fold.is_folded
