"""KTO and DPO through TRL's own trainers: its rows, its mismatched pairs, its loss."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.engine.reference import build_policy, row_logits, stock_model
from tests.unit.engine.training_cases import WatchedGrpo, relative_error
from tests.unit.training.algorithms.rows import Row

from practicum.core.sample import Sample
from practicum.engine.models.lora import trainable
from practicum.engine.models.tiny import build_tiny_model, build_tiny_tokenizer
from practicum.training.algorithms.dpo import Dpo, dpo_loss
from practicum.training.algorithms.kto import Kto
from practicum.training.algorithms.losses import Likelihood, loss_and_gradient
from practicum.training.prefix_tree import build_batches

pytest.importorskip("trl", reason="needs the extra 'peers'; type: pip install 'practicum[peers]'")
pytestmark = [pytest.mark.rare, pytest.mark.filterwarnings("ignore")]

ANSWERS = ["four", "it is five", "no", "one and one is two", "seven?", "ok"]
LABELS = [True, False, False, True, True, False]
PAIRS = 3


def offline_trainer(trainer: Any, config: Any, folder: Path, rows: Any, **settings: Any) -> Any:
    """A trainer whose reference is the model without its adapter."""
    from datasets import Dataset

    arguments = config(
        output_dir=str(folder),
        per_device_train_batch_size=len(rows),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        seed=1,
        **settings,
    )
    return trainer(
        model=stock_model(build_policy()),
        ref_model=build_tiny_model(),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=build_tiny_tokenizer(),
    )


@dataclass(frozen=True)
class Measured:
    """Rows as token ids with what was given before them, and their sums by both models."""

    ids: list[list[int]]
    given: list[int]
    policy: np.ndarray = field(init=False)
    base: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        ours, base = stock_model(build_policy()).double(), build_tiny_model().double()
        for name, model in (("policy", ours), ("base", base)):
            sums = [self._sum(model, i, g) for i, g in zip(self.ids, self.given, strict=True)]
            object.__setattr__(self, name, np.asarray(sums))

    @staticmethod
    def _sum(model: Any, ids: list[int], given: int) -> float:
        with torch.no_grad():
            found = torch.log_softmax(row_logits(model, ids), -1)
        return float(sum(found[at - 1, ids[at]] for at in range(given, len(ids))))

    def samples(self, advantages: Sequence[float]) -> list[Sample]:
        return [
            Sample(
                token_ids=np.asarray(ids),
                loss_mask=np.arange(len(ids)) >= given,
                old_logprobs=np.zeros(len(ids), np.float32),
                advantages=np.full(len(ids), advantage, np.float32),
                temperatures=np.ones(len(ids), np.float32),
                choices={},
                trace_id=str(n),
            )
            for n, (ids, given, advantage) in enumerate(
                zip(self.ids, self.given, advantages, strict=True)
            )
        ]


def unpadded(inputs: dict[str, torch.Tensor], prefix: str = "") -> Measured:
    """TRL's padded rows."""
    ids, given = [], []
    columns = (inputs[prefix + n] for n in ("input_ids", "attention_mask", "completion_mask"))
    for row, real, completion in zip(*columns, strict=True):
        ids.append(row[real.bool()].tolist())
        given.append(int(completion.argmax()))
    return Measured(ids, given)


def gradients(trainer: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    names, tensors = zip(*trainable(trainer.model), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, tensors), strict=True))


def second_pass(rows: Measured, advantages: Sequence[float]) -> dict[str, torch.Tensor]:
    """What the learner makes of what each row counts."""
    policy = build_policy()
    watched = WatchedGrpo(model=policy.model, inner=Likelihood())  # type: ignore[arg-type]
    policy.learner.update(build_batches(rows.samples(advantages), 10_000), watched)
    return watched.gradients


def kto_case(folder: Path, method: Kto) -> tuple[Any, dict[str, torch.Tensor]]:
    """TRL's trainer and its batch of all rows."""
    from trl import KTOConfig, KTOTrainer

    rows = [
        {"prompt": f"task {n}: ", "completion": answer, "label": label}
        for n, (answer, label) in enumerate(zip(ANSWERS, LABELS, strict=True))
    ]
    trainer = offline_trainer(
        KTOTrainer,
        KTOConfig,
        folder,
        rows,
        beta=method.config.beta,
        desirable_weight=method.config.desirable,
        undesirable_weight=method.config.undesirable,
    )
    return trainer, trainer.data_collator(list(trainer.train_dataset))


def dpo_case(folder: Path, method: Dpo) -> tuple[Any, dict[str, torch.Tensor]]:
    """TRL's trainer and its batch of all pairs: chosen sides, then rejected ones."""
    from trl import DPOConfig, DPOTrainer

    rows = [
        {"prompt": f"task {n}: ", "chosen": ANSWERS[n], "rejected": ANSWERS[n + 3]}
        for n in range(PAIRS)
    ]
    trainer = offline_trainer(
        DPOTrainer, DPOConfig, folder, rows, beta=method.config.beta, loss_type=method.config.loss
    )
    return trainer, trainer.data_collator(list(trainer.train_dataset))


def dpo_advantages(
    method: Dpo, policy: np.ndarray, base: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, float | None]:
    """What each row counts, and the loss. For `ipo` TRL divides sums by lengths; so it is here."""
    if method.config.loss != "ipo":
        pairs = [Row(pair=str(n), chosen=side) for side in (True, False) for n in range(PAIRS)]
        advantages, loss, _ = method.advantages(pairs, policy, base, None)
        return advantages, loss
    means = torch.from_numpy(base / lengths)

    def mean_loss(sums: torch.Tensor) -> torch.Tensor:
        sides = (sums[:PAIRS], sums[PAIRS:], means[:PAIRS], means[PAIRS:])
        return dpo_loss(*sides, method.config.beta, 0.0, "ipo")

    loss, slope = loss_and_gradient(mean_loss, policy / lengths)
    return -slope / lengths, loss


METHODS = [Dpo(beta=0.2), Dpo(beta=0.2, loss="hinge"), Dpo(beta=0.2, loss="ipo")]


class Spoken:
    """Stands where TRL calls a model, and answers with given log-probabilities, in their order."""

    def __init__(self, *answers: torch.Tensor) -> None:
        self.answers = list(answers)

    def __call__(self, **_: Any) -> Any:
        found = self.answers.pop(0)
        none = torch.zeros_like(found.detach())
        return SimpleNamespace(log_probs=found, entropy=none, mean_logits=none, is_top1=none.bool())


def drawn(mask: torch.Tensor, seed: int) -> torch.Tensor:
    """Random log-probabilities of a batch's completions in double precision, 0 elsewhere."""
    chance = torch.Generator().manual_seed(seed)
    found = -3 * torch.rand(mask[:, 1:].shape, generator=chance, dtype=torch.float64)
    return found * mask[:, 1:]


@pytest.mark.parametrize("seed", range(3))
def test_ktos_loss_and_slopes_of_random_log_probabilities_are_trls(
    seed: int, tmp_path: Path
) -> None:
    method = Kto(beta=0.3, desirable=1.2, undesirable=0.8)
    trainer, inputs = kto_case(tmp_path, method)
    mask, other = inputs["completion_mask"], inputs["KL_completion_mask"]
    own, swapped = drawn(mask, seed).requires_grad_(), drawn(other, seed + 10)
    inputs["ref_logps"] = drawn(mask, seed + 20).sum(1)
    inputs["ref_KL_logps"] = drawn(other, seed + 30).sum(1)
    trainer.precompute_ref_logps = True
    loss = trainer._compute_loss(Spoken(swapped, own), inputs, False)
    advantages, ours, _ = method.advantages(
        [Row(label=label) for label in inputs["label"].tolist()],
        own.detach().sum(1).numpy(),
        inputs["ref_logps"].numpy(),
        (swapped.sum(1).numpy(), inputs["ref_KL_logps"].numpy()),
    )
    assert ours == pytest.approx(loss.item(), abs=1e-9)
    [slope] = torch.autograd.grad(loss, own)
    assert advantages == pytest.approx(-slope[:, 0].numpy(), abs=1e-7)
    assert np.abs(advantages).max() > 1e-4


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.config.loss)
def test_dpos_loss_and_slopes_of_random_log_probabilities_are_trls(
    method: Dpo, tmp_path: Path
) -> None:
    trainer, inputs = dpo_case(tmp_path, method)
    mask = inputs["completion_mask"]
    own, base = drawn(mask, 0).requires_grad_(), drawn(mask, 1).sum(1)
    inputs["ref_chosen_logps"], inputs["ref_rejected_logps"] = base.chunk(2)
    trainer.precompute_ref_logps = True
    loss = trainer._compute_loss(Spoken(own), inputs, False)
    advantages, ours = dpo_advantages(
        method, own.detach().sum(1).numpy(), base.numpy(), mask.sum(1).double().numpy()
    )
    assert ours == pytest.approx(loss.item(), abs=1e-9)
    [slope] = torch.autograd.grad(loss, own)
    assert advantages == pytest.approx(-slope[:, 0].numpy(), abs=1e-7)
    assert np.abs(advantages).max() > 1e-4


def test_ktos_loss_and_gradients_are_trls(tmp_path: Path) -> None:
    method = Kto(beta=0.3, desirable=1.2, undesirable=0.8)
    trainer, inputs = kto_case(tmp_path, method)
    loss = trainer.compute_loss(trainer.model, inputs)
    matched, swapped = unpadded(inputs), unpadded(inputs, "KL_")
    advantages, ours, figures = method.advantages(
        [Row(label=label) for label in inputs["label"].tolist()],
        matched.policy,
        matched.base,
        (swapped.policy, swapped.base),
    )
    assert ours == pytest.approx(loss.item(), abs=5e-6)  # TRL's sums are in single precision
    assert figures["kl_z0"] == pytest.approx(trainer._metrics["eval"]["kl"][-1], abs=1e-4)
    assert relative_error(second_pass(matched, advantages), gradients(trainer, loss)) <= 2e-5


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.config.loss)
def test_dpos_loss_and_gradients_are_trls(method: Dpo, tmp_path: Path) -> None:
    trainer, inputs = dpo_case(tmp_path, method)
    loss = trainer.compute_loss(trainer.model, inputs)
    found = unpadded(inputs)
    lengths = inputs["completion_mask"].sum(1).double().numpy()
    advantages, ours = dpo_advantages(method, found.policy, found.base, lengths)
    assert ours == pytest.approx(loss.item(), abs=5e-6)  # TRL's sums are in single precision
    assert relative_error(second_pass(found, advantages), gradients(trainer, loss)) <= 2e-5
