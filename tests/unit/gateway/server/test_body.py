import json

import pytest

from practicum.gateway.json_body import MOST_NESTING
from practicum.gateway.requests import Refused
from practicum.gateway.server.agent_routes import read_json

JSON = "application/json"


def nested(levels: int) -> bytes:
    return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def test_an_object_is_read_whatever_its_charset_says() -> None:
    assert read_json(b'{"a": [1, {"b": null}]}', "Application/JSON; charset=utf-8") == {
        "a": [1, {"b": None}]
    }
    assert read_json(nested(MOST_NESTING), JSON)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (nested(MOST_NESTING + 1), "deeper"),
        (nested(2000), "deeper"),
        (b"[" * 200_000, "deeper"),
        (b"[" * 2_000_000, "more than 300000 values"),
        (b'{"a": [' + b"1," * 400_000 + b"1]}", "more than 300000 values"),
    ],
    ids=[
        *("none", "half", "list", "nan", "inf", "digits", "utf8", "deep", "deeper", "deepest"),
        *("brackets", "numbers"),
    ],
)
def test_what_is_no_plain_object_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said) as caught:
        read_json(body, JSON)
    assert caught.value.status == 400


def test_half_characters_are_replaced_wherever_they_are() -> None:
    found = read_json(b'{"a": ["x\\ud800", {"b": "\\ud83d\\ude00", "\\ud801": 1}]}', JSON)
    assert found == {"a": ["x\ufffd", {"b": "\U0001f600", "\ufffd": 1}]}
    json.dumps(found, ensure_ascii=False).encode()


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_only_json_says_that_it_is_json(kind: str) -> None:
    with pytest.raises(Refused) as caught:
        read_json(b"{}", kind)
    assert caught.value.status == 415
