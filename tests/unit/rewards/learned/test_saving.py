import json
from pathlib import Path

import numpy as np
import pytest
from tests.unit.rewards.learned.talks import mixed_pool, mixed_talks

from practicum.core.errors import UserError
from practicum.rewards.learned.labeler import Labeler, load_labeler, save_labeler


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Labeler, Path]:
    pool, truth = mixed_pool(40, seed=0)
    labeler, _ = Labeler.fit(pool, {name: truth[name] for name in pool.ids[:16]})
    save_labeler(labeler, tmp_path / "labeler")
    return labeler, tmp_path / "labeler"


def change(folder: Path, **values: object) -> None:
    path = folder / "labeler.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_what_is_read_back_predicts_the_same_to_the_last_bit(saved: tuple[Labeler, Path]) -> None:
    labeler, folder = saved
    traces, _ = mixed_talks(10, seed=3)
    assert load_labeler(folder).predict_traces(traces) == labeler.predict_traces(traces)
    assert load_labeler(folder).labels == 16
    assert sorted(path.name for path in folder.iterdir()) == ["labeler.json", "labeler.npz"]


def test_nothing_in_it_needs_pickle(saved: tuple[Labeler, Path]) -> None:
    with np.load(saved[1] / "labeler.npz", allow_pickle=False) as arrays:
        assert all(arrays[name].dtype == np.float64 for name in arrays.files)


def test_a_folder_without_one_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="practicum traces label --save"):
        load_labeler(tmp_path)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"version": 99}, "has version 99, and 1 is read here"),
        ({"facts": ["turns"]}, "other features"),
        ({"word_places": 7}, "other features"),
        ({"arrays_sha256": "0"}, "is not the file"),
        ({"calibration": {"slope": 1.0}}, "damaged"),
        ({"intercept": None}, "damaged"),
    ],
)
def test_one_that_does_not_fit_is_refused(
    saved: tuple[Labeler, Path], values: dict[str, object], reason: str
) -> None:
    change(saved[1], **values)
    with pytest.raises(UserError, match=reason):
        load_labeler(saved[1])


def test_a_damaged_description_is_refused(saved: tuple[Labeler, Path]) -> None:
    (saved[1] / "labeler.json").write_text('{"version": 1')
    with pytest.raises(UserError, match="damaged"):
        load_labeler(saved[1])


def test_cut_off_or_missing_arrays_are_refused(saved: tuple[Labeler, Path]) -> None:
    path = saved[1] / "labeler.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match="damaged"):
        load_labeler(saved[1])
    path.unlink()
    with pytest.raises(UserError, match="damaged"):
        load_labeler(saved[1])
