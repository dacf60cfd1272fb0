import json
import shutil
from collections.abc import Callable
from pathlib import Path

from practicum.core.trace import Message, StopReason, ToolCall
from practicum.traces.importers import (
    import_openhands_v0 as openhands_v0,
)
from practicum.traces.importers import (
    import_openhands_v1 as openhands_v1,
)
from practicum.traces.importers.recognise import recognise
from practicum.traces.importers.records import Imported


def test_actions_and_observations_become_calls_and_answers(
    examples: Path, read: Callable[..., list[Imported]]
) -> None:
    (one,) = read(examples / "openhands_v0.json", "openhands-v0")
    trace = one.episode.trace
    assert [len(node.messages) for node in trace.nodes] == [2, 1, 2, 1, 1, 1]
    asked = trace.nodes[1].messages[0]
    assert asked == Message(
        role="assistant",
        content="I look at the file first.",
        tool_calls=(
            ToolCall(name="execute_bash", arguments={"command": "cat app.py"}, id="t1"),
            ToolCall(name="execute_bash", arguments={"command": "python app.py"}, id="t2"),
        ),
    ), "two calls of one answer are one turn"
    seen, failed = trace.nodes[2].messages
    assert (seen.tool_call_id, seen.is_error) == ("t1", False)
    assert (failed.tool_call_id, failed.is_error) == ("t2", True)
    assert trace.nodes[2].duration_s == 1 + 2
    assert trace.nodes[3].messages[0].tool_calls[0].arguments["new_str"] == "print"
    assert (trace.model, trace.stop) == ("openai/qwen2.5-coder-7b", StopReason.FINISHED)
    assert (trace.started_at, trace.duration_s) == (1772442000.0, 11.0)
    assert [tool.name for tool in trace.tools] == ["execute_bash"]
    assert one.episode.outcome is not None
    assert one.episode.outcome.success is None, "the agent's word for it is no evidence"


def test_a_line_of_an_evaluation_brings_its_verdict(examples: Path, tmp_path: Path) -> None:
    events = json.loads((examples / "openhands_v0.json").read_text())
    new = [
        json.loads(file.read_text())
        for file in sorted((examples / "openhands_v1" / "7c1e2a9b" / "events").glob("*"))
    ]
    rows = [
        {"instance_id": "fix-1", "history": events, "test_result": {"resolved": True}},
        {"instance_id": "fix-2", "history": events, "report": {"resolved": False}},
        {"instance_id": "fix-3", "history": new, "error": "RuntimeError: gone"},
    ]
    path = tmp_path / "output.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = recognise(path)
    found = [part.found[0].episode for part in known.read(path, 0)]
    assert known.name == "openhands-v0"
    assert [one.trace.task_id for one in found] == ["fix-1", "fix-2", "fix-3"]
    assert [one.outcome.success for one in found if one.outcome] == [True, False, None]
    assert found[2].trace.stop is StopReason.AGENT_FAILED


def test_an_event_that_is_nothing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"source": "agent", "action": "run", "args": {}}, {"id": 1}]))
    (part,) = openhands_v0.read(path, 0)
    assert part.problem == "event 2 is neither an action nor an observation"


def test_a_folder_of_events_is_one_conversation_with_a_branch_where_it_was_condensed(
    examples: Path, read: Callable[..., list[Imported]]
) -> None:
    (one,) = read(examples / "openhands_v1" / "7c1e2a9b", "openhands-v1")
    trace = one.episode.trace
    assert (trace.id, trace.model) == ("7c1e2a9b", "openai/qwen2.5-coder-7b")
    assert len(trace.turns) == 2
    before, after = (
        [trace.nodes[i].messages[0].content for i in trace.path(leaf)] for leaf in trace.leaves()
    )
    opening = ["You work in a terminal.", "Make notes.txt with the word hello in it."]
    assert before == [*opening, "I write the file.", ""]
    assert after == [*opening, "notes.txt has been written.", "", "Done."]
    first = trace.nodes[trace.turns[0]].messages[0]
    assert first.reasoning == "One command will do."
    assert first.tool_calls[0].arguments == {"command": "echo hello > notes.txt"}


def test_a_conversation_with_a_damaged_event_is_left_out_with_the_reason(
    examples: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(examples / "openhands_v1" / "7c1e2a9b", folder)
    (folder / "events" / "event-00002-e2.json").write_text("{")
    damaged, left_out = openhands_v1.read(folder, 0)
    assert damaged.problem.startswith("event-00002-e2.json: it is not JSON")
    assert left_out.problem == "the conversation is left out: 1 events are unreadable"
    assert list(openhands_v1.read(folder, 1)) == [left_out]
