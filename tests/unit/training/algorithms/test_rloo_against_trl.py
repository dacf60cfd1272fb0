"""RLOO through TRL's own trainer: its generation, its KL in the reward, its loss."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.engine.reference import build_policy
from tests.unit.engine.training_cases import WatchedGrpo, relative_error
from tests.unit.training.algorithms.cases import group, make_episode, whole
from tests.unit.training.algorithms.trl_cases import (
    GROUP,
    PROMPTS,
    REWARDS,
    as_samples,
    moved,
    online_trainer,
    token_logprobs,
)

from practicum.core.loss import LossTerms
from practicum.core.sample import Estimates
from practicum.engine.models.lora import trainable
from practicum.training.algorithms.rloo import Rloo
from practicum.training.prefix_tree import build_batches

pytest.importorskip("trl", reason="needs the extra 'peers'; type: pip install 'practicum[peers]'")
pytestmark = [pytest.mark.rare, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(params=[0.0, 0.3], ids=["no penalty", "penalty"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, dict[str, Any]]:
    """A trainer, and two groups it has sampled and scored."""
    from trl import RLOOConfig, RLOOTrainer

    trainer = online_trainer(
        RLOOTrainer,
        RLOOConfig,
        tmp_path,
        beta=request.param,
        epsilon=0.2,
        normalize_advantages=False,
    )
    # Else TRL's reference would be the adapter as it was given, and not the model without one.
    if "ref" in trainer.model.peft_config:
        trainer.model.delete_adapter("ref")
    return trainer, trainer._generate_and_score_completions(PROMPTS)


def test_advantages_are_trls(case: Any) -> None:
    trainer, inputs = case
    now = token_logprobs(trainer, inputs)
    with trainer.model.disable_adapter():
        base = token_logprobs(trainer, inputs)
    episodes, estimates = [], {}
    for row, reward in enumerate(REWARDS):
        real = inputs["completion_mask"][row].bool()
        turn = tuple(inputs["completion_ids"][row][real].tolist())
        episodes.append(make_episode(turn, score=whole(reward), name=str(row)))
        estimates[str(row)] = Estimates(
            logprobs=(now[row][real].numpy(),), base_logprobs=(base[row][real].numpy(),)
        )
    groups = [group(*episodes[:GROUP]), group(*episodes[GROUP:])]
    credits = Rloo(kl=trainer.beta, kl_in="reward" if trainer.beta else "loss").credit(
        groups, estimates
    )
    ours = [credit.advantages[0] for of in credits for credit in of]
    assert ours == pytest.approx(inputs["advantages"].tolist(), abs=1e-5)


def test_loss_and_gradient_of_the_same_log_probabilities_are_trls(case: Any) -> None:
    """TRL's loss over random log-probabilities in double precision, in place of a model's."""
    trainer, inputs = case
    chance = torch.Generator().manual_seed(0)
    mask = inputs["completion_mask"].clone()
    for row, length in enumerate((10, 3, 7, 1, 5, 10, 2, 8)):
        mask[row, length:] = 0
    now = -torch.rand(mask.shape, generator=chance, dtype=torch.float64).requires_grad_()
    old = moved(now.detach())
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (now, now.detach(), None)
    given = {**inputs, "completion_mask": mask, "old_logps": (old * mask).sum(1)}
    loss = trainer.compute_loss(trainer.model, given)
    real = mask.bool()
    terms = LossTerms(
        logprobs=now[real],
        old_logprobs=old[real],
        advantages=inputs["advantages"][:, None].expand_as(mask)[real].double(),
        weights=(mask.double() / mask.sum(1, keepdim=True) / len(REWARDS))[real],
        samples=torch.arange(len(REWARDS))[:, None].expand_as(mask)[real],
    )
    report = Rloo().loss(terms)
    assert report.loss.item() == pytest.approx(loss.item(), abs=1e-9)
    assert report.clipped.item() > 0
    [theirs], [ours] = (torch.autograd.grad(x, now, retain_graph=True) for x in (loss, report.loss))
    torch.testing.assert_close(ours, theirs)
    assert theirs.abs().max() > 1e-3


def test_loss_and_gradients_of_an_update_are_trls(case: Any) -> None:
    """TRL subtracts sums over whole sequences in single precision, which costs it some digits."""
    trainer, inputs = case
    old = moved(token_logprobs(trainer, inputs))
    inputs["old_logps"] = (old * inputs["completion_mask"]).sum(1)
    names, tensors = zip(*trainable(trainer.model), strict=True)
    loss = trainer.compute_loss(trainer.model, inputs)
    theirs = dict(zip(names, torch.autograd.grad(loss, tensors), strict=True))
    policy = build_policy(max_logprob_gap=1.0)
    watched = WatchedGrpo(model=policy.model, inner=Rloo())  # type: ignore[arg-type]
    report = policy.learner.update(build_batches(as_samples(inputs, old), 10_000), watched)
    assert report.loss == pytest.approx(loss.item(), rel=5e-5)
    assert report.clip_share > 0
    assert relative_error(watched.gradients, theirs) <= 5e-5
