from pathlib import Path

import torch

from practicum.engine.learning.learner_state import load_optimizer, save_optimizer


def make(seed: int) -> tuple[list[torch.Tensor], torch.optim.AdamW]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((4, 3), (2,), (5, 5))
    parameters = [torch.randn(s, generator=generator).requires_grad_() for s in shapes]
    return parameters, torch.optim.AdamW(parameters, lr=0.1)


def step(parameters: list[torch.Tensor], optimizer: torch.optim.AdamW) -> None:
    optimizer.zero_grad()
    sum((p**2 * (i + 1)).sum() for i, p in enumerate(parameters)).backward()  # type: ignore[union-attr]
    optimizer.step()


def test_what_was_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    parameters, optimizer = make(0)
    for _ in range(3):
        step(parameters, optimizer)
    save_optimizer(optimizer, parameters, tmp_path)
    twins, fresh = make(1)
    step(twins, fresh)  # moments of its own, which must go
    with torch.no_grad():
        for mine, theirs in zip(parameters, twins, strict=True):
            theirs.copy_(mine)
    load_optimizer(fresh, twins, tmp_path)
    step(parameters, optimizer)
    step(twins, fresh)
    assert all(torch.equal(a, b) for a, b in zip(parameters, twins, strict=True))


def test_an_optimizer_that_never_stepped_comes_back_empty(tmp_path: Path) -> None:
    parameters, optimizer = make(0)
    save_optimizer(optimizer, parameters, tmp_path)
    step(parameters, optimizer)
    load_optimizer(optimizer, parameters, tmp_path)
    assert not optimizer.state


def test_the_random_generator_goes_on_from_where_it_was(tmp_path: Path) -> None:
    parameters, optimizer = make(0)
    torch.manual_seed(11)
    torch.rand(7)
    save_optimizer(optimizer, parameters, tmp_path)
    expected = torch.rand(9)
    torch.manual_seed(12)
    load_optimizer(optimizer, parameters, tmp_path)
    assert torch.equal(torch.rand(9), expected)
