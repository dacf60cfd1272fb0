"""A judge in this process: a local model that is never trained."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from practicum.core.config.config_sections import ModelConfig
from practicum.core.config.reward_config import JudgeComponent
from practicum.core.errors import ContextFull
from practicum.core.sampling import ActionForm, Completion, SamplingParams, SamplingRequest
from practicum.core.score import JudgeModel, JudgeReply, JudgeUnavailable, Weighed, WeighingModel
from practicum.core.trace import Message
from practicum.engine.planning.machine import placement


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
        params = SamplingParams(
            temperature=self._part.temperature,
            max_tokens=self._part.max_tokens,
            seed=self._part.seed,
        )
        asked, said = await _ask(self._part.model, messages, params=params)
        return JudgeReply(
            text=said.text, prompt_tokens=asked, completion_tokens=len(said.token_ids)
        )


class LocalScales:
    """Reads the probabilities of a local model's answers; implements `WeighingModel`."""

    def __init__(self, part: JudgeComponent) -> None:
        self._part = part

    @property
    def name(self) -> str:
        """See `JudgeModel`."""
        return f"{self._part.model} here (weighing)"

    async def weigh(self, messages: Sequence[Message], answers: tuple[str, ...]) -> Weighed:
        """See `WeighingModel`; answers must differ in their first token."""
        forms = tuple(ActionForm(name=answer) for answer in answers)
        asked, said = await _ask(
            self._part.model,
            messages,
            params=SamplingParams(temperature=1.0),
            actions=forms,
            top_logprobs=len(answers),
        )
        _, codec = _loaded(self._part.model)
        begun = {codec.decode((token,)): math.exp(log_p) for token, log_p in said.top_logprobs[0]}
        found = [next(p for text, p in begun.items() if one.startswith(text)) for one in answers]
        return Weighed(probabilities=tuple(found), prompt_tokens=asked)


async def _ask(model: str, messages: Sequence[Message], **how: Any) -> tuple[int, Completion]:
    """The length of the question in tokens, and what the model makes of it."""
    sampler, codec = _loaded(model)
    prompt = codec.open(list(messages))
    try:
        return len(prompt), await sampler.sample(SamplingRequest(prompt_ids=prompt, **how))
    except ContextFull as error:
        raise JudgeUnavailable(
            f"the attempts are too long for {model}: {error}; lower longest"
        ) from None


@cache
def _loaded(model: str) -> tuple[Any, Any]:
    """The model's sampler and codec; once, whoever asks."""
    from practicum.engine.policy import load_adapted_sampler, load_for_policy

    dtype, device = placement(ModelConfig(name=model))
    loaded = load_for_policy(model, dtype, device)
    return load_adapted_sampler(loaded, None), loaded.codec


def local_judge(part: JudgeComponent) -> JudgeModel | WeighingModel:
    """The local judge of a component."""
    return LocalJudge(part) if part.way == "compared" else LocalScales(part)
