"""One GRPO update: Practicum's prefix tree, the padded batch, and TRL's trainer, side by side.

    python benchmarks/update.py --model smollm2-135m --prompt 489 --completion 128 --group 8
    python benchmarks/update.py --turns 4 --history growing --peer-batch 8

All sides have the same weights, adapter, tokens, advantages and optimizer, and take turns in one
process. Times are medians; the first round warms up and gives the gradients that are compared. On
some updates, the first among them, Practicum also measures the distance to the base model; medians
of a few rounds do not show that.

TFLOP/s count useful work: 4 for each unique token and each parameter of the decoder's linear
layers, forward and backward; the output layer is not counted. The roofline is that work at the
device's measured matrix rate.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from cases import LR, Case, ModelSize, arguments, peer_model, policy_of
from episodes import Conversation, advantages_of, conversations, samples_of
from peers import build_trainer
from race import Race, Side, race
from report import describe, seconds_text, show
from roofline import measure_rates, update_flops, update_seconds

from practicum.core.loss import LossReport, LossTerms
from practicum.core.sample import Sample
from practicum.engine.compute_thread import pin_threads
from practicum.engine.models.lora import trainable
from practicum.training.algorithms.grpo import Grpo
from practicum.training.prefix_tree import build_batches

__all__ = ["Work", "measure", "padded_side", "practicum_side", "work_arguments"]


class OnPolicy(Grpo):
    """GRPO whose old log-probabilities are the model's own, as right after sampling."""

    def loss(self, terms: LossTerms) -> LossReport:
        """The objective at ratio 1."""
        return super().loss(replace(terms, old_logprobs=terms.logprobs.detach()))


class Work(NamedTuple):
    """What one update learns from."""

    rows: list[Conversation]
    advantages: np.ndarray

    @classmethod
    def of(cls, case: Case) -> "Work":
        """The case's rows."""
        rows = conversations(case)
        return cls(rows, advantages_of(case, rows))

    def samples(self) -> list[Sample]:
        """The rows as Practicum takes them."""
        return samples_of(self.rows, self.advantages)

    def sizes(self) -> dict[str, int]:
        """Tokens of the rows, and of the one tree they make."""
        whole = build_batches(self.samples(), 1 << 40)
        return {
            "rows": len(self.rows),
            "row_tokens": sum(row.token_ids.size for row in self.rows),
            "unique_tokens": sum(batch.token_ids.size for batch in whole),
        }


def practicum_side(case: Case, work: Work) -> Side:
    """The learner as a run uses it."""
    policy = policy_of(case)
    batches = build_batches(work.samples(), case.micro_batch_tokens)
    algorithm = OnPolicy()

    def run() -> dict[str, float]:
        policy.learner.update(batches, algorithm)
        return {}

    return Side(run=run, model=policy.model)


def padded_side(case: Case, work: Work) -> Side:
    """Rows padded to the longest, log-probabilities of the sampled tokens alone."""
    model = peer_model(case)
    optimizer = torch.optim.AdamW([p for _, p in trainable(model)], lr=LR, weight_decay=0.0)
    pieces = list(_padded_pieces(case, work))
    causal = model.get_base_model()

    def run() -> dict[str, float]:
        optimizer.zero_grad(set_to_none=True)
        for ids, mask, chosen, weight in pieces:
            hidden = causal.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
            logits = causal.lm_head(hidden[:, :-1][chosen]).float()
            log_p = torch.log_softmax(logits, -1).gather(1, ids[:, 1:][chosen][:, None])[:, 0]
            ratio = torch.exp(log_p - log_p.detach())
            (-(ratio * weight)).sum().backward()
        optimizer.step()
        return {}

    return Side(run=run, model=model)


def _padded_pieces(case: Case, work: Work) -> Iterator[tuple[torch.Tensor, ...]]:
    """Ids, attention mask, which targets count and with what weight, for some rows at a time."""
    at_once = case.peer_batch or len(work.rows)
    for begin in range(0, len(work.rows), at_once):
        rows = work.rows[begin : begin + at_once]
        longest = max(row.token_ids.size for row in rows)
        ids, mask, sampled = torch.zeros((3, len(rows), longest), dtype=torch.long)
        weights = []
        for i, row in enumerate(rows):
            ids[i, : row.token_ids.size] = torch.from_numpy(row.token_ids)
            mask[i, : row.token_ids.size] = 1
            sampled[i, : row.token_ids.size] = torch.from_numpy(row.sampled)
            count = int(row.sampled.sum())
            share = work.advantages[begin + i] / count / len(work.rows)
            weights.append(torch.full((count,), share))
        piece = (ids, mask, sampled[:, 1:].bool(), torch.cat(weights).float())
        yield tuple(tensor.to(case.device) for tensor in piece)


def trl_side(case: Case, work: Work) -> Side:
    """TRL's own loss on its own inputs, then its optimizer."""
    trainer = build_trainer(case, len(work.rows), lambda completions, **_: [0.0] * len(completions))
    inputs = {key: value.to(case.device) for key, value in _trl_inputs(work).items()}
    at_once = case.peer_batch or len(work.rows)
    pieces = [
        {k: v[begin : begin + at_once] if v.dim() else v for k, v in inputs.items()}
        for begin in range(0, len(work.rows), at_once)
    ]

    def run() -> dict[str, float]:
        trainer.optimizer.zero_grad(set_to_none=True)
        for piece in pieces:
            trainer.compute_loss(trainer.model, piece).backward()
        trainer.optimizer.step()
        return {}

    return Side(run=run, model=trainer.model)


def _trl_inputs(work: Work) -> dict[str, torch.Tensor]:
    """Prompts padded on the left, completions on the right, as TRL collates a step."""
    rows = work.rows
    before = max(row.given for row in rows)
    after = max(row.token_ids.size - row.given for row in rows)
    inputs = {
        "prompt_ids": torch.zeros((len(rows), before), dtype=torch.long),
        "prompt_mask": torch.zeros((len(rows), before), dtype=torch.long),
        "completion_ids": torch.zeros((len(rows), after), dtype=torch.long),
        "completion_mask": torch.zeros((len(rows), after), dtype=torch.long),
        "tool_mask": torch.ones((len(rows), after), dtype=torch.long),
        "advantages": torch.tensor(work.advantages, dtype=torch.float32),
        "num_items_in_batch": torch.tensor(sum(int(row.sampled.sum()) for row in rows)),
    }
    for i, row in enumerate(rows):
        rest = row.token_ids.size - row.given
        inputs["prompt_ids"][i, before - row.given :] = torch.from_numpy(row.token_ids[: row.given])
        inputs["prompt_mask"][i, before - row.given :] = 1
        inputs["completion_ids"][i, :rest] = torch.from_numpy(row.token_ids[row.given :])
        inputs["completion_mask"][i, :rest] = 1
        inputs["tool_mask"][i, :rest] = torch.from_numpy(row.sampled[row.given :])
    return inputs


def measure(case: Case) -> dict[str, Any]:
    """All sides in turn, beside what the hardware allows."""
    work = Work.of(case)
    found = race(
        {
            "practicum": lambda: practicum_side(case, work),
            "padded": lambda: padded_side(case, work),
            "trl": lambda: trl_side(case, work),
        },
        case,
    )
    return {**describe(case), **work.sizes(), **_summary(case, work, found)}


def _summary(case: Case, work: Work, found: Race) -> dict[str, Any]:
    sizes, size = work.sizes(), ModelSize.of(case)
    unique = sizes["unique_tokens"]
    batches = build_batches(work.samples(), case.micro_batch_tokens)
    rates, seconds = measure_rates(case.device, case.dtype), found.totals()
    errors = found.errors("padded")
    best = update_seconds(size, unique, rates)
    return {
        "computed_tokens": sum(batch.token_ids.size for batch in batches),
        "ideal": sizes["row_tokens"] / unique,
        "gradient_error": errors.get("practicum"),
        "trl_gradient_error": errors.get("trl"),
        "seconds": seconds,
        "ratio": found.ratios(),
        "tflop_s": {n: update_flops(size, unique) / s / 1e12 for n, s in seconds.items()},
        "matrix_share": {n: best / s for n, s in seconds.items()},
        "roofline_s": best,
        "rates": asdict(rates),
        "left_out": found.left_out,
        "peak_bytes": found.peak_bytes,
    }


def work_arguments(parser: argparse.ArgumentParser) -> None:
    """What benchmarks with an update can be told."""
    add = parser.add_argument
    add("--turns", type=int, default=1, help="turns of an episode")
    add(
        "--micro-batch-tokens",
        type=int,
        default=2048,
        help="unique tokens Practicum learns at once",
    )
    add("--peer-batch", type=int, default=0, help="rows the peers learn at once; 0 for all")


def main() -> None:
    parser = arguments(__doc__.split("\n")[0])
    work_arguments(parser)
    parser.add_argument("--history", choices=("single", "growing"), default="single")
    args = parser.parse_args()
    pin_threads(args.threads)
    found = measure(Case.of(args))
    lines = [("side", "update", "to practicum", "useful TFLOP/s", "of matrix rate")]
    for name, seconds in found["seconds"].items():
        ratio = found["ratio"].get(name)
        lines.append(
            (
                name,
                seconds_text(seconds),
                f"{ratio:.2f} x" if ratio else "",
                f"{found['tflop_s'][name]:.3g}",
                f"{found['matrix_share'][name]:.1%}",
            )
        )
    lines.append(("roofline", seconds_text(found["roofline_s"]), "", "", "100.0%"))
    show(found, args, lines)
    if not args.json:
        print(
            f"{found['rows']} rows of {found['row_tokens']} tokens, {found['unique_tokens']} "
            f"unique, {found['computed_tokens']} computed in micro-batches of "
            f"{found['micro_batch_tokens']}; ideal {found['ideal']:.2f} x"
        )
        errors = [_error_text(found[key]) for key in ("gradient_error", "trl_gradient_error")]
        print("distance to the padded batch's gradients: practicum {}, trl {}".format(*errors))


def _error_text(error: float | None) -> str:
    return "not seen" if error is None else f"{error:.1e}"


if __name__ == "__main__":
    main()
