import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from practicum.traces.importers import import_toolbox
from practicum.traces.importers.import_toolbox import load_plain
from practicum.traces.importers.recognise import recognise
from practicum.traces.importers.records import Imported, Malformed


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
    monkeypatch.setattr(import_toolbox, "MAX_VALUES", 10_000)
    loop: list[Any] = []
    loop.append(loop)
    wide: list[Any] = ["x"]
    for _ in range(60):
        wide = [wide, wide]
    for value, reason in ((loop, "contains itself"), (wide, "more values than any")):
        with pytest.raises(Malformed, match=reason):
            load_plain(pickle.dumps(value))
    for body in (b"\x80\x04", b"\x80\x04garbage", pickle.dumps([1, 2])[:-3]):
        path = tmp_path / "bad.pkl"
        path.write_bytes(body)
        (part,) = import_toolbox.read(path, 0)
        assert part.problem.startswith("the pickle cannot be read")


def test_a_file_that_is_neither_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"user": 1}')
    (part,) = import_toolbox.read(path, 0)
    assert part.problem.startswith('it has neither "user_query" (a trace) nor "session_data"')
