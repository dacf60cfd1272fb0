"""OpenAI's older Completions API: a text to go on with, without a chat template around it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from practicum.core.sampling import Completion, SamplingParams
from practicum.core.trace import Message
from practicum.gateway.dialects.dialect import Answers, Fields, refuse
from practicum.gateway.dialects.openai_chat import (
    END,
    NEUTRAL,
    plain_event,
    read_params,
    read_seed,
    stream_error,
    usage_of,
    vllm_form,
)
from practicum.gateway.dialects.openai_shapes import error_body
from practicum.gateway.requests import (
    AnswerFacts,
    ChatRequest,
    ChatTurn,
    ParsedRequest,
    StreamEvent,
    ToolChoice,
)

__all__ = ["KNOWN", "error_body", "read_request", "stream_error", "stream_events", "whole_answer"]

READ = frozenset(
    {
        *("model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "stop", "seed", "n"),
        *("stream", "stream_options", "logprobs", "return_token_ids", "structured_outputs"),
        *("guided_json", "guided_choice"),
    }
)
HARMLESS = frozenset({"user", "suffix", "skip_special_tokens", "spaces_between_special_tokens"})
"""Fields that are accepted and ignored; a `suffix` only where it is empty."""
KNOWN = READ | HARMLESS | NEUTRAL.keys()
"""Every field that is not refused because of its name alone."""

MOST_CHOICES = 128


def read_request(
    body: Mapping[str, Any], defaults: SamplingParams, answers: Answers | None = None
) -> ParsedRequest:
    """Parses and checks a request's body."""
    del answers  # every request has the whole text
    fields = Fields(body)
    fields.allow(KNOWN)
    fields.forbid({"suffix": "the model only goes on with a text", "echo": "it has the prompt"})
    wrong = [n for n in NEUTRAL.keys() & body.keys() if body[n] not in (None, NEUTRAL[n])]
    if wrong:
        sentence = f"{wrong[0]} is not supported here; leave it out, or send {NEUTRAL[wrong[0]]!r}"
        raise refuse(sentence, wrong[0])
    prompt = _prompt(fields)
    likeliest = fields.integer("logprobs", 0, 20)
    return ParsedRequest(
        request=ChatRequest(
            messages=(Message(role="user", content=prompt),),
            text=prompt,
            params=read_params(fields, defaults),
            top_logprobs=likeliest or 0,
            seed=read_seed(fields),
        ),
        model=fields.text("model", ""),
        n=fields.integer("n", 1, MOST_CHOICES) or 1,
        stream=fields.truth("stream", False),
        form=vllm_form(fields),
        tool_choice=ToolChoice(kind="none"),
        logprobs=likeliest is not None,
        token_ids=fields.truth("return_token_ids", False),
        stream_usage=fields.inner("stream_options").truth("include_usage", False),
    )


def _prompt(fields: Fields) -> str:
    value = fields.values.get("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        value = value[0]
    if not isinstance(value, str) or not value:
        raise refuse("prompt must be one text that is not empty", "prompt")
    return value


def whole_answer(
    parsed: ParsedRequest, turns: Sequence[ChatTurn], facts: AnswerFacts
) -> dict[str, Any]:
    """The answer that is not streamed; one turn for each choice."""
    choices = [_choice(parsed, turn, facts, number) for number, turn in enumerate(turns)]
    answer = {**_head(facts), "choices": choices, "usage": usage_of(turns)}
    return {**answer, "system_fingerprint": turns[0].completion.fingerprint}


def _choice(
    parsed: ParsedRequest, turn: ChatTurn, facts: AnswerFacts, number: int
) -> dict[str, Any]:
    choice = {
        "index": number,
        "text": turn.message.content,
        "logprobs": logprobs_of(turn.completion, facts) if parsed.logprobs else None,
        "finish_reason": "stop" if turn.completion.finished else "length",
    }
    if parsed.token_ids:
        choice["prompt_token_ids"] = list(turn.prompt_ids)
        choice["token_ids"] = list(turn.completion.token_ids)
    return choice


def logprobs_of(completion: Completion, facts: AnswerFacts) -> dict[str, Any]:
    """Every sampled token, as lists side by side."""
    texts = [facts.token_text(token) for token in completion.token_ids]
    offsets = [sum(map(len, texts[:at])) for at in range(len(texts))]
    tops = [{facts.token_text(t): value for t, value in one} for one in completion.top_logprobs]
    return {
        "tokens": texts,
        "token_logprobs": list(completion.logprobs),
        "top_logprobs": tops or None,
        "text_offset": offsets,
    }


async def stream_events(
    parsed: ParsedRequest, facts: AnswerFacts, updates: AsyncIterator[StreamEvent]
) -> AsyncIterator[str]:
    """The answer as server-sent events."""
    turns: dict[int, ChatTurn] = {}
    sent: dict[int, str] = {}
    async for update in updates:
        number = update.choice
        text = update.delta.text if update.delta is not None else ""
        if update.turn is not None:
            turns[number] = update.turn
            text = update.turn.message.content[len(sent.get(number, "")) :]
        sent[number] = sent.get(number, "") + text
        choice: dict[str, Any] = {"index": number, "text": text, "logprobs": None}
        choice["finish_reason"] = None
        if update.turn is not None:
            choice = {**_choice(parsed, update.turn, facts, number), "text": text}
        yield plain_event({**_head(facts), "choices": [choice]})
    if parsed.stream_usage and turns:
        usage = usage_of([turns[number] for number in sorted(turns)])
        yield plain_event({**_head(facts), "choices": [], "usage": usage})
    yield END


def _head(facts: AnswerFacts) -> dict[str, Any]:
    return {
        "id": f"cmpl-{facts.id}",
        "object": "text_completion",
        "created": facts.created,
        "model": facts.model,
    }
