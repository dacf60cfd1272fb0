import json
from pathlib import Path

import pytest

from practicum.core.errors import CheckpointError
from practicum.store.checkpoints import MANIFEST, check_manifest, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "optimizer").mkdir()
    (tmp_path / "adapter_model.safetensors").write_bytes(bytes(range(100)))
    (tmp_path / "optimizer" / "state.json").write_text("{}")
    write_manifest(tmp_path, step=5, fingerprint="f5")
    return tmp_path


def test_an_untouched_folder_is_sound(folder: Path) -> None:
    manifest = check_manifest(folder)
    assert (manifest.step, manifest.fingerprint) == (5, "f5")
    assert list(manifest.files) == ["adapter_model.safetensors", "optimizer/state.json"]


def test_a_file_added_later_does_no_harm(folder: Path) -> None:
    (folder / "notes.txt").write_text("the good one")
    assert check_manifest(folder).step == 5


def test_every_flipped_byte_of_the_manifest_is_noticed(folder: Path) -> None:
    sound = (folder / MANIFEST).read_bytes()
    for position, byte in enumerate(sound):
        flipped = bytearray(sound)
        flipped[position] = byte ^ 1
        if _means_the_same(flipped, sound):
            continue  # another kind of white space
        (folder / MANIFEST).write_bytes(flipped)
        with pytest.raises(CheckpointError, match=r"manifest\.json"):
            check_manifest(folder)


def _means_the_same(one: bytes | bytearray, other: bytes) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def test_a_missing_manifest_is_named(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    with pytest.raises(CheckpointError, match=r"manifest\.json is missing"):
        check_manifest(folder)


def test_a_manifest_of_another_format_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("practicum.store.checkpoints.FORMAT", 2)
    with pytest.raises(CheckpointError, match="has format 1, not 2"):
        check_manifest(folder)
