"""Sampling a group of completions: Practicum's engine, `transformers` generate, TRL, side by side.

    python benchmarks/sampling.py --model smollm2-135m --prompt 489 --completion 128 --group 8

Every side samples exactly the asked number of tokens from the same weights with a LoRA adapter, at
temperature 1, and takes turns in one process. Practicum forgets its cache before each round.
"""

import argparse
import asyncio
import json
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from cases import adapted_model, arguments, median_seconds, ours

from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.policy.engine import TorchEngine
from practicum.policy.folding import AdapterFold


class NoEnd:
    """A codec for which no token ends a turn, so that every completion has its full length."""

    turn_end_id = -1
    end_of_turn_ids: frozenset[int] = frozenset()

    def decode(self, token_ids: Any) -> str:
        """Text is not what is measured."""
        return ""


def practicum_side(args: argparse.Namespace, prompt: list[int]) -> Callable[[], None]:
    """The engine, with the adapter folded in as a run has it."""
    model = ours(args.model, dtype=args.dtype, device=args.device)
    fold = AdapterFold(model)
    engine = TorchEngine(
        model.get_base_model(),
        None,
        NoEnd(),  # type: ignore[arg-type]
        fingerprint=lambda: "",
        prepare=fold.fold,
        release=fold.unfold,
    )

    async def sample() -> None:
        requests = [
            SamplingRequest(
                prompt_ids=tuple(prompt), params=SamplingParams(max_tokens=args.completion, seed=n)
            )
            for n in range(args.group)
        ]
        done = await asyncio.gather(*(engine.sample(r) for r in requests))
        assert all(len(c.token_ids) == args.completion for c in done)

    def run() -> None:
        engine.forget()
        asyncio.run(sample())

    return run


def transformers_side(args: argparse.Namespace, prompt: list[int]) -> Callable[[], None]:
    """`generate` on the model with its adapter."""
    model = adapted_model(args.model, "sdpa", dtype=args.dtype, device=args.device)
    ids = torch.tensor([prompt] * args.group, device=args.device)

    def run() -> None:
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                top_k=0,
                max_new_tokens=args.completion,
                min_new_tokens=args.completion,
                pad_token_id=0,
                eos_token_id=None,
            )
        assert out.shape[1] == len(prompt) + args.completion

    return run


def trl_side(args: argparse.Namespace, prompt: list[int], folder: str) -> Callable[[], None]:
    """What TRL's GRPO trainer does to sample a group."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from practicum.policy.tiny import build_tiny_tokenizer

    settings = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=args.group,
        num_generations=args.group,
        max_completion_length=args.completion,
        generation_kwargs={"min_new_tokens": args.completion},
        use_cpu=args.device == "cpu",
        bf16=args.dtype == "bfloat16",
        report_to="none",
    )
    trainer = GRPOTrainer(
        model=adapted_model(args.model, "sdpa", dtype=args.dtype, device=args.device),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=settings,
        train_dataset=Dataset.from_list([{"prompt": "x"}] * args.group),
        processing_class=build_tiny_tokenizer(),
    )
    trainer.model.train()

    def run() -> None:
        found = trainer._generate_single_turn([prompt] * args.group, None, {}, args.group)
        assert len(found[0]) == args.group

    return run


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All sides in turn, the first round thrown away."""
    vocabulary = 256 if args.model == "tiny" else 40_000
    prompt = np.random.default_rng(0).integers(0, vocabulary, args.prompt).tolist()
    sides = {
        "practicum": practicum_side(args, prompt),
        "transformers": transformers_side(args, prompt),
    }
    with tempfile.TemporaryDirectory() as folder:
        if not args.no_trl:
            sides["trl"] = trl_side(args, prompt, folder)
        median = median_seconds(sides, args.repeats, args.device)
    return {
        "model": args.model,
        "device": args.device,
        "dtype": args.dtype,
        "threads": torch.get_num_threads(),
        "seconds": median,
        "ms_a_token_step": {n: 1e3 * s / args.completion for n, s in median.items()},
        "ratio": {name: median[name] / median["practicum"] for name in median},
    }


def main() -> None:
    parser = arguments(__doc__.split("\n")[0])
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    found = measure(args)
    if args.json:
        print(json.dumps(found))
        return
    print(f"{found['model']}, {found['device']} {found['dtype']}, {found['threads']} threads")
    for name, seconds in found["seconds"].items():
        step = found["ms_a_token_step"][name]
        print(f"  {name:<12} {seconds:8.2f} s {step:8.1f} ms a step {found['ratio'][name]:6.2f} x")


if __name__ == "__main__":
    main()
