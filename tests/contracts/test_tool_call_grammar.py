"""Turns that must call a tool: every family of templates, held to it by a real grammar."""

import json
import random
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.unit.engine.chat.families import ALL_FAMILIES, codec_of

from practicum.core.errors import UserError
from practicum.core.sampling import TokenGrammar
from practicum.core.trace import Message, ToolCall, ToolSpec
from practicum.engine.chat.template_codec import TemplateCodec
from practicum.engine.sampling.completions import GrammarMasks
from practicum.engine.sampling.json_grammar import JsonGrammars

PLACES = ["the sea", 'a "mark" {\n']
LOOK = ToolSpec(
    name="look",
    parameters={
        "type": "object",
        "properties": {"at": {"enum": PLACES}},
        "required": ["at"],
        "additionalProperties": False,
    },
)
COUNT = ToolSpec(
    name="count_to",
    parameters={
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["n"],
        "additionalProperties": False,
    },
)
STOP = ToolSpec(name="stop")
TOOLS = (LOOK, COUNT, STOP)

CALLS = (
    ToolCall(name="look", arguments={"at": "the sea"}),
    ToolCall(name="stop", arguments={}),
    ToolCall(name="count_to", arguments={"n": 7}),
)

OWN_FORM = ("qwen", "keeps", "smollm3", "llama3", "mistral-args", "deepseek-v3", "chatml", "plain")
"""How the names of families begin whose models write calls as JSON in a form of their own."""
OTHER_FORM = ("qwen3-coder", "published-qwen3_5_think")
"""Those among them whose own form has no JSON."""

MOST_TOKENS = 2000


class Held:
    """A family's codec, and turns sampled by chance under a grammar."""

    def __init__(self, family: str) -> None:
        self.family = ALL_FAMILIES[family]
        self.codec: TemplateCodec = codec_of(family)
        tokenizer: Any = self.codec._tokenizer
        self.size = len(tokenizer)
        self.grammars = JsonGrammars(tokenizer)
        self._masks = GrammarMasks(self.codec.turn_end_id, self.codec.end_of_turn_ids)

    def grammar(self, tools: Sequence[ToolSpec] = TOOLS, *, many: bool = True) -> TokenGrammar:
        form = self.codec.calls_form(tools, many=many)
        return self.grammars.calls(form, self.codec.thought_form)

    def encode(self, text: str) -> tuple[int, ...]:
        return self.codec._renderer.encode(text)

    def sample(self, grammar: TokenGrammar, dice: random.Random, begun: str = "") -> list[int]:
        """A turn that begins with a text and goes on by chance to its end."""
        walk, tokens = grammar.start(), list(self.encode(begun))
        for token in tokens:
            assert self._masks.of(walk, self.size)[token]
            walk.advance(token)
        while len(tokens) < MOST_TOKENS:
            allowed = np.flatnonzero(self._masks.of(walk, self.size))
            tokens.append(int(dice.choice(allowed)))
            if tokens[-1] == self.codec.turn_end_id:
                return tokens
            walk.advance(tokens[-1])
        raise AssertionError("the turn has no end")

    def accepts(self, grammar: TokenGrammar, text: str) -> bool:
        walk = grammar.start()
        for token in (*self.encode(text), self.codec.turn_end_id):
            if not self._masks.of(walk, self.size)[token]:
                return False
            if token != self.codec.turn_end_id:
                walk.advance(token)
        return True

    def thought(self, words: str) -> str:
        """Thinking as this family's models write it; nothing where they do not think."""
        form = self.codec.thought_form
        if form is None:
            return ""
        tags = self.codec._traits.thinking
        assert tags is not None
        return tags.around(words).removeprefix(self.codec._traits.opened_thinking)


@pytest.fixture(scope="module", params=ALL_FAMILIES)
def held(request: pytest.FixtureRequest) -> Held:
    return Held(request.param)


def fits(call: ToolCall) -> bool:
    arguments = dict(call.arguments)
    if call.name == "stop":
        return not arguments
    if call.name == "look":
        return list(arguments) == ["at"] and arguments["at"] in PLACES
    return list(arguments) == ["n"] and arguments["n"] in range(100)


@pytest.mark.parametrize("many", [False, True])
def test_every_turn_sampled_under_it_is_read_as_calls_and_nothing_else(
    held: Held, many: bool
) -> None:
    grammar, dice = held.grammar(many=many), random.Random(0)
    counts = set()
    for _ in range(12):
        message = held.codec.read(held.sample(grammar, dice, held.thought("well?")), TOOLS)
        assert not message.content
        assert message.tool_calls
        assert all(map(fits, message.tool_calls))
        assert message.reasoning == ("well?" if held.codec.thought_form else "")
        counts.add(len(message.tool_calls))
    joins = many and held.codec.calls_form(TOOLS, many=True).many
    assert (len(counts) > 1) == joins


def test_a_named_tool_is_the_one_that_is_called(held: Held) -> None:
    grammar, dice = held.grammar([COUNT], many=False), random.Random(1)
    for _ in range(4):
        turn = held.sample(grammar, dice, held.thought("so be it"))
        [call] = held.codec.read(turn, TOOLS).tool_calls
        assert call.name == "count_to"


def test_nothing_but_calls_is_allowed(held: Held) -> None:
    grammar = held.grammar()
    for words in ("Let me see.", '{"name": "fly", "arguments": {}}', ""):
        assert not held.accepts(grammar, held.thought("hm") + words)
        assert not held.accepts(grammar, held.family.text(Message(role="assistant", content=words)))


@pytest.mark.parametrize(
    "family",
    [
        name
        for name in ALL_FAMILIES
        if name.removeprefix("published-").startswith(OWN_FORM) and name not in OTHER_FORM
    ],
)
def test_it_is_the_form_that_models_of_the_family_write(family: str) -> None:
    held = Held(family)
    grammar = held.grammar()
    joins = held.codec.calls_form(TOOLS, many=True).many
    for count in (1, 2, 3) if joins else (1,):
        calls = tuple(CALLS[:count])
        turn = Message(role="assistant", content="", tool_calls=calls, reasoning="hm")
        assert held.accepts(grammar, held.family.text(turn))
        if not held.family.opens_thinking:
            plain = held.family.text(Message(role="assistant", content="", tool_calls=calls))
            assert held.accepts(grammar, plain)
        assert held.accepts(held.grammar(many=False), held.family.text(turn)) == (count == 1)


def test_json_may_be_thought_about_first(held: Held) -> None:
    schema = LOOK.parameters
    grammar, dice = held.grammars.of(schema, held.codec.thought_form), random.Random(2)
    for _ in range(4):
        message = held.codec.read(held.sample(grammar, dice, held.thought('{"at": 1} ?')))
        assert json.loads(message.content)["at"] in PLACES
        assert message.reasoning == ('{"at": 1} ?' if held.codec.thought_form else "")
    opens = held.codec._traits.opens_thinking
    assert held.accepts(grammar, '{"at": "the sea"}') != opens


REPORT = {
    "type": "object",
    "properties": {
        "name": {"enum": ["look", "<tool_call>", "[TOOL_CALLS]"]},
        "found": {"$ref": "#/$defs/place"},
    },
    "required": ["name", "found"],
    "additionalProperties": False,
    "$defs": {"place": {"enum": PLACES}},
}
"""An answer's form, whose JSON looks like calls and is none."""


def test_a_turn_with_tools_and_a_form_is_calls_or_the_json(held: Held) -> None:
    form, dice = held.codec.calls_form(TOOLS, many=True), random.Random(4)
    grammar = held.grammars.of(REPORT, held.codec.thought_form, form)
    called = answered = 0
    for _ in range(16):
        reader = held.codec.reader(TOOLS, may_be_json=True)
        reader.feed(held.sample(grammar, dice, held.thought("hm")))
        reader.end()
        message = reader.message()
        if message.tool_calls:
            assert all(map(fits, message.tool_calls))
            assert not message.content
            called += 1
        else:
            assert set(json.loads(message.content)) == {"name", "found"}
            answered += 1
    assert called
    assert answered
    assert not held.accepts(grammar, held.thought("hm") + "Let me see.")


def test_arguments_that_cannot_be_enforced_are_left_to_the_model_beside_a_form() -> None:
    held = Held("chatml")
    odd = ToolSpec(name="odd", parameters={"type": "object", "not": {"required": ["a"]}})
    with pytest.raises(UserError, match="cannot be enforced"):
        held.grammar([odd])
    form = held.codec.calls_form([odd])
    grammar = held.grammars.of(REPORT, held.codec.thought_form, form)
    written = '<tool_call>\n{"name": "odd", "arguments": {"b": 1}}\n</tool_call>'
    assert held.accepts(grammar, written)


@pytest.mark.parametrize("family", ["qwen3-tokens", "smollm3", "llama3", "mistral-args"])
def test_names_are_written_as_the_template_writes_them_or_refused(family: str) -> None:
    held = Held(family)
    named = ToolSpec(name="a.b-c_1", parameters=dict(COUNT.parameters))
    turn = held.sample(held.grammar([named], many=False), random.Random(3))
    assert [call.name for call in held.codec.read(turn, [named]).tool_calls] == ["a.b-c_1"]
    for name in ('say "so"', "<|im_end|>"):
        with pytest.raises(UserError, match=f"named {re.escape(repr(name))}; name it with letters"):
            held.grammar([ToolSpec(name=name)])


def test_arguments_are_those_that_a_tool_lists() -> None:
    held = Held("chatml")
    listed = {"type": "object", "properties": {"n": {"type": "integer"}}}
    more = '<tool_call>\n{"name": "count_to", "arguments": {"n": 1, "m": 2}}\n</tool_call>'
    for parameters, allows in ((listed, False), ({**listed, "additionalProperties": True}, True)):
        tool = ToolSpec(name="count_to", parameters=parameters)
        assert held.accepts(held.grammar([tool]), more) == allows


def test_thinking_whose_end_is_half_a_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held("qwen3")
    monkeypatch.setattr(held.codec._renderer, "spell", lambda text: (7, text))
    with pytest.raises(UserError, match="neither one token nor plain text"):
        _ = held.codec.thought_form
