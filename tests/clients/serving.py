"""A gateway in the test's own event loop, and an independent count of what was sampled behind it.

Clients that block are run in threads or as processes of their own: the gateway must go on.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from practicum.core.conversation import Endpoint, RolloutLimits
from practicum.core.sample import Credit
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.core.tool_calls import write_tool_call
from practicum.core.trace import Node, ToolCall, Trace
from practicum.engine.policy import TorchPolicy
from practicum.engine.sampling.json_grammar import JsonGrammars
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.rollouts import OpenRollouts, Rollout
from practicum.gateway.server.gateway_server import Gateway
from practicum.gateway.server.gateway_settings import GatewaySettings
from practicum.training.prefix_tree import build_batches, episode_samples

END = 259
"""The tiny model's end-of-turn token."""

TOLERANCE = 1e-4
"""How far the learner's log-probabilities may be from the recorded ones."""

PIECE = 3
"""Tokens that a scripted turn is told in at once: fewer than most markup has."""


class CountedSampler:
    """Notes every completion as it leaves the sampler, whatever becomes of it."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler
        self.completions: list[tuple[int, ...]] = []

    async def sample(self, request: SamplingRequest) -> Completion:
        completion: Completion = await self._sampler.sample(request)
        self.completions.append(completion.token_ids)
        return completion

    def fingerprint(self) -> str:
        return str(self._sampler.fingerprint())

    def forget(self) -> None:
        self._sampler.forget()


class ScriptedSampler:
    """Says given turns in the tiny model's tokens, one by one and then the last one again."""

    def __init__(self, turns: Sequence[str]) -> None:
        self._turns = turns
        self.asked: list[SamplingRequest] = []

    async def sample(self, request: SamplingRequest) -> Completion:
        text = self._turns[min(len(self.asked), len(self._turns) - 1)]
        self.asked.append(request)
        ids = (*text.encode(), END)
        for start in range(0, len(ids), PIECE):
            if request.on_tokens is not None:
                request.on_tokens(ids[start : start + PIECE])
            await asyncio.sleep(0)
        return Completion(
            token_ids=ids,
            text=text,
            logprobs=(-0.25,) * len(ids),
            loss_mask=(True,) * len(ids),
            log_kept=(),
            choices=(),
            temperature=1.0,
            fingerprint=self.fingerprint(),
            finished=True,
            ended_turn=True,
        )

    def fingerprint(self) -> str:
        return "scripted"

    def forget(self) -> None:
        """There is nothing to forget."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """A rollout that clients can reach."""

    endpoint: Endpoint
    counted: CountedSampler
    conversation: CapturedConversation
    rollouts: OpenRollouts
    rollout: Rollout

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which the libraries find a server."""
        return {
            "OPENAI_BASE_URL": f"{self.endpoint.url}/v1",
            "OPENAI_API_KEY": self.endpoint.key,
            "ANTHROPIC_BASE_URL": self.endpoint.url,
            "ANTHROPIC_API_KEY": self.endpoint.key,
        }

    @property
    def nodes(self) -> list[Node]:
        return self.conversation.nodes

    @property
    def sampled(self) -> list[Node]:
        return [node for node in self.nodes if node.sampled is not None]

    def check_all_recorded(self) -> int:
        """Every completion of the sampler is in the trace, token for token, and nothing else is."""
        recorded = Counter(node.token_ids for node in self.sampled)
        assert recorded == Counter(self.counted.completions)
        return sum(len(ids) for ids in self.counted.completions)

    def trace(self) -> Trace:
        return Trace(id="clients", task_id="t", env="e", nodes=tuple(self.nodes))


@asynccontextmanager
async def serving(
    policy: TorchPolicy,
    turns: Sequence[str] | None = None,
    *,
    limits: RolloutLimits | None = None,
    max_tokens: int = 24,
    settings: GatewaySettings | None = None,
) -> AsyncIterator[Served]:
    """A gateway over the tiny model, or over turns written for it."""
    counted = CountedSampler(policy.sampler if turns is None else ScriptedSampler(turns))
    params = SamplingParams(max_tokens=max_tokens)
    conversation = CapturedConversation(counted, policy.codec, params, seed=5)
    rollouts = OpenRollouts()
    grammars = JsonGrammars(policy.tokenizer)
    gateway = Gateway(rollouts, settings, models=("tiny",), grammars=grammars)
    async with gateway.serving():
        rollout = rollouts.open(conversation, limits)
        yield Served(
            endpoint=gateway.endpoint(rollout),
            counted=counted,
            conversation=conversation,
            rollouts=rollouts,
            rollout=rollout,
        )


def check_recomputed(policy: TorchPolicy, served: Served) -> float:
    """The learner gives every sampled token the log-probability it was recorded with.

    Returns how far apart the two were at most.
    """
    trace = served.trace()
    credit = Credit(advantages=(1.0,) * len(trace.turns))
    samples = episode_samples(trace, credit, 1.0)
    batches = build_batches(samples, 100_000)
    measured = policy.learner.measure(batches, frozenset())
    compared, furthest = 0, 0.0
    for batch, found in zip(batches, measured, strict=True):
        apart = np.abs(found.logprobs - batch.term_old_logprob)
        compared, furthest = compared + apart.size, max(furthest, float(apart.max()))
    assert furthest < TOLERANCE
    carrying = sum(sum(node.sampled.loss_mask) for node in served.sampled if node.sampled)
    assert compared == carrying > 0
    return furthest


def call(name: str, **arguments: Any) -> str:
    """A tool call as the tiny model would write it, and as it is made to by a client that asks."""
    return write_tool_call(ToolCall(name=name, arguments=arguments))


async def run_script(
    command: Sequence[str], served: Served, folder: Path, patience_s: float, **more: str
) -> tuple[int, str, str]:
    """A client's exit status, what it printed and what it complained of."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**quiet_environment(served), "HOME": str(folder), **more},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, complained = await asyncio.wait_for(process.communicate(), patience_s)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, said.decode(), complained.decode()


def quiet_environment(served: Served) -> dict[str, str]:
    """What a client's process gets: where the model is, and nothing that reaches elsewhere."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        **served.environment,
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "OTEL_SDK_DISABLED": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
