"""Whole conversations to tokens, around turns that were sampled."""

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.engine.chat.families import FAMILIES, codec_of, sampled
from tests.unit.engine.chat.scripts import BASH, TOOLS, Script

from practicum.core.conversation import SampledTurn
from practicum.core.trace import Message, ToolCall
from practicum.engine.chat.template_codec import TemplateCodec

CASES = 12
FORGETFUL = {"qwen3", "qwen3-tokens", "qwen3-thinking", "deepseek-r1"}
"""Families whose templates drop thinking."""
ALWAYS_THINKING = {"qwen3-thinking", "deepseek-r1"}
"""Those of them that cannot be sampled without."""


def user(text: str) -> Message:
    return Message(role="user", content=text)


def said(text: str, *calls: ToolCall, reasoning: str = "") -> Message:
    return Message(role="assistant", content=text, tool_calls=calls, reasoning=reasoning)


def turn_of(codec: TemplateCodec, name: str, message: Message, dice: random.Random) -> SampledTurn:
    ended = dice.random() < 0.8
    ids = sampled(codec, FAMILIES[name].text(message), dice)
    return SampledTurn(token_ids=ids + (codec.turn_end_id,) * ended, ended_turn=ended)


def text_of(codec: TemplateCodec, ids: tuple[int, ...]) -> str:
    tokenizer: Any = codec._tokenizer
    return str(tokenizer.decode(list(ids), skip_special_tokens=False))


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - ALWAYS_THINKING))
@pytest.mark.parametrize("tools", [(), TOOLS], ids=["talking", "tools"])
def test_a_conversation_that_only_grew_has_the_tokens_it_grew_by(name: str, tools: Any) -> None:
    """Templates that rewrite what was said are left to their own tests below."""
    codec, family = codec_of(name), FAMILIES[name]
    if name in FORGETFUL:
        family = replace(family, thinks="")
    for seed in range(CASES):
        dice = random.Random(seed)
        script = Script(family, dice)
        messages = [script.system()] * dice.randint(0, 1) + [script.user()]
        grown, turns = codec.open(messages, tools), dict[int, SampledTurn]()
        assert codec.prompt(messages, tools) == grown
        for _ in range(dice.randint(1, 4)):
            message = script.turn(calls=bool(tools))
            if family.moves_tools and tools and not message.tool_calls:
                break  # the user's next message takes the tools with it
            turns[len(messages)] = turn = turn_of(codec, name, message, dice)
            answers = script.answers(message)
            messages += [message, *answers]
            grown += turn.token_ids + codec.extend(answers, turn.ended_turn)
            assert codec.prompt(messages, tools, turns) == grown


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - FORGETFUL))
def test_turns_that_were_not_sampled_are_shown_as_the_template_shows_them(name: str) -> None:
    codec, tokenizer = codec_of(name), codec_of(name)._tokenizer
    conversation = [user("Hi é"), said("Hello."), user("Go on."), said("ok"), user("?")]
    dicts = [{"role": m.role, "content": m.content} for m in conversation]
    shown = tokenizer.apply_chat_template(dicts, tokenize=False, add_generation_prompt=True)
    assert text_of(codec, codec.prompt(conversation)) == shown


@pytest.mark.parametrize("name", ["qwen3", "qwen3-tokens", "qwen3-thinking"])
@pytest.mark.parametrize("sends_thinking", [True, False], ids=["sent", "left-out"])
def test_thinking_stays_until_the_user_asks_again(name: str, sends_thinking: bool) -> None:
    codec, dice = codec_of(name), random.Random(0)
    call = ToolCall(name="bash", arguments={"script": "ls"}, id="call_0")
    first = said("", call, reasoning="look first")
    turn = turn_of(codec, name, first, dice)
    sent = first if sends_thinking else replace(first, reasoning="")
    asked = [user("List."), sent, Message(role="tool", content="a b", tool_call_id="call_0")]
    opened = codec.open(asked[:1], TOOLS)
    grown = codec.prompt(asked, TOOLS, {1: turn})
    assert grown == opened + turn.token_ids + codec.extend(asked[2:], turn.ended_turn)
    second = said("Two files.", reasoning="count them")
    answered = turn_of(codec, name, second, dice)
    again = codec.prompt([*asked, second, user("Sure?")], TOOLS, {1: turn, 3: answered})
    before, _, after = text_of(codec, again).partition("assistant\n")
    assert before == text_of(codec, opened).partition("assistant\n")[0]
    assert after.startswith('<tool_call>\n{"name": "bash", "arguments": {"script": "ls"}}')
    assert "<|im_start|>assistant\nTwo files.<|im_end|>\n<|im_start|>user\nSure?" in after
    assert "</think>" not in after


def test_a_turn_that_did_not_think_keeps_its_tokens_when_the_user_asks_again() -> None:
    codec, dice = codec_of("qwen3"), random.Random(3)
    turn = SampledTurn(token_ids=sampled(codec, "the thing", dice), ended_turn=False)
    messages = [user("a"), said("the thing"), user("b")]
    assert codec.prompt(messages, (), {1: turn}) == (
        codec.open(messages[:1]) + turn.token_ids + codec.extend(messages[2:], ended_turn=False)
    )


def test_a_template_that_drops_all_thinking_shows_the_rest_anew() -> None:
    codec, dice = codec_of("deepseek-r1"), random.Random(0)
    message = said("Four.", reasoning="2 + 2")
    turn = turn_of(codec, "deepseek-r1", message, dice)
    shown = text_of(codec, codec.prompt([user("?"), message, user("!")], (), {1: turn}))
    assert shown == (
        "<|bos|><｜User｜>?<｜Assistant｜>Four.<|im_end|><｜User｜>!<｜Assistant｜><think>\n"
    )


def test_content_that_the_template_drops_beside_a_call_makes_the_turn_new() -> None:
    codec, dice = codec_of("llama3"), random.Random(0)
    message = said("Let me see.", ToolCall(name="bash", arguments={"script": "ls"}, id="call_0"))
    turn = SampledTurn(token_ids=sampled(codec, "Let me see. {}", dice), ended_turn=True)
    answer = Message(role="tool", content="a", tool_call_id="call_0")
    shown = text_of(codec, codec.prompt([user("?"), message, answer], [BASH], {1: turn}))
    assert "Let me see" not in shown
    assert '{"name": "bash", "parameters": {"script": "ls"}}<|eot_id|>' in shown


def test_tools_that_move_with_the_user_are_shown_where_the_template_shows_them() -> None:
    codec, dice = codec_of("mistral"), random.Random(0)
    turn = SampledTurn(token_ids=(*sampled(codec, " ok the", dice), 258), ended_turn=False)
    messages = [user("a"), said("ok the"), user("b")]
    ids = codec.prompt(messages, TOOLS, {1: turn})
    assert text_of(codec, ids).index("[INST] a") < text_of(codec, ids).index("[AVAILABLE_TOOLS]")
    at = ids.index(turn.token_ids[-1])
    assert ids[at + 1 - len(turn.token_ids) : at + 1] == turn.token_ids


def test_whatever_was_sampled_is_spliced_even_if_it_is_no_text() -> None:
    codec = codec_of("chatml")
    odd = (255, 254, codec._tokenizer.convert_tokens_to_ids("<|pad|>"), 10, 10)
    message = codec.read(odd)
    messages = [user("a"), message, user("b")]
    ids = codec.prompt(messages, (), {1: SampledTurn(token_ids=odd, ended_turn=False)})
    assert ids == codec.open(messages[:1]) + odd + codec.extend(messages[2:], ended_turn=False)
    nothing = SampledTurn(token_ids=(codec.turn_end_id,), ended_turn=True)
    empty = [user("a"), said(""), user("b")]
    assert codec.prompt(empty, (), {1: nothing}) == (
        codec.open(empty[:1]) + nothing.token_ids + codec.extend(empty[2:], ended_turn=True)
    )


def test_answers_of_parallel_calls_are_one_message_where_roles_must_alternate() -> None:
    codec = codec_of("gemma")
    calls = [ToolCall(name="finish", id=f"call_{i}") for i in range(2)]
    answers = [Message(role="tool", content=f"done {i}") for i in range(2)]
    shown = text_of(codec, codec.prompt([user("?"), said("", *calls), *answers], TOOLS))
    assert "<start_of_turn>user\ndone 0\ndone 1<end_of_turn>" in shown
    assert shown.count('<tool_call>\n{"name": "finish"') == 2
    extended = text_of(codec, codec.extend(answers, ended_turn=True))
    assert extended.startswith("\n<start_of_turn>user\ndone 0\ndone 1<end_of_turn>")


def test_ids_are_made_short_where_the_template_takes_no_others() -> None:
    codec = codec_of("mistral")
    call = ToolCall(name="finish", id="call_0")
    answer = Message(role="tool", content="x", tool_call_id="call_0")
    shown = text_of(codec, codec.prompt([user("?"), said("", call), answer], TOOLS))
    assert '"id": "' in shown
    assert "call_0" not in shown
    assert "x[/TOOL_RESULTS]" in text_of(codec, codec.extend([replace(answer)], ended_turn=True))
    kept = replace(call, id="abc123XYZ")
    assert "abc123XYZ" in text_of(codec, codec.prompt([user("?"), said("", kept)], TOOLS))


def test_more_calls_than_the_template_takes_are_shown_as_text() -> None:
    codec = codec_of("llama3")
    calls = [ToolCall(name="finish", id=f"call_{i}") for i in range(2)]
    shown = text_of(codec, codec.prompt([user("?"), said("", *calls), user("!")], TOOLS))
    assert shown.count("<tool_call>") == 2


@pytest.mark.parametrize("name", FAMILIES)
def test_special_text_in_any_message_stays_plain(name: str) -> None:
    codec = codec_of(name)
    tokenizer: Any = codec._tokenizer
    specials = {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
    nasty = "".join(t.content for t in tokenizer.added_tokens_decoder.values()) + "\ue0001\ue001"

    def special_ids(text: str) -> list[int]:
        call = ToolCall(name="bash", arguments={"script": text}, id="call_0")
        answer = Message(role="tool", content=text, tool_call_id="call_0")
        system = Message(role="system", content=text)
        messages = [system, user(text), said("", call), answer, said(text), user(text)]
        return [token for token in codec.prompt(messages, TOOLS) if token in specials]

    assert special_ids(nasty) == special_ids("harmless")
