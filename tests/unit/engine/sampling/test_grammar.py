import builtins
import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.unit.engine.reference import END, tiny

from practicum.core.errors import MissingExtra, UserError
from practicum.core.sampling import TokenGrammar
from practicum.engine.sampling.json_grammar import JsonGrammars

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"enum": ["yes", "no"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["answer", "count"],
    "additionalProperties": False,
}


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.fixture(scope="module")
def grammars() -> JsonGrammars:
    return JsonGrammars(tiny().tokenizer)


def accepts(grammar: TokenGrammar, text: str) -> bool:
    """Whether the text can be written token by token and then ended; a token is a byte here."""
    walk = grammar.start()
    for token in text.encode():
        if walk.done or not walk.allowed()[token]:
            return False
        walk.advance(token)
    return walk.done or bool(walk.allowed()[END])


def test_a_schema_is_followed_to_the_letter(grammars: JsonGrammars) -> None:
    grammar = grammars.of(FORM)
    assert accepts(grammar, '{"answer": "yes", "count": 42}')
    assert accepts(grammar, '{\n  "answer":"no",\n  "count":0\n}')
    for wrong in (
        '{"answer": "yes"}',
        '{"answer": "maybe", "count": 1}',
        '{"answer": "yes", "count": 100}',
        '{"answer": "yes", "count": 1, "more": 2}',
        '{"answer": "yes", "count": 1',
        'Sure: {"answer": "yes", "count": 1}',
        '{"answer": "yes", "count": 1} and so on',
        '["yes", 1]',
    ):
        assert not accepts(grammar, wrong), wrong


def test_without_a_schema_any_object_will_do_and_nothing_else(grammars: JsonGrammars) -> None:
    grammar = grammars.of(None)
    for right in ("{}", '{"a": [1, {"b": null}], "c": "\\u00e9 é"}'):
        assert accepts(grammar, right), right
    for wrong in ("[]", "1", '"text"', "{'a': 1}", "{a: 1}", ""):
        assert not accepts(grammar, wrong), wrong


def test_blanks_are_as_people_write_them_and_not_endless(grammars: JsonGrammars) -> None:
    for blank in ("", " ", "\n", "\n\t", "\n" + " " * 16):
        assert accepts(grammars.of(None), f'{{{blank}"a":{blank}1{blank}}}')
    for blank in ("  ", "\t", "\r\n", "\n\n", "\n" + " " * 17):
        assert not accepts(grammars.of(None), f'{{{blank}"a":1}}')


def test_a_value_that_could_go_on_may_end_too(grammars: JsonGrammars) -> None:
    walk = grammars.of({"type": "integer"}).start()
    walk.advance(ord("7"))
    assert not walk.done
    assert set(np.flatnonzero(walk.allowed())) == {*b"0123456789", END}


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_allowed_leads_to_a_value_of_the_schema(
    grammars: JsonGrammars, seed: int
) -> None:
    chance, walk, written = random.Random(seed), grammars.of(FORM).start(), bytearray()
    while not walk.done:
        token = chance.choice(np.flatnonzero(walk.allowed()).tolist())
        walk.advance(token)
        written.append(token)
    value = json.loads(written)
    assert value["answer"] in ("yes", "no")
    assert value["count"] in range(100)
    assert value.keys() == {"answer", "count"}


def test_walks_of_one_grammar_go_their_own_ways(grammars: JsonGrammars) -> None:
    one, other = grammars.of(FORM).start(), grammars.of(FORM).start()
    one.advance(ord("{"))
    assert other.allowed()[ord("{")]
    assert not one.allowed()[ord("{")]


def test_equal_schemas_are_compiled_once_and_the_longest_unused_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("practicum.engine.sampling.json_grammar.COMPILED_BYTES", 900_000)
    mine = JsonGrammars(tiny().tokenizer)
    kept = [mine.of({"const": number}) for number in range(4)]  # 0.2 MB each
    assert mine.of({"const": 0}) is kept[0]
    mine.of({"const": 4})
    assert mine.of({"const": 0}) is kept[0]
    assert mine.of({"const": 1}) is not kept[1]


def test_compiled_schemas_are_bounded_by_their_size_and_failed_ones_do_not_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("practicum.engine.sampling.json_grammar.COMPILED_BYTES", 20_000_000)
    mine = JsonGrammars(tiny().tokenizer)
    for number in range(12):
        mine.of({"const": f"{number} {'x' * 10_000}"})
        assert mine._compiled.bytes <= 20_000_000
    before = mine._compiled.bytes
    for _ in range(3):
        with pytest.raises(UserError, match="cannot be enforced"):
            mine.of({"not": {"const": "x" * 10_000}})
    assert mine._compiled.bytes == before
    assert not mine._under_way
    with pytest.raises(UserError, match="262144 can be enforced"):
        mine.of({"const": "x" * 300_000})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "strnig"}, "strnig"),
        ({"not": {"type": "string"}}, "not"),
        ({"$ref": "http://example.com/schema"}, "example.com"),
        ({"type": "string", "pattern": "(?=a)"}, "look-ahead"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "incompatible"),
        ({"const": object()}, "serializable"),
        ({"$ref": "#"}, "no value has this form"),
        (nested(200), "recursion limit"),
        (nested(5000), "recursion"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_schema_that_cannot_be_enforced_is_refused_in_a_sentence(
    grammars: JsonGrammars, schema: dict[str, Any], why: str
) -> None:
    with pytest.raises(
        UserError, match=r"the JSON schema cannot be enforced: .*; leave"
    ) as refused:
        grammars.of(schema)
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_token_that_was_not_allowed_is_refused(grammars: JsonGrammars) -> None:
    walk = grammars.of(FORM).start()
    with pytest.raises(UserError, match="cannot be followed any further") as refused:
        walk.advance(ord("x"))
    assert "\n" not in str(refused.value)


def test_a_tokenizer_that_cannot_be_read_is_told_so() -> None:
    with pytest.raises(UserError, match="fast tokenizer"):
        JsonGrammars(object()).of(None)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("llguidance"):
            raise ImportError(name)
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"practicum\[gateway\]"):
        JsonGrammars(tiny().tokenizer).of(None)


def test_a_value_that_would_end_the_turn_is_refused(grammars: JsonGrammars) -> None:
    end = tiny().tokenizer.decode([END])
    with pytest.raises(UserError, match="token that ends this model's turns"):
        accepts(grammars.of({"const": f"a{end}b"}), f'"a{end}b"')


class CountedGrammars(JsonGrammars):
    """Counts compilations; one of them waits until it may go on."""

    def __init__(self) -> None:
        super().__init__(tiny().tokenizer)
        self.times = 0
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def _compile(self, grammar: str) -> Any:
        self.times += 1
        if "slow" in grammar:
            self.begun.set()
            assert self.may_go_on.wait(240)
        return super()._compile(grammar)


def test_other_schemas_do_not_wait_for_one_that_compiles_and_the_same_one_does() -> None:
    mine = CountedGrammars()
    known = mine.of({"const": "known"})
    with ThreadPoolExecutor(4) as threads:
        slow = [threads.submit(mine.of, {"const": "slow"}) for _ in range(3)]
        assert mine.begun.wait(240)
        others = threads.submit(lambda: (mine.of({"const": "known"}), mine.of({"const": "new"})))
        try:
            assert others.result(60)[0] is known
            assert not any(one.done() for one in slow)
        finally:
            mine.may_go_on.set()
    assert len({id(one.result()) for one in slow}) == 1
    assert mine.times == 3


def test_a_schema_that_was_refused_is_tried_again() -> None:
    mine = CountedGrammars()
    for _ in range(2):
        with pytest.raises(UserError, match="strnig"):
            mine.of({"type": "strnig"})
    assert mine.times == 2
