import json
import pickle
import pickletools
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from practicum.traces.importers import import_toolbox, plain_pickle
from practicum.traces.importers.plain_pickle import BadPickle, load_plain
from practicum.traces.importers.recognise import recognise
from practicum.traces.importers.records import Imported


@dataclass
class AgentCheckpoint:
    """As FlowAgent pickles them: an object of a class that is not here."""

    session_data: dict[str, Any] = field(default_factory=dict)
    timestamp: datetime = datetime(2026, 1, 3, tzinfo=UTC)


class Harmful:
    """Would make a file if a pickle of it were loaded in the ordinary way."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_a_trace_file_is_one_run(examples: Path, read: Callable[..., list[Imported]]) -> None:
    (one,) = read(examples / "toolbox_trace.json", "toolbox")
    trace = one.episode.trace
    roles = [m.role for m in trace.messages()]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    weather = trace.nodes[1].messages[0]
    assert weather.tool_calls[0].arguments == {"city": "Bern"}
    assert weather.reasoning == "The weather tool knows."
    assert [node.duration_s for node in trace.nodes] == [0, 0, 0.25, 0, 0.03, 0]
    assert trace.nodes[4].messages[0].is_error
    assert trace.nodes[4].messages[0].content == "no calendar is set up"
    assert (trace.duration_s, one.episode.score.value) == (1.9, 0.9)
    (label,) = one.labels
    assert (label.value, label.note, label.is_suggestion) == (1.0, "Short and right.", False)


def test_a_label_that_no_person_gave_is_a_suggestion(examples: Path, tmp_path: Path) -> None:
    trace = json.loads((examples / "toolbox_trace.json").read_text())
    path = tmp_path / "t.json"
    path.write_text(json.dumps({**trace, "manual_review": False, "label": False}))
    (part,) = import_toolbox.read(path, 0)
    (label,) = part.found[0].labels
    assert (label.value, label.is_suggestion) == (0.0, True)


def test_exchanges_of_overlapping_checkpoints_are_the_same(
    examples: Path, read: Callable[..., list[Imported]]
) -> None:
    (early,) = read(examples / "toolbox_checkpoint_1.json", "toolbox")
    again, later = read(examples / "toolbox_checkpoint_2.json", "toolbox")
    assert early == again
    assert later.identity != early.identity
    said = [m.content for m in later.episode.trace.messages()]
    assert said[1:] == ["Remind me to call Ada.", "I will.", "When?", "At noon."]
    assert len(later.episode.trace.turns) == 1, "what went before was given"
    assert later.task.instruction == "When?"


def test_an_exchange_whose_past_was_cut_off_is_still_the_same(
    examples: Path, tmp_path: Path
) -> None:
    checkpoint = json.loads((examples / "toolbox_checkpoint_2.json").read_text())
    path = tmp_path / "c.json"
    full = import_toolbox.convert(checkpoint)[1]
    checkpoint["session_data"]["desk"]["history"] = checkpoint["session_data"]["desk"]["history"][
        3:
    ]
    path.write_text(json.dumps(checkpoint))
    (cut,) = import_toolbox.convert(checkpoint)
    assert cut.episode != full.episode
    assert cut.identity == full.identity


def test_a_pickled_checkpoint_is_read_like_the_same_json(examples: Path, tmp_path: Path) -> None:
    checkpoint = json.loads((examples / "toolbox_checkpoint_2.json").read_text())
    path = tmp_path / "agent.pkl"
    path.write_bytes(pickle.dumps(AgentCheckpoint(session_data=checkpoint["session_data"])))
    known = recognise(path)
    assert known.name == "toolbox"
    (part,) = known.read(path, 0)
    del checkpoint["agent_state"]
    assert part.found == import_toolbox.convert(checkpoint)


def test_nothing_in_a_pickle_is_run(tmp_path: Path) -> None:
    target = tmp_path / "made"
    body = pickle.dumps({"session_data": {"x": Harmful(target)}})
    assert load_plain(body)["session_data"]["x"] is not None
    assert not target.exists()
    pickle.loads(body)  # the ordinary way does it, so the test can fail
    assert target.exists()


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_come_out_of_every_protocol(protocol: int) -> None:
    value = {
        "a": [1, 2.5, None, True, "x", (1, 2)],
        "s": {3},
        "t": datetime(2026, 1, 3, tzinfo=UTC),
    }
    assert load_plain(pickle.dumps(value, protocol)) == {
        "a": [1, 2.5, None, True, "x", [1, 2]],
        "s": [3],
        "t": "2026-01-03T00:00:00+00:00",
    }


def test_hostile_pickles_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_pickle, "MAX_VALUES", 10_000)
    monkeypatch.setattr(plain_pickle, "MAX_TEXT", 10_000)
    loop: list[Any] = []
    loop.append(loop)
    wide: list[Any] = ["x"]
    for _ in range(60):
        wide = [wide, wide]
    long = "x" * 2_000
    for value, reason in (
        (loop, "contains itself"),
        (wide, "more values than any"),
        ([long] * 6, "more text than any"),
    ):
        with pytest.raises(BadPickle, match=reason):
            load_plain(pickle.dumps(value))


def read_one(path: Path, body: bytes) -> str:
    path.write_bytes(body)
    (part,) = import_toolbox.read(path, 0)
    return part.problem


def nested_tuples_in_a_set() -> bytes:
    """Its hash takes 2^60 steps."""
    pair: tuple[Any, ...] = ()
    for _ in range(60):
        pair = (pair, pair)
    return b"\x80\x04\x8f(" + pickle.dumps(pair, 4)[2:-1] + b"\x90."


SMALL_BOMBS = {
    "cut off": b"\x80\x04",
    "garbage": b"\x80\x04garbage",
    "a memo of 2^31 places": b"\x80\x02Nr\xfe\xff\xff\x7f.",
    "bytes of 2^62": b"\x80\x04\x8e" + (1 << 62).to_bytes(8, "little") + b".",
    "a frame of 2^62": b"\x80\x04\x95" + (1 << 62).to_bytes(8, "little") + b"N.",
    "a hash that never ends": nested_tuples_in_a_set(),
}


@pytest.mark.parametrize("name", SMALL_BOMBS)
def test_a_few_bytes_take_neither_all_memory_nor_all_time(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_pickle, "SECONDS", 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(SMALL_BOMBS[name]) < 600
    said = read_one(tmp_path / "bad.pkl", SMALL_BOMBS[name])
    assert said.startswith("the pickle cannot be read: ")
    assert "Traceback" not in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


OPCODES = st.sampled_from([op.code.encode("latin1") for op in pickletools.opcodes])
HOSTILE = st.lists(st.one_of(OPCODES, st.binary(max_size=9)), max_size=12).map(b"".join)


@given(body=st.one_of(st.binary(max_size=60), HOSTILE))
def test_any_bytes_are_plain_data_or_one_sentence(body: bytes) -> None:
    body = body.replace(b"r", b"N").replace(b"p", b"N")  # a memo without end is a test of its own
    with suppress(BadPickle, MemoryError):
        json.dumps(load_plain(b"\x80\x04" + body))


def test_a_file_that_is_neither_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"user": 1}')
    (part,) = import_toolbox.read(path, 0)
    assert part.problem.startswith('it has neither "user_query" (a trace) nor "session_data"')
