"""Named actions against free text: episodes of `math`, and the same conversations as free text.

    python benchmarks/named_actions.py --model smollm2-135m --dtype bfloat16

`--prompts` tasks of level 4, `--group` episodes of each, are sampled with named actions and their
written arguments. Free text is then sampled turn by turn for as many tokens after as many given
ones, so both have the same token counts; nothing ends early. On a GPU the `planned` side samples
the actions without captured passes, kernel by kernel; all must give the same log-probabilities.
"""

import asyncio
import dataclasses
import statistics
import time
from collections.abc import Awaitable, Callable
from itertools import islice, pairwise
from typing import Any

from cases import ADAPTER, SETTINGS, Case, NoEnd, arguments, load_case
from report import describe, seconds_text, show

from practicum.agents.rollout import RolloutParts, run_groups
from practicum.assemble.environments import open_environment
from practicum.assemble.policies import trained_policy
from practicum.core.config.config_sections import EnvConfig
from practicum.core.config.run_config import RunConfig
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.engine.compute_thread import pin_threads
from practicum.engine.models.loading import load_model
from practicum.engine.policy import TorchPolicy

__all__ = ["measure"]

LEVEL = 4
TURNS = 8
Turns = list[tuple[tuple[int, ...], int]]
"""Of one episode: the tokens given before each turn, and how many were sampled in it."""


class Recorder:
    """A sampler that keeps what was asked and answered, by episode."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.seen: list[tuple[SamplingRequest, Completion]] = []

    async def sample(self, request: SamplingRequest) -> Completion:
        """As the sampler would."""
        completion = await self._sampler.sample(request)
        self.seen.append((request, completion))
        return completion  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sampler, name)

    def episodes(self) -> list[Turns]:
        """The turns of each episode; a turn's prompt begins with all that came before it."""
        paths: list[tuple[tuple[int, ...], list[tuple[SamplingRequest, Completion]]]] = []
        for request, completion in sorted(self.seen, key=lambda one: len(one[0].prompt_ids)):
            prompt = tuple(request.prompt_ids)
            known = [i for i, (path, _) in enumerate(paths) if prompt[: len(path)] == path]
            _, turns = paths.pop(known[0]) if known else ((), [])
            paths.append(((*prompt, *completion.token_ids), [*turns, (request, completion)]))
        return [_turns(turns) for _, turns in paths]


def _turns(episode: list[tuple[SamplingRequest, Completion]]) -> Turns:
    first = episode[0]
    found = [(tuple(first[0].prompt_ids), len(first[1].token_ids))]
    for (request, completion), (after, sampled) in pairwise(episode):
        known = len(request.prompt_ids) + len(completion.token_ids)
        found.append((tuple(after.prompt_ids[known:]), len(sampled.token_ids)))
    return found


def policy_with(case: Case, codec: Any) -> TorchPolicy:
    """The case's model with a tokenizer, and with this codec where one is given."""
    words = load_model("smollm2-135m" if case.model != "tiny" else "tiny", device="cpu")
    loaded = dataclasses.replace(
        load_case(case), tokenizer=words.tokenizer, codec=codec or words.codec
    )
    return TorchPolicy.build(loaded, ADAPTER, SETTINGS, seed=0)


def timed(case: Case, work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    if case.uses_cuda:
        import torch

        torch.cuda.synchronize()
    begin = time.perf_counter()
    found = asyncio.run(work())  # type: ignore[arg-type]
    return time.perf_counter() - begin, found


def named_parts(case: Case, policy: TorchPolicy, sampler: Any) -> tuple[RolloutParts, list[Any]]:
    """What named episodes are made with, and their tasks."""
    config = RunConfig(env=EnvConfig(name="math", level=LEVEL))  # type: ignore[call-arg]
    environment = open_environment(config.env)
    params = SamplingParams(max_tokens=config.rollouts.max_tokens, temperature=1.0)
    handle = trained_policy(case.model, dataclasses.replace(policy, sampler=sampler), params)
    tasks = list(islice(environment.tasks("train", 0), case.prompts))
    return handle.parts(environment, config), tasks


async def replay(sampler: Any, episodes: list[Turns]) -> int:
    """Free text of the same token counts; how many were sampled."""

    async def one(number: int, turns: Turns) -> int:
        path: tuple[int, ...] = ()
        for given, count in turns:
            path += given
            params = SamplingParams(max_tokens=count, seed=number)
            completion = await sampler.sample(SamplingRequest(prompt_ids=path, params=params))
            path += completion.token_ids
        return sum(count for _, count in turns)

    return sum(await asyncio.gather(*(one(n, turns) for n, turns in enumerate(episodes))))


def measure(case: Case) -> dict[str, Any]:
    """Medians of the sides' seconds, and what they sampled."""
    acting, free = policy_with(case, None), policy_with(case, NoEnd())
    seconds: dict[str, list[float]] = {"named": [], "planned": [], "free": []}
    passes: dict[str, int] = {}
    logprobs: dict[str, dict[Any, tuple[float, ...]]] = {}
    captured = acting.sampler._decoder.captured_states
    for _ in range(case.repeats + 1):
        for side, states in (("named", captured), ("planned", lambda *_: None)):
            acting.sampler._decoder.captured_states = states
            acting.sampler.forget()
            recorder, before = Recorder(acting.sampler), acting.sampler.passes
            parts, tasks = named_parts(case, acting, recorder)
            took, _ = timed(case, lambda: run_groups(parts, tasks, case.group, label="b", seed=0))  # noqa: B023
            seconds[side].append(took)
            passes[side] = acting.sampler.passes - before
            logprobs[side] = {(r.prompt_ids, c.token_ids): c.logprobs for r, c in recorder.seen}
            if side == "named":
                episodes = recorder.episodes()
        free.sampler.forget()
        before = free.sampler.passes
        took, tokens = timed(case, lambda: replay(free.sampler, episodes))  # noqa: B023
        seconds["free"].append(took)
        passes["free"] = free.sampler.passes - before
    medians = {side: statistics.median(taken[1:]) for side, taken in seconds.items()}
    one, other = logprobs["named"], logprobs["planned"]
    gaps = [abs(x - y) for k in one.keys() & other for x, y in zip(one[k], other[k], strict=True)]
    return {
        **describe(case),
        "seconds": medians,
        "times_free_text": {side: medians[side] / medians["free"] for side in medians},
        "passes": passes,
        "sampled_tokens": tokens,
        "given_tokens": sum(len(given) for turns in episodes for given, _ in turns),
        "turns": sum(map(len, episodes)),
        "same_turns": len(one.keys() & other),
        "mean_gap": statistics.fmean(gaps),
        "largest_gap": max(gaps),
    }


def main() -> None:
    """Measure and print."""
    parser = arguments("Named actions against free text of the same token counts.")
    parser.set_defaults(prompts=8, group=8)
    args = parser.parse_args()
    case = Case.of(args)
    pin_threads(case.threads)
    found = measure(case)
    rows = [
        [side, seconds_text(found["seconds"][side]), f"{found['times_free_text'][side]:.2f}",
         str(found["passes"][side])]
        for side in found["seconds"]
    ]  # fmt: skip
    show(found, args, [["side", "seconds", "x free text", "passes"], *rows])


if __name__ == "__main__":
    main()
