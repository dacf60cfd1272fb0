"""`data/stage_N/` of a run: what a stage learns from, kept so that a resumed run reads the same.

data/stage_1/
    rows.jsonl       the tokens of each row, in the order they are drawn from
    dataset.json     what was asked for, and what came of it
    train.jsonl      the same rows to be read by people and by `practicum dataset`
    heldout.jsonl

The folder is there whole or not at all.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from practicum.core.errors import UserError
from practicum.core.sample import Sample
from practicum.core.task import JSON
from practicum.datasets import Built, Side, write_dataset
from practicum.store.durable import publish_folder
from practicum.training import Row

__all__ = ["StageRows", "keep_rows", "read_rows", "rows_folder"]

ROWS = "rows.jsonl"
Units = list[tuple[Row, ...]]


class StageRows(NamedTuple):
    """Both sides of a stage's material, what belongs together in one tuple."""

    train: Units
    heldout: Units


def rows_folder(run: Path, stage: int) -> Path:
    """Where a run keeps what its stage learns from; stages are counted from 1."""
    return run / "data" / f"stage_{stage}"


def keep_rows(
    folder: Path, rows: StageRows, built: Built, question: Mapping[str, JSON]
) -> StageRows:
    """Write the rows and what they were made from; gives them as they are read back."""
    folder.parent.mkdir(exist_ok=True)
    for left in folder.parent.glob(f".{folder.name}.tmp-*"):  # of a process that was killed
        shutil.rmtree(left)
    staged = folder.with_name(f".{folder.name}.tmp-{os.getpid()}")
    write_dataset(built, staged, form="jsonl", question=question)
    with (staged / ROWS).open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in _lines(rows))
    publish_folder(staged, folder)
    return read_rows(folder)


def read_rows(folder: Path) -> StageRows:
    """The rows that an earlier start of the run has kept."""
    found: dict[Side, dict[int, list[Row]]] = {"train": {}, "heldout": {}}
    try:
        with (folder / ROWS).open(encoding="utf-8") as lines:
            for line in map(json.loads, lines):
                side: Side = line["side"]
                found[side].setdefault(line["unit"], []).append(_read(line))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder / ROWS} cannot be read ({error.__class__.__name__}: {error}); put back a "
            "copy of it, or start another run"
        ) from None
    train, heldout = ([tuple(unit) for unit in units.values()] for units in found.values())
    return StageRows(train, heldout)


def _lines(rows: StageRows) -> Iterator[dict[str, Any]]:
    for side, units in (("train", rows.train), ("heldout", rows.heldout)):
        for number, unit in enumerate(units):
            for row in unit:
                yield {"side": side, "unit": number, **_written(row)}


ABOUT = ("task_id", "label", "pair", "chosen", "weight", "reward")


def _written(row: Row) -> dict[str, Any]:
    sample = row.sample
    return {
        "trace": sample.trace_id,
        "walk": sample.walk,
        **{name: getattr(row, name) for name in ABOUT},
        "token_ids": sample.token_ids.tolist(),
        "loss_mask": sample.loss_mask.astype(int).tolist(),
        # Of what another model or a person wrote there are none.
        "logprobs": _unless_all(sample.old_logprobs, 0.0),
        "temperatures": _unless_all(sample.temperatures, 1.0),
        "choices": [[place, list(allowed)] for place, allowed in sample.choices.items()],
    }


def _unless_all(values: "np.typing.NDArray[np.float32]", usual: float) -> list[float]:
    return [] if (values == usual).all() else values.tolist()


def _read(line: Mapping[str, Any]) -> Row:
    length = len(line["token_ids"])
    if len(line["loss_mask"]) != length:
        raise ValueError(f"{length} tokens have a mask for {len(line['loss_mask'])}")
    sample = Sample(
        token_ids=np.asarray(line["token_ids"], np.int64),
        loss_mask=np.asarray(line["loss_mask"], np.bool_),
        old_logprobs=_filled(line["logprobs"], 0.0, length),
        advantages=np.zeros(length, np.float32),
        temperatures=_filled(line["temperatures"], 1.0, length),
        choices={place: tuple(allowed) for place, allowed in line["choices"]},
        trace_id=line["trace"],
        walk=line["walk"],
    )
    return Row(sample=sample, **{name: line[name] for name in ABOUT})


def _filled(values: Sequence[float], usual: float, length: int) -> "np.typing.NDArray[np.float32]":
    return np.asarray(values, np.float32) if values else np.full(length, usual, np.float32)
