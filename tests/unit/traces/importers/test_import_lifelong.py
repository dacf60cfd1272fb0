import json
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.trace import StopReason
from practicum.traces.importers import import_lifelong
from practicum.traces.importers.records import Imported


def test_sessions_become_episodes(examples: Path, read: Callable[..., list[Imported]]) -> None:
    done, malformed, cut = read(examples / "lifelong_runs.json", "lifelong")
    trace = done.episode.trace
    assert (trace.env, trace.task_id, done.task.instruction) == (
        "os_interaction",
        "0",
        "Create the group staff2.",
    )
    said = [trace.nodes[turn].messages[0].content for turn in trace.turns]
    assert said == ["Act: bash\n```bash\ngroupadd staff2\n```", "Act: finish"], "OK. was given"
    outcomes = [one.episode.outcome for one in (done, malformed, cut)]
    assert [o.success if o else None for o in outcomes] == [True, False, False]
    assert malformed.episode.trace.stop is StopReason.FINISHED
    assert cut.episode.trace.stop is StopReason.MAX_TURNS
    assert not cut.episode.trace.is_masked


@pytest.mark.parametrize(
    ("status", "stop"),
    [
        ("task_environment_error", StopReason.ENVIRONMENT_FAILED),
        ("agent_out_of_memory", StopReason.AGENT_FAILED),
        ("agent_context_limit", StopReason.CONTEXT_FULL),
        ("running", StopReason.CANCELLED),
    ],
)
def test_what_was_not_the_agents_doing_is_masked(
    status: str, stop: StopReason, examples: Path, tmp_path: Path
) -> None:
    sessions = json.loads((examples / "lifelong_runs.json").read_text())
    path = tmp_path / "runs.json"
    path.write_text(json.dumps([{**sessions[0], "sample_status": status}]))
    (part,) = import_lifelong.read(path, 0)
    trace = part.found[0].episode.trace
    assert trace.stop is stop
    assert (trace.failure is not None) == (stop in import_lifelong.FAILED)


def test_an_unknown_status_is_named_with_its_line(examples: Path, tmp_path: Path) -> None:
    sessions = json.loads((examples / "lifelong_runs.json").read_text())
    path = tmp_path / "runs.json"
    sessions[1]["sample_status"] = "asleep"
    sessions[2]["chat_history"]["value"][0]["role"] = "narrator"
    path.write_text("[" + ",\n".join(map(json.dumps, sessions)) + "]")
    good, asleep, narrated = import_lifelong.read(path, 0)
    assert good.found
    assert (asleep.line, "sample_status is 'asleep'" in asleep.problem) == (2, True)
    assert (narrated.line, "has the role 'narrator'" in narrated.problem) == (3, True)
    assert list(import_lifelong.read(path, 2)) == [narrated]
