"""Importers on files that nobody wrote on purpose: each is imported or refused in a sentence.

`pytest --hypothesis-profile=many` tries 10,000 files for each test.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.core.errors import UserError
from practicum.store.episode_codec import decode_episode, encode_hashed_episode
from practicum.traces.importers.recognise import FORMATS, recognise
from practicum.traces.redaction import Redactor

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"
WHOLE = [
    "openhands_v0.json",
    "lifelong_runs.json",
    "toolbox_trace.json",
    "toolbox_checkpoint_1.json",
]
LINES = ["art.jsonl", "openai_chat.jsonl", "otel.jsonl", "practicum.jsonl"]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from([10**30, -1, 1e308, "1e999", "2026-13-45T99:99", "\ud800", "a" * 5000, "0"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


@cache
def example(name: str) -> Any:
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    return json.loads(text if name in WHOLE else text.splitlines()[0])


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside a value."""
    found = [at]
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, one in inner:
        found += places(one, (*at, key))
    return found


def with_change(value: Any, at: tuple[Any, ...], change: Any) -> Any:
    if not at:
        return change
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[at[0]] = with_change(value[at[0]], at[1:], change)
    return copied


@st.composite
def changed_examples(draw: st.DrawFn) -> tuple[str, str]:
    """The format's name and the text of an example in which some values are others."""
    name = draw(st.sampled_from(WHOLE + LINES))
    value = example(name)
    for _ in range(draw(st.integers(1, 3))):
        value = with_change(value, draw(st.sampled_from(places(value))), draw(VALUES))
    text = json.dumps(value)
    cut = draw(st.one_of(st.just(len(text)), st.integers(0, len(text))))
    return name, text[:cut] + draw(st.sampled_from(["", "\n", "\n{", "\n[1]\n", "\x00"]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def import_one(path: Path, format: str = "") -> None:
    """Read, redact and encode all episodes of a file, as an import does; `UserError` is fine."""
    try:
        known = FORMATS[format] if format else recognise(path)
        parts = list(known.read(path, 0))
    except UserError:
        return
    for part in parts:
        assert part.found or part.problem is not None
        for one in part.found:
            redactor = Redactor()
            clean = redactor.episode(one.episode)
            redactor.task(one.task)
            [redactor.label(label) for label in one.labels]
            body, _ = encode_hashed_episode(clean, one.identity)
            assert decode_episode(body).trace.id == clean.trace.id


@given(example=changed_examples())
def test_a_changed_file_is_imported_or_refused(folder: Path, example: tuple[str, str]) -> None:
    name, text = example
    path = folder / name
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    import_one(path)


@given(content=st.binary(max_size=300), format=st.sampled_from(["", *sorted(FORMATS)]))
def test_any_bytes_are_imported_or_refused(folder: Path, content: bytes, format: str) -> None:
    if content.startswith(b"\x80"):
        return  # a pickle: a process each, see test_toolbox
    path = folder / "any.json"
    path.write_bytes(content)
    import_one(path, "" if format == "openhands-v1" else format)
