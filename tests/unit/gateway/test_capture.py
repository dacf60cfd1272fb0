from collections.abc import Sequence
from dataclasses import replace

import pytest

from practicum.core.errors import UserError
from practicum.core.sampling import (
    ActionForm,
    Completion,
    NextCharacters,
    SamplingParams,
    SamplingRequest,
)
from practicum.core.trace import Message, ToolSpec, Trace
from practicum.engine.policy import load_adapted_sampler, load_for_policy
from practicum.engine.sampling.scripted_sampler import ScriptedSampler
from practicum.gateway.capture import CapturedConversation, turn_seed


def user(text: str) -> Message:
    return Message(role="user", content=text)


class CountingCodec:
    """One token a character; remembers each text it was given, and how the turn before ended."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, bool | None]] = []

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> tuple[int, ...]:
        self.tools = tuple(tools)
        return self._encode(messages, None)

    def extend(self, messages: Sequence[Message], ended_turn: bool) -> tuple[int, ...]:
        return self._encode(messages, ended_turn)

    def _encode(self, messages: Sequence[Message], ended_turn: bool | None) -> tuple[int, ...]:
        text = "".join(m.content for m in messages)
        self.seen.append((text, ended_turn))
        return tuple(1000 + ord(c) for c in text)


class CutOff:
    """A sampler whose completions never end their turn, and that keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[SamplingRequest] = []

    async def sample(self, request: SamplingRequest) -> Completion:
        self.requests.append(request)
        return Completion(
            token_ids=(7, 8),
            text="xy",
            logprobs=(-1.0, -2.0),
            loss_mask=(True, False),
            log_kept=(-0.1, -0.2),
            choices=((7, 9), (8,)),
            temperature=0.5,
            fingerprint="weights",
            finished=False,
            ended_turn=False,
        )

    def fingerprint(self) -> str:
        return "weights"

    def forget(self) -> None:
        """Keeps nothing."""


async def test_what_is_recorded_is_what_was_sent_and_sampled() -> None:
    sampler, codec = CutOff(), CountingCodec()
    conversation = CapturedConversation(sampler, codec, SamplingParams(max_tokens=9), seed=3)
    first = await conversation.complete([user("ab")])
    await conversation.complete([user("c"), user("d")])
    nodes = conversation.nodes
    assert [n.token_ids for n in nodes] == [(1097, 1098), (7, 8), (1099, 1100), (7, 8)]
    assert [n.parent for n in nodes] == [None, 0, 1, 2]
    assert [[m.content for m in n.messages] for n in nodes] == [["ab"], ["xy"], ["c", "d"], ["xy"]]
    assert [m.role for n in nodes for m in n.messages].count("assistant") == 2
    path = Trace(id="x", task_id="t", env="e", nodes=tuple(nodes)).token_ids(3)
    assert sampler.requests[0].prompt_ids == path[:2]
    assert sampler.requests[1].prompt_ids == path[:6]
    span = nodes[1].sampled
    assert span is not None
    for name in ("logprobs", "loss_mask", "log_kept", "choices", "temperature", "fingerprint"):
        assert getattr(span, name) == getattr(first, name), name
    assert nodes[0].sampled is nodes[2].sampled is None


async def test_only_new_messages_are_tokenised() -> None:
    codec = CountingCodec()
    conversation = CapturedConversation(CutOff(), codec, SamplingParams(), seed=0)
    for text in ("a", "b", "c"):
        await conversation.complete([user(text)])
    assert codec.seen == [("a", None), ("b", False), ("c", False)]


async def test_the_codec_is_told_that_a_turn_was_ended() -> None:
    codec = CountingCodec()
    conversation = CapturedConversation(ScriptedSampler("xy"), codec, SamplingParams(), seed=0)
    for text in ("a", "b"):
        await conversation.complete([user(text)])
    assert codec.seen == [("a", None), ("b", True)]


async def test_every_turn_has_a_seed_of_its_own_and_keeps_the_other_settings() -> None:
    params = SamplingParams(temperature=0.3, top_p=0.9, top_k=4, max_tokens=5, stop=("!",))
    seen = set()
    for seed in range(20):
        sampler = CutOff()
        conversation = CapturedConversation(sampler, CountingCodec(), params, seed=seed)
        for _ in range(5):
            await conversation.complete([user("a")])
        for request in sampler.requests:
            seen.add(request.params.seed)
            assert request.params == replace(params, seed=request.params.seed)
    assert len(seen) == 100


def test_turn_seeds_are_distinct_and_do_not_depend_on_the_process() -> None:
    seeds = {turn_seed(seed, turn) for seed in range(300) for turn in range(30)}
    assert len(seeds) == 9000
    assert all(0 <= s < 2**64 for s in seeds)
    assert turn_seed(12, 3) == turn_seed(12, 3)
    assert turn_seed(1, 23) != turn_seed(12, 3)


async def test_actions_go_with_their_own_request() -> None:
    sampler = CutOff()
    conversation = CapturedConversation(sampler, CountingCodec(), SamplingParams(), seed=0)
    actions = (ActionForm(name="go"),)
    await conversation.complete([user("a")], actions)
    await conversation.complete([user("b")])
    assert [r.actions for r in sampler.requests] == [actions, ()]


async def test_a_completion_that_fails_leaves_no_trace() -> None:
    sampler = ScriptedSampler([])
    conversation = CapturedConversation(sampler, CountingCodec(), SamplingParams(), seed=0)
    with pytest.raises(UserError):
        await conversation.complete([user("a")])
    assert conversation.nodes == []


def digits(written: str) -> NextCharacters:
    return NextCharacters(allowed="19" if len(written) < 3 else "", may_end=len(written) > 0)


@pytest.mark.parametrize("max_tokens", [4, 40], ids=["cut off", "whole turns"])
async def test_a_real_conversation_reads_as_its_template_writes_it(max_tokens: int) -> None:
    loaded = load_for_policy("tiny", "float32", "cpu")
    sampler = load_adapted_sampler(loaded, None)
    params = SamplingParams(max_tokens=max_tokens)
    conversation = CapturedConversation(sampler, loaded.codec, params, seed=5)
    texts = []
    for said in ("3x + 7 = 16", "3x = 9", "x = 3"):
        form = ActionForm(name="add_terms", argument=digits)
        completion = await conversation.complete([user(said)], (form, ActionForm(name="stop")))
        assert completion.ended_turn == (max_tokens == 40)
        texts += [user(said), Message(role="assistant", content=completion.text)]
    path = [t for node in conversation.nodes for t in node.token_ids]
    written = loaded.tokenizer.apply_chat_template(
        [{"role": m.role, "content": m.content} for m in texts], tokenize=False
    )
    # The last turn is not closed when it was cut off, and nothing follows it.
    closing = "<|im_end|>" if completion.ended_turn else ""
    assert loaded.tokenizer.decode(path) == written.removesuffix("<|im_end|>\n") + closing
