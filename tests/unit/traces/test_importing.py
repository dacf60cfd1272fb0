import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from practicum.assemble.wired_rewards import REWARDS
from practicum.core.config.reward_config import RewardConfig
from practicum.core.errors import ConfigError, UserError
from practicum.core.sample import Episode
from practicum.store.trace_export import ExportKind, export_traces
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.importers.recognise import files_in
from practicum.traces.importing import (
    ImportReport,
    Problem,
    import_traces,
    score_traces,
)

EXAMPLES = Path(__file__).parents[3] / "examples" / "traces"
FILES = sorted(files_in(EXAMPLES))
KEY = "ghp_" + "aB3dE5fG7h" * 4


class Watcher:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []
        self.offsets: list[int] = []
        self.episodes = 0

    def file_started(self, file: Path, format: str, size: int) -> None:
        self.started.append((file.name, format))

    def read(self, offset: int, episodes: int) -> None:
        self.offsets.append(offset)

    def scored(self, episode: Episode) -> None:
        self.episodes += 1


def bring(store: Path, *paths: Path, **options: Any) -> ImportReport:
    with SqliteTraceStore(store) as opened:
        return import_traces(paths, opened, Watcher(), **options)


def contents(store: Path) -> list[Any]:
    """Everything that is in a store but the times of storing."""
    with SqliteTraceStore(store, read_only=True) as opened:
        return [
            (
                episode,
                opened.task(episode.trace.env, episode.trace.task_id),
                list(opened.labels(episode.trace.id)),
            )
            for episode in opened.query()
        ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "hf"])
def test_an_example_goes_out_and_comes_back_the_same(
    path: Path, kind: ExportKind, tmp_path: Path
) -> None:
    if kind in ("parquet", "hf"):
        pytest.importorskip("pyarrow")
    first, second = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    there = bring(first, path)
    assert there.refused == 0
    assert there.kept > 0
    out = tmp_path / ("out" if kind == "hf" else f"out.{kind}")
    with SqliteTraceStore(first, read_only=True) as store:
        assert export_traces(store, out, kind) == there.kept
    back = bring(second, out / "data" if kind == "hf" else out)
    assert (back.kept, back.doubled, back.refused) == (there.kept, 0, 0)
    assert contents(second) == contents(first)
    again = bring(second, path)
    assert (again.kept, again.doubled) == (0, there.kept)


def test_a_folder_is_imported_with_every_format_in_it(tmp_path: Path) -> None:
    store = tmp_path / "a.sqlite"
    watcher = Watcher()
    with SqliteTraceStore(store) as opened:
        report = import_traces([EXAMPLES], opened, watcher)
    assert (report.kept, report.doubled, report.refused) == (18, 1, 0)
    assert ("otel.jsonl", "otel") in watcher.started
    again = bring(store, EXAMPLES)
    assert (again.kept, again.doubled) == (0, 19)


def test_overlapping_checkpoints_give_each_exchange_once(tmp_path: Path) -> None:
    for order in ((1, 2), (2, 1)):
        store = tmp_path / f"{order}.sqlite"
        for number in order:
            bring(store, EXAMPLES / f"toolbox_checkpoint_{number}.json")
        asked = [task.instruction for _, task, _ in contents(store)]
        assert sorted(asked) == ["Remind me to call Ada.", "When?"]


def chat(number: int, text: str = "") -> str:
    said = [
        {"role": "user", "content": f"question {number}"},
        {"role": "assistant", "content": text or f"answer {number}"},
    ]
    return json.dumps({"messages": said, "label": number % 2})


def test_bad_lines_are_named_and_good_ones_kept(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join([chat(1), "{oops", chat(2), '{"messages": []}', chat(3)]))
    for _ in range(2):  # the second time the reasons are said again, and nothing is doubled
        report = bring(tmp_path / "a.sqlite", path)
        assert report.refused == 2
        assert [(p.line, p.file) for p in report.problems] == [(2, str(path)), (4, str(path))]
        assert str(report.problems[1]) == f"{path}, line 4: no turn of an assistant is in it"
    assert len(contents(tmp_path / "a.sqlite")) == 3


def test_a_file_nobody_knows_is_refused_alone_and_passed_over_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.json").write_text('{"colour": 1}')
    shutil.copy(EXAMPLES / "art.jsonl", folder / "b.jsonl")
    report = bring(tmp_path / "s.sqlite", folder)
    assert (report.kept, report.refused) == (3, 1)
    assert "is not recognised" in report.problems[0].reason
    with pytest.raises(UserError, match="is not recognised"):
        bring(tmp_path / "s.sqlite", folder / "a.json")


def test_a_format_that_is_named_is_used(tmp_path: Path) -> None:
    report = bring(tmp_path / "s.sqlite", EXAMPLES / "art.jsonl", format="openai-chat")
    assert (report.kept, report.refused) == (0, 2)
    assert report.problems[0] == Problem(
        file=str(EXAMPLES / "art.jsonl"), line=1, reason='it has no "messages"'
    )


def test_secrets_are_taken_out_on_the_way_in_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    path.write_text(chat(1, f"the key is {KEY}"))
    report = bring(tmp_path / "clean.sqlite", path)
    assert report.redacted == {"github-token": 1}
    assert KEY not in repr(contents(tmp_path / "clean.sqlite"))
    assert KEY.encode() not in (tmp_path / "clean.sqlite").read_bytes()
    report = bring(tmp_path / "raw.sqlite", path, redact=False)
    assert report.redacted == {}
    assert KEY in repr(contents(tmp_path / "raw.sqlite"))


def test_an_environment_may_be_given(tmp_path: Path) -> None:
    bring(tmp_path / "s.sqlite", EXAMPLES / "art.jsonl", env="2048")
    assert {(e.trace.env, task.env) for e, task, _ in contents(tmp_path / "s.sqlite")} == {
        ("2048", "2048")
    }


class Stop(Exception):
    """Stands for whatever ends an import in the middle."""


def test_an_import_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("practicum.traces.importing.BATCH_PARTS", 4)
    path = tmp_path / "chats.jsonl"
    lines = [chat(n) for n in range(30)]
    lines[5] = "{oops"
    path.write_text("\n".join(lines))

    class Interrupts(Watcher):
        def read(self, offset: int, episodes: int) -> None:
            super().read(offset, episodes)
            if len(self.offsets) == 3:
                raise Stop

    with SqliteTraceStore(tmp_path / "a.sqlite") as store:
        with pytest.raises(Stop):
            import_traces([path], store, Interrupts())
        assert store.count() == 11
        report = import_traces([path], store, Watcher())
    (file,) = report.files
    assert (file.resumed_at, file.kept, file.doubled, file.refused) == (12, 18, 0, 1)
    bring(tmp_path / "b.sqlite", path)
    assert contents(tmp_path / "a.sqlite") == contents(tmp_path / "b.sqlite")


async def test_stored_episodes_are_scored_again(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    bring(store, EXAMPLES / "lifelong_runs.json", EXAMPLES / "toolbox_trace.json")
    watcher = Watcher()
    with SqliteTraceStore(store) as opened:
        reward = REWARDS.for_traces(RewardConfig(name="os"))
        report = await score_traces(opened, reward, watcher, where="source = lifelong")
        assert [e.score.value for e in opened.query()] == [1.0, -0.5, -0.5, 0.9]
        assert opened.count_where("score = -0.5") == 2
    assert (report.scored, report.unscored, watcher.episodes) == (3, 0, 3)
    assert report.mean == pytest.approx(0.0)


async def test_components_score_stored_episodes_too(tmp_path: Path) -> None:
    store = tmp_path / "s.sqlite"
    bring(store, EXAMPLES / "toolbox_trace.json")
    config = RewardConfig.model_validate({"components": [{"name": "tool_success"}]})
    with SqliteTraceStore(store) as opened:
        report = await score_traces(opened, REWARDS.for_traces(config), Watcher())
        (episode,) = opened.query()
    assert report.means == {"tool_success": 0.5}, "one of two calls failed"
    assert episode.score.value == 0.5


def test_a_judge_is_refused_for_single_episodes() -> None:
    config = RewardConfig.model_validate(
        {"components": [{"name": "judge", "endpoint": "http://x", "model": "m"}]}
    )
    with pytest.raises(ConfigError, match="'judge' compares episodes of a group"):
        REWARDS.for_traces(config)
