"""One GRPO update: Practicum's prefix tree, the padded batch, and TRL's trainer, side by side.

    python benchmarks/update.py --model smollm2-135m --prompt 489 --completion 128 --group 8

All sides have the same weights, adapter, tokens, advantages and optimizer, and take turns in one
process. Times are medians; the first round warms up and gives the gradients that are compared.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from cases import (
    Conversation,
    adapted_model,
    arguments,
    conversations,
    median_seconds,
    ours,
    samples_of,
)

from practicum.algorithms import Grpo
from practicum.batching import build_batches
from practicum.core.loss import LossReport, LossTerms
from practicum.policy.learner import LearnerSettings, TorchLearner
from practicum.policy.lora import trainable

LR = 1e-5


class OnPolicy(Grpo):
    """GRPO whose old log-probabilities are the model's own, as right after sampling."""

    def loss(self, terms: LossTerms) -> LossReport:
        """The objective at ratio 1."""
        return super().loss(replace(terms, old_logprobs=terms.logprobs.detach()))


def gradients(model: Any) -> dict[str, torch.Tensor]:
    """What the last backward pass left."""
    return {n: p.grad.detach().clone() for n, p in trainable(model) if p.grad is not None}


def practicum_side(
    args: argparse.Namespace, rows: list[Conversation], advantages: np.ndarray
) -> tuple[Callable[[], None], Callable[[], dict[str, torch.Tensor]], dict[str, int]]:
    """The learner as a run uses it."""
    model = ours(args.model, dtype=args.dtype, device=args.device)
    settings = LearnerSettings(lr=LR, max_logprob_gap=1e9, max_grad_norm=1e9)
    learner = TorchLearner(model, settings, fingerprint=lambda: "", on_update=lambda: None)
    kept: dict[str, torch.Tensor] = {}
    learner._optimizer.register_step_pre_hook(lambda *_: kept.update(gradients(model)))
    batches = build_batches(samples_of(rows, advantages), args.micro_batch_tokens)
    algorithm = OnPolicy()
    sizes = {
        "unique_tokens": sum(b.token_ids.size for b in batches),
        "row_tokens": sum(b.row_tokens for b in batches),
    }
    return lambda: void(learner.update(batches, algorithm)), lambda: kept, sizes


def void(_: object) -> None:
    """Drop a result."""


def padded_side(
    args: argparse.Namespace, rows: list[Conversation], advantages: np.ndarray
) -> tuple[Callable[[], None], Callable[[], dict[str, torch.Tensor]]]:
    """Rows padded to the longest, log-probabilities of the sampled tokens alone."""
    model = adapted_model(args.model, "sdpa", dtype=args.dtype, device=args.device)
    optimizer = torch.optim.AdamW([p for _, p in trainable(model)], lr=LR, weight_decay=0.0)
    longest = max(r.token_ids.size for r in rows)
    ids = torch.zeros((len(rows), longest), dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    loss_mask = torch.zeros((len(rows), longest), dtype=torch.bool)
    for i, row in enumerate(rows):
        ids[i, : row.token_ids.size] = torch.from_numpy(row.token_ids)
        mask[i, : row.token_ids.size] = 1
        loss_mask[i, : row.token_ids.size] = torch.from_numpy(row.sampled)
    ids, mask, loss_mask = (x.to(args.device) for x in (ids, mask, loss_mask))
    weight = torch.tensor(advantages, dtype=torch.float32, device=args.device)[:, None]
    weight = weight / loss_mask.sum(1, keepdim=True) / len(rows)
    kept: dict[str, torch.Tensor] = {}

    def update() -> None:
        optimizer.zero_grad(set_to_none=True)
        causal = model.get_base_model()
        hidden = causal.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
        chosen = loss_mask[:, 1:]
        logits = causal.lm_head(hidden[:, :-1][chosen]).float()
        log_p = torch.log_softmax(logits, -1).gather(1, ids[:, 1:][chosen][:, None])[:, 0]
        ratio = torch.exp(log_p - log_p.detach())
        (-(ratio * weight.expand_as(chosen)[chosen])).sum().backward()
        kept.update(gradients(model))
        optimizer.step()

    return update, lambda: kept


def trl_side(
    args: argparse.Namespace, rows: list[Conversation], advantages: np.ndarray, folder: str
) -> Callable[[], None]:
    """TRL's own loss on its own inputs, then its optimizer."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from practicum.policy.tiny import build_tiny_tokenizer

    model = adapted_model(args.model, "sdpa", dtype=args.dtype, device=args.device)
    settings = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=len(rows),
        num_generations=len(rows),
        loss_type="grpo",
        beta=0.0,
        use_cpu=args.device == "cpu",
        bf16=args.dtype == "bfloat16",
        gradient_checkpointing=False,
        report_to="none",
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=Dataset.from_list([{"prompt": "x"}] * len(rows)),
        processing_class=build_tiny_tokenizer(),
    )
    trainer.current_gradient_accumulation_steps = 1
    prompt = min(int(np.flatnonzero(r.sampled)[0]) for r in rows)
    longest = max(r.token_ids.size for r in rows) - prompt
    inputs = {
        "prompt_ids": torch.stack([torch.from_numpy(r.token_ids[:prompt]) for r in rows]),
        "prompt_mask": torch.ones((len(rows), prompt), dtype=torch.long),
        "completion_ids": torch.zeros((len(rows), longest), dtype=torch.long),
        "completion_mask": torch.zeros((len(rows), longest), dtype=torch.long),
        "advantages": torch.tensor(advantages, dtype=torch.float32),
        "num_items_in_batch": torch.tensor(sum(int(r.sampled.sum()) for r in rows)),
    }
    for i, row in enumerate(rows):
        rest = row.token_ids[prompt:]
        inputs["completion_ids"][i, : rest.size] = torch.from_numpy(rest)
        inputs["completion_mask"][i, : rest.size] = torch.from_numpy(row.sampled[prompt:]).long()
    inputs = {key: value.to(args.device) for key, value in inputs.items()}
    optimizer = torch.optim.AdamW([p for _, p in trainable(trainer.model)], lr=LR)
    trainer.model.train()

    def update() -> None:
        optimizer.zero_grad(set_to_none=True)
        trainer.compute_loss(trainer.model, inputs).backward()
        optimizer.step()

    return update


def relative_error(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> float:
    """Distance of all gradients together, relative to their size."""
    difference = sum(float((found[n] - expected[n]).double().pow(2).sum()) for n in expected)
    size = sum(float(expected[n].double().pow(2).sum()) for n in expected)
    return float((difference / size) ** 0.5)


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All sides in turn, the first round thrown away."""
    vocabulary = 256 if args.model == "tiny" else 40_000
    rows = conversations(
        prompt=args.prompt,
        completion=args.completion,
        group=args.group,
        turns=args.turns,
        vocabulary=vocabulary,
    )
    advantages = np.linspace(-1.0, 1.0, args.group)
    run_ours, our_gradients, sizes = practicum_side(args, rows, advantages)
    run_padded, padded_gradients = padded_side(args, rows, advantages)
    sides = {"practicum": run_ours, "padded": run_padded}
    with tempfile.TemporaryDirectory() as folder:
        if not args.no_trl:
            sides["trl"] = trl_side(args, rows, advantages, folder)
        errors: list[float] = []

        def compare() -> None:
            errors.append(relative_error(our_gradients(), padded_gradients()))

        median = median_seconds(sides, args.repeats, args.device, compare)
    return {
        "model": args.model,
        "device": args.device,
        "dtype": args.dtype,
        "threads": torch.get_num_threads(),
        **sizes,
        "ideal": sizes["row_tokens"] / sizes["unique_tokens"],
        "gradient_error": errors[0],
        "seconds": median,
        "ratio": {name: median[name] / median["practicum"] for name in median},
    }


def main() -> None:
    parser = arguments(__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--micro-batch-tokens", type=int, default=2048)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    found = measure(args)
    if args.json:
        print(json.dumps(found))
        return
    print(
        f"{found['model']}, {found['device']} {found['dtype']}, {found['threads']} threads: "
        f"{found['row_tokens']} row tokens, {found['unique_tokens']} unique, "
        f"ideal {found['ideal']:.2f} x, gradients within {found['gradient_error']:.1e}"
    )
    for name, seconds in found["seconds"].items():
        print(f"  {name:<10} {seconds:8.2f} s   {found['ratio'][name]:6.2f} x")


if __name__ == "__main__":
    main()
