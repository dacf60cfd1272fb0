"""Whatever is not installed is named with the command that installs it."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from practicum.core.errors import MissingExtra
from practicum.engine.models import llama_cpp
from practicum.engine.models.gguf_writing import read_gguf, write_gguf
from practicum.engine.models.llama_server import LlamaServer
from practicum.engine.models.loading import load_model
from practicum.engine.models.publishing import Upload

NEEDS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "torch": ("train", lambda place: load_model("tiny")),
    "transformers": ("train", lambda place: load_model("tiny")),
    "gguf": ("train", lambda place: read_gguf(place / "a.gguf")),
    "huggingface_hub": (
        "train",
        lambda place: Upload(folder=place, hub_id="me/a").send(private=False),
    ),
    "sentencepiece": ("export", lambda place: write_gguf(place, place / "a.gguf", print)),
    "cyllama": (
        "export",
        lambda place: llama_cpp.quantise(place / "a.gguf", place / "b.gguf", "Q8_0", 1),
    ),
    "xllamacpp": ("export", lambda place: LlamaServer(place / "a.gguf", context=64, threads=1)),
}


@pytest.mark.parametrize("package", NEEDS)
def test_a_missing_package_is_a_sentence_with_the_extra_to_install(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra, use = NEEDS[package]
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, package, None)
    llama_cpp._binding.cache_clear()
    with pytest.raises(MissingExtra) as told:
        use(tmp_path)
    assert f"pip install 'practicum[{extra}]'" in str(told.value)
    assert "\n" not in str(told.value)
