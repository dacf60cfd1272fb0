"""Sampling completions: Practicum, `transformers` generate and its paged batching, TRL.

    python benchmarks/sampling.py --model smollm2-135m --prompts 2 --prompt 489 --completion 128

Every side samples exactly the asked number of tokens for the same prompts, `--group` completions of
each, from the same weights with a LoRA adapter, at temperature 1, and takes turns in one process.
Each round a side samples one token (prefill) and then, from nothing, all of them; a decode step is
the difference over the steps between. Nothing is cached from one run to the next.

The roofline of a step reads all weights and each row's cache, half the completion long, at the
measured copy rate, or multiplies at the measured matrix rate where that takes longer; prefill
multiplies each distinct prompt once.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from cases import Case, ModelSize, arguments, peer_model, policy_of
from episodes import prompts_of
from peers import build_trainer, paged_settings
from race import Race, Side, Stages, race
from report import describe, seconds_text, show
from roofline import decode_seconds, measure_rates, prefill_seconds

from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.engine.compute_thread import pin_threads

__all__ = ["measure"]

PATIENCE_S = 60
"""How long paged batching may give no completion before it is left out."""


def both_lengths(case: Case, sample: Callable[[int], None]) -> Callable[[], dict[str, float]]:
    """A run that samples one token, then all."""
    stages = Stages(case.device)

    def run() -> dict[str, float]:
        with stages.measure("prefill"):
            sample(1)
        with stages.measure("sampling"):
            sample(case.completion)
        return stages.take()

    return run


def practicum_side(case: Case) -> Side:
    """The sampler as a run has it; the adapter is folded in anew each time."""
    sampler = policy_of(case).sampler
    prompts = [tuple(prompt) for prompt in prompts_of(case) for _ in range(case.group)]

    async def together(tokens: int) -> None:
        requests = (
            SamplingRequest(
                prompt_ids=prompt, params=SamplingParams(max_tokens=tokens, seed=number)
            )
            for number, prompt in enumerate(prompts)
        )
        done = await asyncio.gather(*(sampler.sample(request) for request in requests))
        assert all(len(completion.token_ids) == tokens for completion in done)

    def sample(tokens: int) -> None:
        sampler.forget()
        asyncio.run(together(tokens))

    return Side(run=both_lengths(case, sample))


def peer_sampler(case: Case) -> Any:
    """The model with its adapter, merged into its weights where the case says so; it never ends."""
    model = peer_model(case)
    model.generation_config.eos_token_id = None
    if case.merged_peers:
        model.merge_adapter()
    return model


def transformers_side(case: Case) -> Side:
    """`generate` on the batch of all rows."""
    model = peer_sampler(case)
    rows = [prompt for prompt in prompts_of(case) for _ in range(case.group)]
    ids = torch.tensor(rows, device=case.device)
    mask = torch.ones_like(ids)

    def sample(tokens: int) -> None:
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=tokens,
            pad_token_id=0,
        )
        assert out.shape == (len(rows), case.prompt + tokens)

    return Side(run=both_lengths(case, sample))


def paged_side(case: Case) -> Side:
    """Continuous batching over a paged cache, as in `generate_batch`; a group forks at its prompt.

    The manager is kept, so its cache and graphs are made once, and starting and stopping its thread
    is not counted.
    """
    from transformers import GenerationConfig
    from transformers.generation import ContinuousBatchingConfig

    model, prompts = peer_sampler(case).get_base_model(), prompts_of(case)
    options = {
        "generation_config": GenerationConfig(
            do_sample=True,
            top_k=0,
            max_new_tokens=case.completion,
            num_return_sequences=case.group,
            eos_token_id=-1,
            pad_token_id=0,
        ),
        "continuous_batching_config": ContinuousBatchingConfig(**paged_settings(case)),
        "persistent_manager": True,
    }

    runs = itertools.count(1)

    def run() -> dict[str, float]:
        with model.continuous_batching_context_manager(**options) as manager:

            def sample(tokens: int) -> None:
                # Another first token, so that no page of an earlier run is of use.
                shift = next(runs)
                moved = [[(first + shift) % 256, *rest] for first, *rest in prompts]
                manager.add_requests(moved, max_new_tokens=tokens)
                _await_paged(manager, case.episodes, tokens)

            return both_lengths(case, sample)()

    return Side(run=run)


def _await_paged(manager: Any, completions: int, tokens: int) -> None:
    silent_s = 0
    while completions:
        output = manager.get_result(timeout=1)
        if output is None:
            silent_s += 1
            if silent_s > PATIENCE_S or not manager.is_running():
                raise RuntimeError(f"no completion came for {silent_s} s")
        elif output.is_finished():
            if output.error is not None or len(output.generated_tokens) != tokens:
                raise RuntimeError(f"a completion failed: {output.error}")
            completions, silent_s = completions - 1, 0


def trl_side(case: Case) -> Side:
    """What TRL's GRPO trainer does to sample a step's completions."""
    trainer = build_trainer(case, case.episodes, lambda completions, **_: [0.0] * len(completions))
    if case.merged_peers:
        trainer.model.merge_adapter()
    rows = [prompt for prompt in prompts_of(case) for _ in range(case.group)]

    def sample(tokens: int) -> None:
        trainer.generation_config.max_new_tokens = tokens
        done = trainer._generate_single_turn(rows, None, {}, case.group)[0]
        assert [len(completion) for completion in done] == [tokens] * len(rows)

    return Side(run=both_lengths(case, sample))


def measure(case: Case) -> dict[str, Any]:
    """All sides in turn, beside what the hardware allows."""
    found = race(
        {
            "practicum": lambda: practicum_side(case),
            "transformers": lambda: transformers_side(case),
            "paged": lambda: paged_side(case),
            "trl": lambda: trl_side(case),
        },
        case,
    )
    return {**describe(case), **_summary(case, found)}


def _summary(case: Case, found: Race) -> dict[str, Any]:
    size, rates = ModelSize.of(case), measure_rates(case.device, case.dtype)
    prefill, whole = found.stage("prefill"), found.stage("sampling")
    steps = max(1, case.completion - 1)
    length = case.prompt + case.completion / 2
    step = decode_seconds(size, case.episodes, length, rates)
    ms = {name: 1e3 * (whole[name] - prefill[name]) / steps for name in whole}
    return {
        "seconds": whole,
        "ratio": found.ratios("sampling"),
        "prefill_s": prefill,
        "ms_a_step": ms,
        "tokens_a_second": {n: case.episodes * case.completion / s for n, s in whole.items()},
        "step_share": {name: 1e3 * step / taken for name, taken in ms.items() if taken > 0},
        "roofline_prefill_s": prefill_seconds(size, case.prompts * case.prompt, rates),
        "roofline_ms_a_step": 1e3 * step,
        "rates": asdict(rates),
        "left_out": found.left_out,
        "peak_bytes": found.peak_bytes,
    }


def main() -> None:
    parser = arguments(__doc__.split("\n")[0])
    add = parser.add_argument
    add("--merged-peers", action="store_true", help="peers sample with the adapter merged before")
    add("--trl-paged", action="store_true", help="TRL samples with generate_batch")
    args = parser.parse_args()
    pin_threads(args.threads)
    found = measure(Case.of(args))
    lines = [("side", "sampling", "to practicum", "tokens/s", "prefill", "a step", "of roofline")]
    for name, seconds in found["seconds"].items():
        lines.append(
            (
                name,
                seconds_text(seconds),
                f"{found['ratio'].get(name, 0):.2f} x",
                f"{found['tokens_a_second'][name]:,.0f}",
                seconds_text(found["prefill_s"][name]),
                f"{found['ms_a_step'][name]:.2f} ms",
                f"{found['step_share'].get(name, 0):.1%}",
            )
        )
    limits = (seconds_text(found["roofline_prefill_s"]), f"{found['roofline_ms_a_step']:.2f} ms")
    lines.append(("roofline", "", "", "", *limits, "100.0%"))
    show(found, args, lines)


if __name__ == "__main__":
    main()
