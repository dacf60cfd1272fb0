import hashlib
from collections.abc import Iterator

import pytest
import torch

from practicum.engine.learning.micro_batches import take


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_the_gradient_of_repeated_rows_is_the_same_bits_every_time(two_threads: None) -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(1000, 576, generator=generator, requires_grad=True)
    index = torch.randint(0, 1000, (700,), generator=generator)
    above = torch.randn(700, 576, generator=generator)

    def gradient() -> str:
        states.grad = None
        take(states, index).backward(above)
        assert states.grad is not None
        return hashlib.sha256(states.grad.numpy().tobytes()).hexdigest()

    assert len({gradient() for _ in range(60)}) == 1


def test_rows_and_gradients_are_those_of_indexing() -> None:
    values = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).requires_grad_()
    index = torch.tensor([2, 0, 2, 2])

    found = take(values, index)
    found.sum().backward()

    assert torch.equal(found, values[index])
    assert values.grad is not None
    assert values.grad.sum(1).tolist() == [3.0, 0.0, 9.0, 0.0]
