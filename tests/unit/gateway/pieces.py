"""A model and a codec small enough to follow by hand: one token a character, turns end with 0."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from practicum.core.conversation import SampledTurn, TurnDelta
from practicum.core.sampling import Completion, SamplingParams, SamplingRequest
from practicum.core.trace import Message, ToolSpec
from practicum.gateway.capture import CapturedConversation

END = 0
ROLES = {"system": 1, "user": 2, "assistant": 3, "tool": 4}


def say(role: str, content: str, **more: object) -> Message:
    return Message(role=role, content=content, **more)  # type: ignore[arg-type]


class CharacterCodec:
    """Every message is its role, its characters and an end; `drops` leaves reasoning out."""

    def prompt(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        turns: Mapping[int, SampledTurn] | None = None,
    ) -> tuple[int, ...]:
        ids: list[int] = [1000 + len(tools)] if tools else []
        for index, message in enumerate(messages):
            turn = (turns or {}).get(index)
            ids.append(ROLES[message.role])
            if turn is not None:
                ids += turn.token_ids if turn.ended_turn else (*turn.token_ids, END)
            else:
                ids += [*map(ord, message.content), END]
        return (*ids, ROLES["assistant"])

    def read(self, token_ids: Sequence[int], tools: Sequence[ToolSpec] = ()) -> Message:
        reader = self.reader(tools)
        reader.feed(token_ids)
        return reader.message()

    def reader(
        self,
        tools: Sequence[ToolSpec] = (),
        *,
        may_be_json: bool = False,
        is_plain: bool = False,
    ) -> "CharacterReader":
        return CharacterReader()

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(t) for t in token_ids if t)


class CharacterReader:
    def __init__(self) -> None:
        self._text = ""

    def feed(self, token_ids: Sequence[int]) -> list[TurnDelta]:
        new = "".join(chr(t) for t in token_ids if t)
        self._text += new
        return [TurnDelta(kind="content", text=new)] if new else []

    cut_call = None

    def end(self, *, is_cut: bool = False) -> list[TurnDelta]:
        return []

    def message(self) -> Message:
        return Message(role="assistant", content=self._text)


class SlowSampler:
    """Says what a function makes of each request, a token at a time; counts what is under way."""

    context_tokens = 5000

    def __init__(self, answer: Callable[[SamplingRequest], str], pause_s: float = 0.0) -> None:
        self._answer = answer
        self._pause_s = pause_s
        self.requests: list[SamplingRequest] = []
        self.sampled: list[tuple[int, ...]] = []
        self.under_way = 0
        self.cancelled = 0
        self.told = 0

    async def sample(self, request: SamplingRequest) -> Completion:
        self.requests.append(request)
        text = self._answer(request)
        whole = (*map(ord, text), END)
        ids = whole[: request.params.max_tokens]
        self.under_way += 1
        try:
            for token in ids:
                await asyncio.sleep(self._pause_s)
                self.told += 1
                if request.on_sampled is not None:
                    request.on_sampled(1)
                if request.on_tokens is not None:
                    request.on_tokens((token,))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        self.sampled.append(ids)
        return Completion(
            token_ids=ids,
            text=text,
            logprobs=tuple(-0.5 - 0.001 * i for i in range(len(ids))),
            loss_mask=(True,) * len(ids),
            log_kept=(),
            choices=(),
            temperature=request.params.temperature,
            fingerprint="w",
            finished=ids == whole,
            ended_turn=ids == whole,
        )

    def fingerprint(self) -> str:
        return "w"

    def forget(self) -> None:
        """Keeps nothing."""


def talk(
    answer: Callable[[SamplingRequest], str] = lambda request: f"a{request.params.seed % 1000}",
    *,
    pause_s: float = 0.0,
    max_tokens: int = 50,
) -> tuple[CapturedConversation, SlowSampler]:
    """A conversation and the sampler behind it."""
    sampler = SlowSampler(answer, pause_s)
    params = SamplingParams(max_tokens=max_tokens)
    codec = CharacterCodec()
    return CapturedConversation(sampler, codec, params, seed=7), sampler  # type: ignore[arg-type]
