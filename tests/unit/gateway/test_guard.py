import base64

import pytest

from practicum.gateway.http_guard import bearer_of, has_key


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic " + base64.b64encode(b"key:abc").decode(), "abc"),
        ("Basic ???", None),
        ("Digest abc", None),
        ("abc", None),
        ("", None),
    ],
)
def test_what_a_header_shows(header: str, shown: str | None) -> None:
    assert bearer_of(header) == shown


def test_a_key_is_compared_whatever_its_characters() -> None:
    assert has_key("Bearer abc", "abc")
    for header in ("Bearer abcd", "Bearer ab", "Bearer \xe9\u20ac", ""):
        assert not has_key(header, "abc")
