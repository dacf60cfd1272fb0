"""What a stage learns from: where it comes from, what it is called, and that it is kept."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.traces.datasets.made import make_episode

from practicum.assemble.datasets import build_dataset
from practicum.assemble.wired_rewards import REWARDS
from practicum.core.config.parse_config import build_config
from practicum.core.errors import UserError
from practicum.core.sample import Episode
from practicum.core.score import Label
from practicum.engine.models.loading import load_model
from practicum.store.trace_store import SqliteTraceStore
from practicum.traces.datasets.build import BuildOptions
from practicum.traces.datasets.dataset_writing import write_dataset
from practicum.traces.datasets.sources import DatasetSource
from practicum.training.algorithms.build_algorithms import build_method
from practicum.training.stage_data import StageData, StageExamples, _score_traces, load_stage

TINY = load_model("tiny")


def stage_of(
    tmp_path: Path, method: str, warnings: list[str] | None = None, context: int = 2048, **data: Any
) -> StageData:
    view = build_config({"model": "tiny", "algorithm": method, "data": data, "steps": 1})
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    said = warnings if warnings is not None else []
    return StageData(
        view=view,
        number=1,
        method=build_method(view.algorithm),
        run=folder,
        codec=TINY.codec,
        longest=context,
        build=build_dataset,
        reward_for=REWARDS.for_traces,
        warn=said.append,
    )


def load(stage: StageData) -> StageExamples:
    return asyncio.run(load_stage(stage))


def store_at(path: Path, episodes: Iterable[Episode]) -> Path:
    with SqliteTraceStore(path) as store:
        for episode in episodes:
            store.add(episode, attempt=1, step=0, purpose="import")
    return path


def verdicts(rows: StageExamples) -> dict[str, bool | None]:
    return {row.id: row.label for unit in rows.train for row in unit}


def text(rows: StageExamples, place: int = 0) -> str:
    return str(TINY.tokenizer.decode(rows.train[place][0].sample.token_ids.tolist()))


def many(count: int = 8) -> list[Episode]:
    return [
        make_episode(f"e{n}", f"answer {n}", task=f"t{n}", success=n % 4 == 0) for n in range(count)
    ]


def test_outcomes_decide_and_classes_weigh_the_same(tmp_path: Path) -> None:
    source = store_at(tmp_path / "a.sqlite", many())
    rows = load(stage_of(tmp_path, "kto", source=str(source)))
    assert verdicts(rows) == {f"e{n}": n % 4 == 0 for n in range(8)}
    weights = {row.label: row.weight for unit in rows.train for row in unit}
    assert weights == {True: pytest.approx(8 / 4), False: pytest.approx(8 / 12)}
    assert "answer 0" in text(rows)


def test_people_decide_before_outcomes_and_a_reward_of_the_stage_between(tmp_path: Path) -> None:
    source = store_at(tmp_path / "a.sqlite", many(4))
    label = Label(episode_id="e1", value=1.0, author="ada", created_at=1.0)
    with SqliteTraceStore(source) as store:
        store.add_labels([label])
    rows = load(stage_of(tmp_path, "kto", source=str(source)))
    assert verdicts(rows) == {"e0": True, "e1": True, "e2": False, "e3": False}
    (tmp_path / "again").mkdir()
    length = {"components": [{"name": "outcome", "correct": 0.0, "incorrect": 1.0}]}
    turned = stage_of(tmp_path / "again", "kto", source=str(source), reward=length)
    assert verdicts(load(turned)) == {"e0": False, "e1": True, "e2": True, "e3": True}
    with SqliteTraceStore(source, read_only=True) as store:
        assert {episode.score.value for episode in store.query("")} == {1.0}


def test_a_reward_of_the_stage_is_not_asked_about_evaluations(tmp_path: Path) -> None:
    source = store_at(tmp_path / "a.sqlite", many(4))
    with SqliteTraceStore(source) as store:
        heldout = make_episode("heldout", "answer", success=True)
        store.add(heldout, attempt=1, step=2, purpose="eval")
    stage = stage_of(tmp_path, "kto", source=str(source), reward="os", where="success")
    assert asyncio.run(_score_traces(stage)).keys() == {"e0"}
    assert verdicts(load(stage)).keys() == {"e0"}


def test_preferences_are_paired_by_task(tmp_path: Path) -> None:
    episodes = [
        make_episode(f"{task}{n}", f"answer {n}", task=task, score=float(n))
        for task in "ab"
        for n in range(2)
    ]
    source = store_at(tmp_path / "a.sqlite", episodes)
    rows = load(stage_of(tmp_path, "dpo", source=str(source)))
    assert [[row.id for row in unit] for unit in rows.train] == [["a1", "a0"], ["b1", "b0"]]


def test_rows_are_read_again_and_not_made_again(tmp_path: Path) -> None:
    source = store_at(tmp_path / "a.sqlite", many())
    stage = stage_of(tmp_path, "kto", source=str(source), heldout=0.3)
    first = load(stage)
    assert first.heldout
    source.unlink()
    second = load(stage)
    for one, other in zip(first, second, strict=True):
        assert [[r.id for r in unit] for unit in one] == [[r.id for r in unit] for unit in other]
    (tmp_path / "run" / "data" / "stage_1" / "rows.jsonl").write_text("{")
    with pytest.raises(UserError, match=r"rows\.jsonl cannot be read .* or start another run"):
        load(stage)


def test_a_dataset_is_taken_as_it_was_built(tmp_path: Path) -> None:
    source = DatasetSource(name=str(store_at(tmp_path / "a.sqlite", many())))
    options = BuildOptions(kind="kto", heldout=0.3)
    built = asyncio.run(build_dataset(source, options))
    write_dataset(built, tmp_path / "set", form="jsonl", question={})
    rows = load(stage_of(tmp_path, "kto", source=str(tmp_path / "set")))
    expected = [(e.id, e.weight) for unit in built.train for e in unit]
    assert [(row.id, row.weight) for unit in rows.train for row in unit] == expected
    assert [u[0].id for u in rows.heldout] == [u[0].id for u in built.heldout]


@pytest.mark.parametrize("method", ["sft", "kto", "dpo"])
def test_a_built_set_of_each_kind_can_be_learned_from(method: Any, tmp_path: Path) -> None:
    episodes = [
        make_episode(f"{task}{n}", f"answer {n}", task=task, success=n == 1, score=float(n))
        for task in "abc"
        for n in range(2)
    ]
    source = DatasetSource(name=str(store_at(tmp_path / "a.sqlite", episodes)))
    built = asyncio.run(build_dataset(source, BuildOptions(kind=method)))
    write_dataset(built, tmp_path / "set", form="jsonl", question={})
    rows = load(stage_of(tmp_path, method, source=str(tmp_path / "set")))
    assert len(rows.train) == len(built.train) == {"sft": 3, "kto": 6, "dpo": 3}[method]


def test_rows_that_others_wrote_are_taken_with_trl_s_columns(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    lines = [
        {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]},
        {"prompt": "a", "completion": "b", "label": False},
        {"prompt": "c", "completion": "d", "label": True},
    ]
    file.write_text("\n".join(map(json.dumps, lines)))
    rows = load(stage_of(tmp_path, "sft", source=str(file)))
    assert [unit[0].id for unit in rows.train] == ["rows-1", "rows-3"]
    (tmp_path / "k").mkdir()
    rows = load(stage_of(tmp_path / "k", "kto", source=str(file)))
    assert verdicts(rows) == {"rows-2": False, "rows-3": True}


def test_what_the_model_cannot_read_at_once_is_left_out_and_said(tmp_path: Path) -> None:
    episodes = [*many(3), make_episode("long", "word " * 200, task="l", success=True)]
    warnings: list[str] = []
    source = store_at(tmp_path / "a.sqlite", episodes)
    rows = load(stage_of(tmp_path, "kto", warnings, context=200, source=str(source)))
    assert "long" not in verdicts(rows)
    assert any("1 (it is longer than the model's context)" in line for line in warnings)


def test_a_set_of_one_class_is_said(tmp_path: Path) -> None:
    warnings: list[str] = []
    source = store_at(tmp_path / "a.sqlite", [make_episode("e", "x", success=True)])
    load(stage_of(tmp_path, "kto", warnings, source=str(source)))
    assert any("is called good" in line for line in warnings)


@pytest.mark.parametrize(
    ("method", "data", "sentence"),
    [
        ("kto", {"source": "gone.sqlite"}, "gone.sqlite"),
        ("kto", {"source": "gone.jsonl"}, "gone.jsonl"),
        ("kto", {"source": "nowhere"}, "nowhere"),
        ("kto", {"source": "a.sqlite", "heldout": 0.001, "n": 1}, "cannot be held out"),
        ("dpo", {"source": "a.sqlite"}, "--kind dpo --from a.sqlite --out dpo-data$"),
        (
            "kto",
            {"source": "a.sqlite", "where": "env = nowhere"},
            "--out kto-data --where 'env = nowhere'$",
        ),
        ("kto", {"source": "a.sqlite", "where": "success > >"}, "success"),
        ("kto", {"source": "b.jsonl", "reward": "os"}, "data.reward scores the traces of a store"),
        ("kto", {"source": "b.jsonl", "where": "success"}, "and b.jsonl is none"),
    ],
)
def test_data_that_cannot_be_used_is_one_sentence(
    method: str,
    data: dict[str, Any],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    store_at(Path("a.sqlite"), many())
    Path("b.jsonl").write_text('{"prompt": "a", "completion": "b", "label": true}\n')
    with pytest.raises(UserError, match=sentence) as caught:
        load(stage_of(tmp_path, method, **data))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "data" / "stage_1").exists()
