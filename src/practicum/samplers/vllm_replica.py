"""A replica that is vLLM's OpenAI-compatible server, with adapters loaded while it runs.

vLLM draws among any tokens that it is given (`allowed_token_ids`), and its log-probabilities are
then those of the draw (`--logprobs-mode processed_logprobs`). So an action is walked choice by
choice, and what the learner sees is what our own engine would have recorded. A grammar is not held:
vLLM does not say how much probability one has cut off, which learning needs.

An adapter is loaded under a name of its own and never under another's: vLLM's prefix cache goes by
the name (its issue 42125). What it holds under a name is compared with the learner, token by token,
whenever an adapter is loaded: vLLM itself does not say.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from practicum.core.config.sampler_config import VLLM_HOTTEST
from practicum.core.errors import ContextFull, PolicyMismatch, UserError
from practicum.core.sample import Floats
from practicum.core.sampling import Completion, SamplingParams
from practicum.core.sampling_json import SampleOrder
from practicum.samplers.replica import (
    PublishedAdapter,
    ReplicaClient,
    ReplicaFacts,
    ReplicaFailed,
    rms_gap,
)

MOST_TOP = 20
"""Likeliest tokens that vLLM reports unless it is told otherwise (`--max-logprobs`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnds:
    """What ends a turn of the model, and what its tokens read as."""

    ids: Collection[int]
    decode: Callable[[Sequence[int]], str]


class VllmReplica:
    """Implements `Replica`."""

    writes_actions = takes_grammars = False
    hottest = VLLM_HOTTEST

    def __init__(self, url: str, key: str, ends: TurnEnds) -> None:
        self.name = f"the vLLM replica {url}"
        self._client, self._ends = ReplicaClient(self.name, url, key), ends
        self._context = 0

    async def facts(self) -> ReplicaFacts:
        """See `Replica`."""
        await self._client.ask("GET", "/health")
        told = await self._client.ask("GET", "/v1/models")
        models = told.get("data")
        lengths = [m.get("max_model_len") for m in models] if isinstance(models, list) else []
        known = [length for length in lengths if isinstance(length, int)]
        if not known:
            raise ReplicaFailed(
                f"{self.name} does not say how long its model's context is; is it vLLM?"
            )
        self._context = known[0]
        return ReplicaFacts(context_tokens=self._context)

    async def load(self, adapter: PublishedAdapter) -> None:
        """See `Replica`."""
        asked = {"lora_name": adapter.name, "lora_path": str(adapter.folder)}
        try:
            await self._client.ask("POST", "/v1/load_lora_adapter", asked)
        except ReplicaFailed as error:  # it may have it from before the connection broke off
            if "already been loaded" not in str(error):
                raise ReplicaFailed(
                    f"{error}; set sampler.folder to one that it can read, and start it with "
                    "--enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"
                ) from None
        await self.check(adapter)

    async def check(self, adapter: PublishedAdapter) -> None:
        """See `Replica`."""
        probe = adapter.probe
        if probe is None:
            return
        asked = {
            "model": adapter.name,
            "prompt": list(probe.token_ids),
            "max_tokens": 1,
            "temperature": 1.0,
            "prompt_logprobs": 0,
        }
        told = _first_choice(await self._client.ask("POST", "/v1/completions", asked))
        gap = rms_gap(_prompt_logprobs(told, probe.token_ids), probe.logprobs)
        if gap > probe.limit:
            raise PolicyMismatch(
                f"{self.name} finds {len(probe.logprobs)} tokens otherwise likely under "
                f"{adapter.name!r} than the weights {adapter.version!r} that were published (root "
                f"mean square {gap:.2e}, limit {probe.limit:.0e}): a stale or another adapter is "
                "being sampled there, or another base model; nothing of it is learned from"
            )

    async def unload(self, adapter: PublishedAdapter) -> None:
        """See `Replica`."""
        await self._client.ask("POST", "/v1/unload_lora_adapter", {"lora_name": adapter.name})

    async def draw(self, order: SampleOrder, adapter: PublishedAdapter) -> Completion:
        """See `Replica`."""
        request, params = order.request, order.request.params
        limit = self._context
        if limit and len(request.prompt_ids) + params.max_tokens > limit:
            raise ContextFull(
                f"This model's maximum context length is {limit} tokens; a prompt of "
                f"{len(request.prompt_ids)} and {params.max_tokens} new ones do not fit; lower "
                "rollouts.max_tokens or max_turns, or start vLLM with a longer --max-model-len"
            )
        if params.top_k or params.top_p < 1.0:
            raise UserError(
                "vLLM does not say how much probability top_p and top_k have cut off, which "
                "learning needs; set top_p=1 and top_k=0, or sampler=practicum"
            )
        if request.top_logprobs > MOST_TOP:
            raise UserError(
                f"vLLM reports {MOST_TOP} likeliest tokens at most, and {request.top_logprobs} are "
                "asked for; ask for fewer"
            )
        asked: dict[str, Any] = {
            "model": adapter.name,
            "prompt": list(request.prompt_ids),
            "max_tokens": 1 if order.among else params.max_tokens,
            "temperature": params.temperature,
            "seed": drawing_seed(params.seed, request.drawn),
            "logprobs": request.top_logprobs,
            "return_token_ids": True,
            # As ids: token strings of bytes that are no text of their own cannot be told apart.
            "return_tokens_as_token_ids": True,
            "stop_token_ids": sorted(self._ends.ids),
        }
        if order.among:
            asked["allowed_token_ids"] = list(order.among)
        elif params.stop:
            asked["stop"] = list(params.stop)
        told = await self._client.ask("POST", "/v1/completions", asked)
        if told.get("model") != adapter.name:
            raise PolicyMismatch(
                f"{self.name} sampled from {told.get('model')!r:.80} and {adapter.name!r} was "
                "asked for; nothing of it is learned from"
            )
        try:
            return self._completion(_first_choice(told), params, adapter.version, order)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ReplicaFailed(
                f"{self.name} answered without token ids and log-probabilities ({error}); it must "
                "be vLLM 0.10.2 or later"
            ) from None

    def _completion(
        self, choice: Mapping[str, Any], params: SamplingParams, version: str, order: SampleOrder
    ) -> Completion:
        tokens = tuple(int(token) for token in choice["token_ids"])
        told = choice["logprobs"]
        logprobs = tuple(float(value) for value in told["token_logprobs"])
        if not tokens or len(logprobs) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens and {len(logprobs)} log-probabilities")
        if order.among and tokens[0] not in order.among:
            raise ValueError(f"token {tokens[0]} is none of those that were allowed")
        is_greedy, reason = params.temperature == 0.0, choice.get("stop_reason")
        ended = tokens[-1] in self._ends.ids
        text = self._ends.decode(tokens[:-1] if ended else tokens)
        stopped = reason if isinstance(reason, str) and reason in params.stop else ""
        for stop in params.stop:
            text = text.split(stop)[0]
        return Completion(
            token_ids=tokens,
            text=text,
            logprobs=(0.0,) * len(tokens) if is_greedy else logprobs,
            loss_mask=(not is_greedy,) * len(tokens),
            log_kept=(),
            choices=(),
            temperature=params.temperature,
            fingerprint=version,
            finished=ended or bool(stopped),
            ended_turn=ended,
            cached_tokens=0,
            stopped_by=stopped,
            top_logprobs=_likeliest(told, order.request.top_logprobs),
        )

    async def close(self) -> None:
        """See `Replica`."""
        await self._client.close()


def drawing_seed(seed: int, drawn: int) -> int:
    """One that vLLM takes, another for each piece of a turn.

    >>> drawing_seed(7, 0) != drawing_seed(7, 1) < 2**63
    True
    """
    digest = hashlib.blake2b(f"{seed}/{drawn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _first_choice(told: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = told.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


def _prompt_logprobs(choice: Mapping[str, Any], tokens: Sequence[int]) -> Floats:
    """Of each token but the first; empty where it does not say."""
    told = choice.get("prompt_logprobs")
    if not isinstance(told, list) or len(told) != len(tokens):
        return np.zeros(0, np.float32)
    try:
        found = [each[str(t)]["logprob"] for t, each in zip(tokens[1:], told[1:], strict=True)]
        return np.asarray(found, np.float32)
    except (KeyError, TypeError, ValueError):
        return np.zeros(0, np.float32)


def _likeliest(told: Mapping[str, Any], count: int) -> tuple[tuple[tuple[int, float], ...], ...]:
    """The likeliest ids of each token; vLLM names them `token_id:17`."""
    if not count:
        return ()
    return tuple(
        tuple(
            sorted(
                ((int(name.partition(":")[2]), float(value)) for name, value in each.items()),
                key=lambda pair: -pair[1],
            )[:count]
        )
        for each in told["top_logprobs"]
    )
