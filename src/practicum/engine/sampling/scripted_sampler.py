"""A sampler that says what it was told to: for tests of agents, environments and loops."""

from collections.abc import Callable, Iterable

from practicum.core.errors import UserError
from practicum.core.sampling import Completion, SamplingRequest


class ScriptedSampler:
    """Answers with the given texts in turn, or with what a function makes of the request.

    Tokens are the text's bytes, and every one has log-probability 0.

    >>> import asyncio
    >>> from practicum.core.sampling import SamplingParams
    >>> sampler = ScriptedSampler(["state_answer"])
    >>> request = SamplingRequest(prompt_ids=(1,), params=SamplingParams())
    >>> asyncio.run(sampler.sample(request)).text
    'state_answer'
    """

    def __init__(self, answers: Iterable[str] | Callable[[SamplingRequest], str]) -> None:
        self._answer = answers if callable(answers) else _in_turn(answers)
        self.requests: list[SamplingRequest] = []
        """Everything it was asked."""

    async def sample(self, request: SamplingRequest) -> Completion:
        """The next answer."""
        self.requests.append(request)
        text = self._answer(request)
        ids = tuple(text.encode())
        return Completion(
            token_ids=ids,
            text=text,
            logprobs=(0.0,) * len(ids),
            loss_mask=(True,) * len(ids),
            log_kept=(),
            choices=(),
            temperature=request.params.temperature,
            fingerprint=self.fingerprint(),
            finished=True,
            ended_turn=True,
        )

    def fingerprint(self) -> str:
        """Always the same."""
        return "scripted"

    def forget(self) -> None:
        """There is nothing to forget."""


def _in_turn(answers: Iterable[str]) -> Callable[[SamplingRequest], str]:
    remaining = iter(answers)

    def answer(request: SamplingRequest) -> str:
        for text in remaining:
            return text
        raise UserError("the scripted sampler has no answer left; give it one for each turn")

    return answer
