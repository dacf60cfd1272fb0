"""A .gguf file to a plain model folder: weights dequantised once, tokenizer and template with them.

The folder is an ordinary `transformers` model in float32: products of the file's half-precision
scales are not exact in 16 bits, and float32 loads straight from disk on a CPU.
"""

import mmap
import struct
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra, UserError
from practicum.policy.loading_bars import no_conversion_bars, no_loading_bars

__all__ = ["convert_gguf", "plain_bytes"]


def convert_gguf(file: Path, folder: Path) -> None:
    """Write the model in `file` into the existing `folder`, as `save_pretrained` does."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise MissingExtra.for_extra("train", "converting a .gguf file") from None

    folder_name = str(file.parent)
    try:
        kind, splitting = (_text_entry(file, f"tokenizer.ggml.{key}") for key in ("model", "pre"))
        with no_conversion_bars():
            model = AutoModelForCausalLM.from_pretrained(
                folder_name, gguf_file=file.name, dtype=torch.float32
            )
            tokenizer = AutoTokenizer.from_pretrained(folder_name, gguf_file=file.name)
    except Exception as error:
        raise UserError(
            f"{file.name!r} cannot be read as a model ({_first_line(error)}); give a .gguf file of "
            "an architecture that transformers reads, such as llama or qwen2"
        ) from error
    _forget_origin(model)
    _repair_special_tokens(tokenizer, model.config)
    if kind == "gpt2":
        _repair_byte_level(tokenizer.backend_tokenizer, splitting)
    with no_loading_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        # They are written for the owner alone; a shared cache needs the mode of its other files.
        weights.chmod((folder / "config.json").stat().st_mode)


def plain_bytes(file: Path) -> int:
    """Space that the model in a .gguf file takes in float32."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise MissingExtra.for_extra("train", "reading a .gguf file") from None
    try:
        return sum(4 * int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
    except (ValueError, IndexError, OSError) as error:
        raise UserError(
            f"{file.name!r} is not a sound .gguf file ({_first_line(error)}); fetch it again"
        ) from error


def _text_entry(file: Path, name: str) -> str:
    """The text that the file gives for `name`, or nothing.

    The one entry is looked up in the file's bytes: parsing all of the vocabulary takes seconds.
    """
    entry = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", GGUF_TEXT)
    with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(entry)
        if at < 0:
            return ""
        at += len(entry)
        (length,) = struct.unpack_from("<Q", data, at)
        return data[at + 8 : at + 8 + length].decode()


GGUF_TEXT = 8
"""The number by which a .gguf file marks an entry whose value is text."""


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def _forget_origin(model: Any) -> None:
    """The weights are plain now; with the marks `save_pretrained` would call them quantised."""
    for entry in ("quantization_config", "_model_name_or_path"):
        if hasattr(model.config, entry):
            delattr(model.config, entry)
    for mark in ("hf_quantizer", "quantization_method"):
        if hasattr(model, mark):
            delattr(model, mark)
    model.is_quantized = False


def _repair_special_tokens(tokenizer: Any, config: Any) -> None:
    """Name the special tokens by the ids that the file gives; some readers take their defaults."""
    for role in ("bos", "eos", "pad", "unk"):
        index = getattr(config, f"{role}_token_id", None)
        if isinstance(index, int):
            setattr(tokenizer, f"{role}_token", tokenizer.convert_ids_to_tokens(index))
        tokenizer.init_kwargs.pop(f"{role}_token_id", None)
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.model_max_length = config.max_position_embeddings


def _repair_byte_level(backend: Any, splitting: str) -> None:
    """Put back what the conversion of a byte-level tokenizer may lose.

    Tokens are bytes and nothing else, so no other sign may be turned into a blank; and with the
    splitting `smollm` each digit stands alone, so that blanks before it are a word of their own.
    """
    from tokenizers import decoders, pre_tokenizers

    backend.decoder = decoders.ByteLevel()
    if splitting == "smollm":
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
