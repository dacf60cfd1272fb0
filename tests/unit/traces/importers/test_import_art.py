from collections.abc import Callable
from pathlib import Path

from practicum.traces.importers import import_art
from practicum.traces.importers.records import Imported, Part


def test_groups_choices_and_histories(examples: Path, read: Callable[..., list[Imported]]) -> None:
    won, lost, branched = read(examples / "art.jsonl", "art")
    assert [one.episode.score.value for one in (won, lost, branched)] == [1.0, 0.0, 0.5]
    assert won.episode.trace.task_id == lost.episode.trace.task_id == "s1"
    assert won.episode.outcome is not None
    assert won.episode.outcome.success is True
    assert won.episode.outcome.evidence["metrics"] == {"success": 1, "moves": 1}
    assert lost.episode.outcome is not None
    assert lost.episode.outcome.success is False
    trace = branched.episode.trace
    said = [trace.nodes[turn].messages[0].content for turn in trace.turns]
    assert said == ["right", "Merge early."], "the bare assistant message was given"
    first, second = (trace.path(leaf) for leaf in trace.leaves())
    assert first[0] == second[0] == 0, "both histories begin with the same rules"
    assert [trace.nodes[i].messages[0].content for i in second[1:]] == [
        "What did you learn?",
        "Merge early.",
    ]


def test_a_trajectory_without_messages_is_named(parts_of: Callable[..., list[Part]]) -> None:
    (part,) = parts_of(import_art.read, {"reward": 1.0})
    assert part.problem == 'it has no "messages_and_choices"'
