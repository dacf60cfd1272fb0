import torch
from tests.unit.engine.reference import build_policy

from practicum.engine.models.lora import policy_fingerprint, trainable


def test_one_bit_of_any_trainable_tensor_changes_it() -> None:
    model = build_policy().model
    seen = {policy_fingerprint(model, "base")}
    for _, parameter in trainable(model):
        with torch.no_grad():
            parameter.view(-1)[-1].view(torch.int32).bitwise_xor_(1)
        seen.add(policy_fingerprint(model, "base"))
    assert len(seen) == 1 + len(list(trainable(model)))


def test_it_names_the_base_model_too() -> None:
    model = build_policy().model
    one, two = policy_fingerprint(model, "base"), policy_fingerprint(model, "other")
    assert one.startswith("base+")
    assert one.split("+")[1] == two.split("+")[1]


def test_it_does_not_depend_on_gradients_or_mode() -> None:
    model = build_policy().model
    before = policy_fingerprint(model, "base")
    model.train()
    for _, parameter in trainable(model):
        parameter.grad = torch.ones_like(parameter)
    assert policy_fingerprint(model, "base") == before


def test_it_reads_bfloat16_as_well() -> None:
    model = build_policy().model.to(torch.bfloat16)
    assert policy_fingerprint(model, "base") != policy_fingerprint(build_policy().model, "base")


def test_two_values_that_change_places_change_it() -> None:
    model = build_policy().model
    before = policy_fingerprint(model, "base")
    first, second = [p for _, p in trainable(model)][:2]
    with torch.no_grad():
        first.view(-1)[0], second.view(-1)[0] = second.view(-1)[0].item(), first.view(-1)[0].item()
    assert policy_fingerprint(model, "base") != before
