from typing import Any

import pytest
import torch
from tests.unit.engine.families import build_pair

from practicum.engine.decoder import head as heads
from practicum.engine.decoder.head import Head

FAMILIES = ["Llama", "Qwen2", "Granite", "Cohere", "Gemma2"]


@pytest.fixture(scope="module", params=FAMILIES)
def case(request: pytest.FixtureRequest) -> tuple[Head, torch.Tensor, torch.Tensor]:
    """A head, hidden states, and the logits that the whole stock model makes of them."""
    _, model = build_pair(request.param)
    row = torch.tensor([[5, 9, 2, 200, 31, 7]])
    hidden = model.base_model(input_ids=row, use_cache=False).last_hidden_state[0]
    return Head(model), hidden, model(input_ids=row, use_cache=False).logits[0]


def test_logits_are_the_models_own(case: Any) -> None:
    head, hidden, expected = case
    torch.testing.assert_close(head.logits(hidden), expected, rtol=0, atol=1e-5)


def test_logits_of_choices_are_the_same_numbers(case: Any) -> None:
    head, hidden, expected = case
    choices = torch.tensor([[3, 7, 11], [0, 319, -1], [5, -1, -1], *[[1, 2, 3]] * 3])
    found = head.choice_logits(hidden, choices)
    for row, ids in enumerate(choices.tolist()):
        for column, token in enumerate(ids):
            if token < 0:
                assert found[row, column] == float("-inf")
            else:
                assert float(found[row, column]) == pytest.approx(
                    float(expected[row, token]), abs=1e-5
                )


@pytest.mark.parametrize("few", [heads.FEW_CHOICES, 2, 0])
def test_predictions_are_softmax_by_the_book(
    case: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, hidden, expected = case
    monkeypatch.setattr(heads, "FEW_CHOICES", few)
    choices = [(), (3, 7, 11), (), (0, 319), (1, 2, 3, 4), ()]
    target = torch.tensor([17, 7, 0, 319, 2, 5])
    temperature = torch.tensor([1.0, 0.5, 2.0, 1.0, 1.7, 0.3])
    padded = torch.tensor([[*c, *[-1] * (4 - len(c))] for c in choices])
    found = head.predict(hidden, target, temperature, padded)
    for i, ids in enumerate(choices):
        scores = (expected[i].double() / temperature[i].double())[list(ids) or slice(None)]
        log_p = torch.log_softmax(scores, -1)
        column = ids.index(int(target[i])) if ids else int(target[i])
        assert float(found.logprobs[i]) == pytest.approx(float(log_p[column]), abs=1e-4)
        entropy = float(-(log_p.exp() * log_p).sum())
        assert float(found.entropies[i]) == pytest.approx(entropy, abs=1e-4)


def test_a_batch_without_any_constraint_needs_no_choices(case: Any) -> None:
    head, hidden, expected = case
    target = torch.arange(6)
    found = head.predict(hidden, target, torch.ones(6), torch.zeros(6, 0, dtype=torch.int64))
    log_p = torch.log_softmax(expected.double(), -1)[range(6), target]
    torch.testing.assert_close(found.logprobs.double(), log_p, rtol=0, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_chunks_give_the_values_and_gradients_of_the_whole(
    case: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, hidden, expected = case
    count, vocabulary = expected.shape
    target = torch.arange(count) * 7
    heat = torch.linspace(0.5, 1.5, count)
    grad = torch.linspace(-1.0, 2.0, count)
    leaf = hidden.detach().clone().requires_grad_()
    log_p = torch.log_softmax(head.logits(leaf) / heat[:, None], -1)
    whole = log_p.gather(1, target[:, None])[:, 0]
    (whole_grad,) = torch.autograd.grad(whole, leaf, grad)
    monkeypatch.setattr(heads, "CHUNK_LOGITS", rows * vocabulary)
    found = head.predict(leaf, target, heat, torch.zeros(count, 0, dtype=torch.int64))
    (found_grad,) = torch.autograd.grad(found.logprobs, leaf, grad)
    torch.testing.assert_close(found.logprobs, whole, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found_grad, whole_grad, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("few", [heads.FEW_CHOICES, 2, 0])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_entropies_carry_the_gradient_of_plain_logits(
    case: Any, rows: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, hidden, expected = case
    count, vocabulary = expected.shape
    monkeypatch.setattr(heads, "CHUNK_LOGITS", rows * vocabulary)
    monkeypatch.setattr(heads, "FEW_CHOICES", few)
    choices = [(3, 7, 11), (3, 7, 11), (), (0, 319), (5,), ()]
    padded = torch.tensor([[*c, *[-1] * (3 - len(c))] for c in choices])
    target = torch.tensor([11, 7, 0, 319, 5, 5])
    heat = torch.tensor([1.0, 0.5, 2.0, 1.0, 1.7, 0.3])
    for_logprobs = torch.linspace(-1.0, 2.0, count)
    for_entropies = torch.linspace(1.5, -0.5, count)
    leaf = hidden.detach().clone().requires_grad_()
    logits = head.logits(leaf) / heat[:, None]
    plain = torch.zeros(())
    for i, ids in enumerate(choices):
        log_p = torch.log_softmax(logits[i][list(ids) or slice(None)], -1)
        column = ids.index(int(target[i])) if ids else int(target[i])
        entropy = -(log_p.exp() * log_p).sum()
        plain = plain + for_logprobs[i] * log_p[column] + for_entropies[i] * entropy
    (expected_grad,) = torch.autograd.grad(plain, leaf)
    found = head.predict(leaf, target, heat, padded, with_entropy=True)
    ours = (for_logprobs * found.logprobs + for_entropies * found.entropies).sum()
    (found_grad,) = torch.autograd.grad(ours, leaf)
    assert ours.item() == pytest.approx(plain.item(), abs=1e-4)
    torch.testing.assert_close(found_grad, expected_grad, atol=2e-6, rtol=1e-5)


def test_entropies_carry_no_gradient_unless_asked(case: Any) -> None:
    head, hidden, _ = case
    leaf = hidden.detach().clone().requires_grad_()
    for choices in (torch.zeros(6, 0, dtype=torch.int64), torch.tensor([[1, 2]] * 6)):
        found = head.predict(leaf, torch.ones(6, dtype=torch.int64), torch.ones(6), choices)
        assert found.logprobs.requires_grad
        assert not found.entropies.requires_grad
