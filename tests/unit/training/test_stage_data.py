"""Rows as they were written are the rows that are read."""

from pathlib import Path

import numpy as np
from tests.unit.traces.datasets.made import make_example
from tests.unit.training.recorded_rows import make_row

from practicum.traces.datasets.build import BuildOptions, Built, build
from practicum.traces.datasets.splits import LeftOut
from practicum.training.example_steps import OfflineExample
from practicum.training.stage_data import (
    StageExamples,
    examples_folder,
    keep_examples,
    read_stage_examples,
)


def some_set() -> Built:
    return build([make_example("a", label=True)], BuildOptions(kind="sft"), LeftOut())


def own_row(number: int) -> OfflineExample:
    """A row of the model's own tokens, with what each was drawn from."""
    row = make_row(number, label=True, weight=0.1 + number / 3, reward=1 / 3)
    sample = row.sample
    chance = np.random.default_rng(number)
    sample.old_logprobs[sample.loss_mask] = chance.normal(size=int(sample.loss_mask.sum()))
    sample.temperatures[:] = np.float32(0.7)
    place = int(sample.loss_mask.argmax())
    choices = {place: (3, 1, 2)}
    return OfflineExample(
        sample=type(sample)(
            token_ids=sample.token_ids,
            loss_mask=sample.loss_mask,
            old_logprobs=sample.old_logprobs,
            advantages=sample.advantages,
            temperatures=sample.temperatures,
            choices=choices,
            trace_id="a#b",
            path=2,
        ),
        task_id="t",
        label=row.label,
        weight=row.weight,
        reward=row.reward,
    )


def assert_same(one: OfflineExample, other: OfflineExample) -> None:
    for name in ("token_ids", "loss_mask", "old_logprobs", "advantages", "temperatures"):
        mine, theirs = getattr(one.sample, name), getattr(other.sample, name)
        assert mine.dtype == theirs.dtype
        assert np.array_equal(mine, theirs)
    assert one.sample.choices == other.sample.choices
    for name in ("id", "task_id", "label", "pair", "chosen", "weight", "reward"):
        assert getattr(one, name) == getattr(other, name)


def test_every_bit_comes_back(tmp_path: Path) -> None:
    pair = (make_row(1, pair="p", chosen=True), make_row(2, pair="p", chosen=False))
    rows = StageExamples([(own_row(3),), pair, (make_row(4),)], [(own_row(5),)])
    folder = examples_folder(tmp_path, 2)
    found = keep_examples(folder, rows, some_set(), {"kind": "sft"})
    assert folder == tmp_path / "data" / "stage_2"
    for kept in (found, read_stage_examples(folder)):
        for side, theirs in zip(rows, kept, strict=True):
            assert [len(unit) for unit in side] == [len(unit) for unit in theirs]
            for unit, other in zip(side, theirs, strict=True):
                for one, two in zip(unit, other, strict=True):
                    assert_same(one, two)


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    folder = examples_folder(tmp_path, 1)
    left = folder.parent / ".stage_1.tmp-99999"
    left.mkdir(parents=True)
    (left / "rows.jsonl").write_text("half")
    keep_examples(folder, StageExamples([(make_row(1),)], []), some_set(), {})
    assert [path.name for path in folder.parent.iterdir()] == ["stage_1"]
