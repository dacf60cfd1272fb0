"""A whole GRPO step: sample, score, compare, batch and learn; Practicum and TRL, side by side.

    python benchmarks/step.py --model smollm2-135m --prompts 2 --group 8 --turns 4
    python benchmarks/step.py --model qwen2.5-7b --device cuda --dtype bfloat16 --separate

Both sides sample the same number of tokens for the same prompts and score them alike: by their mean
token id, which takes no time. With several turns the model is given 32 tokens after each turn but
the last. Practicum asks its sampler turn after turn; TRL does so in a `rollout_func` that calls its
own generation on the history so far.

Stages: `sampling` is all generation; `batching` is what lies between it and the update (rewards,
advantages, trees or padding); `update` is loss, gradients and optimizer; `rest` is what none of
them covers. With `--separate` each side has the process for itself, and its peak memory on a CUDA
device is shown.
"""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from cases import Case, arguments, policy_of
from episodes import GIVEN_TOKENS, prompts_of, vocabulary
from peers import build_trainer, prompt_text
from race import Race, Side, Stages, race
from report import describe, seconds_text, show
from update import work_arguments

from practicum.core.sample import Batch, Episode, Group
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.core.score import Score
from practicum.core.task import Task
from practicum.core.trace import Node, SampledSpan, Trace
from practicum.engine.compute_thread import pin_threads
from practicum.training.algorithms.grpo import Grpo
from practicum.training.prefix_tree import build_batches, group_samples

__all__ = ["measure"]

STAGES = ("sampling", "batching", "update")


def score_tokens(token_ids: Sequence[int]) -> float:
    """A reward that can be checked and never ties: the mean token id, in thousands."""
    return float(np.mean(token_ids)) / 1000


def given_tokens(case: Case) -> list[tuple[int, ...]]:
    """What the model is given after each turn but the last."""
    rng = np.random.default_rng(2)
    drawn = rng.integers(0, vocabulary(case), (case.turns - 1, GIVEN_TOKENS))
    return [tuple(row) for row in drawn.tolist()]


def practicum_side(case: Case, facts: dict[str, Any]) -> Side:
    """Sampler, credit, trees and learner, as a run's step calls them."""
    policy, algorithm = policy_of(case), Grpo(credit="episode")
    prompts = [tuple(prompt) for prompt in prompts_of(case)]
    between, stages, steps = given_tokens(case), Stages(case.device), itertools.count()

    async def sample(step: int) -> list[list[Trace]]:
        running = [
            asyncio.gather(
                *(
                    _play(policy.sampler, case, prompt, between, (step, place, number))
                    for number in range(case.group)
                )
            )
            for place, prompt in enumerate(prompts)
        ]
        return list(await asyncio.gather(*running))

    def run() -> dict[str, float]:
        with stages.measure("sampling"):
            policy.sampler.forget()
            traces = asyncio.run(sample(next(steps)))
        with stages.measure("batching"):
            batches = _batches(case, traces, algorithm)
        with stages.measure("update"):
            report = policy.learner.update(batches, algorithm)
        assert report.applied
        facts["logprob_gap"], facts["largest_gap"] = report.logprob_gap, report.largest_gap
        facts["unique_tokens"], facts["row_tokens"] = report.tokens, report.row_tokens
        return stages.take()

    return Side(run=run)


async def _play(
    sampler: Any,
    case: Case,
    prompt: tuple[int, ...],
    between: list[tuple[int, ...]],
    place: tuple[int, ...],
) -> Trace:
    """One episode: turns, and what is given between them."""
    nodes = [Node(parent=None, messages=(), token_ids=prompt)]
    path = prompt
    for turn in range(case.turns):
        seed = hash((*place, turn)) % (1 << 62)
        params = SamplingParams(max_tokens=case.completion, seed=seed)
        done = await sampler.sample(SamplingRequest(prompt_ids=path, params=params))
        nodes.append(
            Node(parent=len(nodes) - 1, messages=(), token_ids=done.token_ids, sampled=_span(done))
        )
        path += done.token_ids
        if turn < case.turns - 1:
            nodes.append(Node(parent=len(nodes) - 1, messages=(), token_ids=between[turn]))
            path += between[turn]
    return Trace(id="/".join(map(str, place)), task_id=str(place[1]), env="", nodes=tuple(nodes))


def _span(done: Completion) -> SampledSpan:
    return SampledSpan(
        logprobs=done.logprobs,
        loss_mask=done.loss_mask,
        log_kept=done.log_kept,
        choices=done.choices,
        temperature=done.temperature,
        fingerprint=done.fingerprint,
    )


def _batches(case: Case, traces: list[list[Trace]], algorithm: Grpo) -> list[Batch]:
    """Score, compare within groups, and lay out as trees."""
    groups = []
    for place, group in enumerate(traces):
        episodes = tuple(
            Episode(trace=t, outcome=None, score=Score(components={"tokens": _score(t)}))
            for t in group
        )
        groups.append(Group(task=Task(id=str(place), env="", split="train"), episodes=episodes))
    episodes = [e for group in groups for e in group.episodes]
    credits = [c for of_group in algorithm.credit(groups, {}) for c in of_group]
    return build_batches(group_samples(episodes, credits), case.micro_batch_tokens)


def _score(trace: Trace) -> float:
    return score_tokens([t for node in trace.nodes if node.sampled for t in node.token_ids])


def trl_side(case: Case) -> Side:
    """TRL's trainer: its own `training_step` on the same prompts, and its optimizer."""
    stages = Stages(case.device)
    behind = case.turns * case.completion + (case.turns - 1) * GIVEN_TOKENS

    def timed(base: Any) -> Any:
        class TimedTrainer(base):  # type: ignore[misc]
            """Times TRL's stages; the outer one contains the inner."""

            def _generate(self, prompts: list[str]) -> Any:
                with stages.measure("sampling"):
                    made = super()._generate(prompts)
                assert {len(ids) for ids in made[0]} == {case.prompt}
                assert {len(ids) for ids in made[1]} == {behind}
                return made

            def _generate_and_score_completions(self, inputs: Any) -> Any:
                with stages.measure("prepared"):
                    return super()._generate_and_score_completions(inputs)

        return TimedTrainer

    trainer = build_trainer(
        case,
        case.episodes,
        lambda completion_ids, **_: [score_tokens(ids) for ids in completion_ids],
        trainer_class=timed,
        rollout_func=_turn_by_turn(case) if case.turns > 1 else None,
    )
    texts = [prompt_text(prompt) for prompt in prompts_of(case)]
    rows = [{"prompt": text} for text in texts for _ in range(case.group)]
    pieces = case.episodes // (case.peer_batch or case.episodes)

    def run() -> dict[str, float]:
        with stages.measure("all"):
            for _ in range(pieces):
                trainer.training_step(trainer.model, rows, None)
            trainer.optimizer.step()
            trainer.optimizer.zero_grad(set_to_none=True)
        taken = stages.take()
        return {
            "sampling": taken["sampling"],
            "batching": taken["prepared"] - taken["sampling"],
            "update": taken["all"] - taken["prepared"],
        }

    return Side(run=run)


def _turn_by_turn(case: Case) -> Any:
    """TRL's own generation on the growing history; given tokens are masked out of the loss."""
    between = given_tokens(case)

    def roll_out(prompts: list[str], trainer: Any) -> dict[str, Any]:
        starts = trainer._tokenize_prompts(prompts)[0]
        said: list[list[int]] = [[] for _ in prompts]
        masks: list[list[int]] = [[] for _ in prompts]
        for turn in range(case.turns):
            histories = [start + so_far for start, so_far in zip(starts, said, strict=True)]
            drawn = trainer._generate_single_turn(histories, None, {}, case.group)[0]
            given = between[turn] if turn < case.turns - 1 else ()
            for row, completion in enumerate(drawn):
                said[row] += [*completion, *given]
                masks[row] += [1] * len(completion) + [0] * len(given)
        return {"prompt_ids": starts, "completion_ids": said, "logprobs": None, "env_mask": masks}

    return roll_out


def measure(case: Case) -> dict[str, Any]:
    """Both sides, and where their time goes."""
    facts: dict[str, Any] = {}
    found = race(
        {"practicum": lambda: practicum_side(case, facts), "trl": lambda: trl_side(case)}, case
    )
    return {**describe(case), **facts, **_summary(found)}


def _summary(found: Race) -> dict[str, Any]:
    stages = {
        name: {**taken, "rest": taken["total"] - sum(taken[stage] for stage in STAGES)}
        for name, taken in found.seconds.items()
    }
    return {
        "seconds": found.totals(),
        "ratio": found.ratios(),
        "stages": stages,
        "outside_share": {
            name: (taken["batching"] + taken["rest"]) / taken["total"]
            for name, taken in stages.items()
        },
        "peak_bytes": found.peak_bytes,
        "left_out": found.left_out,
    }


def main() -> None:
    parser = arguments(__doc__.split("\n")[0])
    work_arguments(parser)
    parser.add_argument("--trl-paged", action="store_true", help="TRL samples with generate_batch")
    args = parser.parse_args()
    pin_threads(args.threads)
    found = measure(Case.of(args))
    shown = (*STAGES, "rest")
    lines = [("side", "step", "to practicum", *shown, "outside", "peak memory")]
    for name, seconds in found["seconds"].items():
        peak = found["peak_bytes"].get(name)
        lines.append(
            (
                name,
                seconds_text(seconds),
                f"{found['ratio'].get(name, 0):.2f} x",
                *(seconds_text(found["stages"][name][stage]) for stage in shown),
                f"{found['outside_share'][name]:.1%}",
                f"{peak / 2**30:.2f} GiB" if peak else "",
            )
        )
    show(found, args, lines)
    if not args.json and "logprob_gap" in found:
        print(
            f"{found['row_tokens']} row tokens, {found['unique_tokens']} computed; sampler and "
            f"learner differ by {found['logprob_gap']:.1e} (root mean square), at most by "
            f"{found['largest_gap']:.1e}"
        )


if __name__ == "__main__":
    main()
