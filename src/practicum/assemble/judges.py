"""A judge in this process: a local model that is never trained."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from practicum.assemble.models import placement
from practicum.core.config import ModelConfig
from practicum.core.config.reward_components import JudgeComponent
from practicum.core.errors import ContextFull
from practicum.core.judging import JudgeReply, JudgeUnavailable
from practicum.core.sampling import SamplingParams, SamplingRequest
from practicum.core.trace import Message

__all__ = ["LocalJudge", "local_judge"]


class LocalJudge:
    """Asks a local model, which is loaded with the first question; implements `JudgeModel`."""

    def __init__(self, part: JudgeComponent) -> None:
        self._part = part

    @property
    def name(self) -> str:
        """See `JudgeModel`."""
        return f"{self._part.model} here (temperature {self._part.temperature:g})"

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """See `JudgeModel`."""
        sampler, codec = _loaded(self._part.model)
        prompt = codec.open(list(messages))
        params = SamplingParams(
            temperature=self._part.temperature,
            max_tokens=self._part.max_tokens,
            seed=self._part.seed,
        )
        try:
            said = await sampler.sample(SamplingRequest(prompt_ids=prompt, params=params))
        except ContextFull as error:
            raise JudgeUnavailable(
                f"the attempts are too long for {self._part.model}: {error}; lower longest"
            ) from None
        return JudgeReply(
            text=said.text, prompt_tokens=len(prompt), completion_tokens=len(said.token_ids)
        )


@cache
def _loaded(model: str) -> tuple[Any, Any]:
    """The model's sampler and codec; once, whoever asks."""
    from practicum.policy.torch_policy import load_adapted_sampler, load_for_policy

    dtype, device = placement(ModelConfig(name=model))
    loaded = load_for_policy(model, dtype, device)
    return load_adapted_sampler(loaded, None), loaded.codec


def local_judge(part: JudgeComponent) -> LocalJudge:
    """The local judge of a component."""
    return LocalJudge(part)
