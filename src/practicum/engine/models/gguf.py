"""Converts a .gguf file to a `transformers` model folder, with tokenizer and chat template.

The weights are dequantised to float32: products of the file's half-precision scales are not exact
in 16 bits, and a CPU can use float32 weights as they are on disk.
"""

import mmap
import struct
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra, UserError
from practicum.engine.chat.given_templates import GIVE_TEMPLATE
from practicum.engine.models.download import no_conversion_bars, no_loading_bars
from practicum.engine.models.model_limits import check_sizes_of_model


def convert_gguf(file: Path, folder: Path) -> None:
    """Writes the model in `file` into the existing `folder`, as `save_pretrained` does."""
    try:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError:
        raise MissingExtra.for_extra("train", "converting a .gguf file") from None

    folder_name = str(file.parent)
    float32_bytes(file)  # refuses what asks for more than any model has
    try:
        kind, splitting = (_text_entry(file, f"tokenizer.ggml.{key}") for key in ("model", "pre"))
        with no_conversion_bars():
            # What lies beside the file, and may name code, is not asked.
            given: dict[str, Any] = {"gguf_file": file.name, "trust_remote_code": False}
            model = AutoModelForCausalLM.from_pretrained(folder_name, dtype=torch.float32, **given)
            tokenizer = AutoTokenizer.from_pretrained(folder_name, **given)
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
        # save_pretrained makes them readable for their owner only; the cache may be shared.
        weights.chmod((folder / "config.json").stat().st_mode)


def float32_bytes(file: Path) -> int:
    """Bytes of the model in a .gguf file in float32."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise MissingExtra.for_extra("train", "reading a .gguf file") from None
    try:
        reader = GGUFReader(file)
        check_sizes_of_model(_sizes_in(reader), file.name)
        return sum(4 * int(tensor.n_elements) for tensor in reader.tensors)
    except UserError:
        raise
    except Exception as error:  # a damaged file can make the reader fail in any way
        raise UserError(
            f"{file.name!r} is not a sound .gguf file ({_first_line(error)}); fetch it again"
        ) from error


def _sizes_in(reader: Any) -> list[tuple[str, float]]:
    """The numbers in the metadata of a .gguf file, by their names."""
    numbers = []
    for name, field in reader.fields.items():
        if len(field.data) == 1 and isinstance(value := field.contents(), int | float):
            numbers.append((str(name), float(value)))
    return numbers


def require_chat_template(file: Path) -> None:
    """Refuses a file without a chat template. One that has it is known in milliseconds."""
    try:
        template = _text_entry(file, "tokenizer.chat_template")
    except (ValueError, struct.error):  # empty, or it ends within the template
        template = ""
    if not template:
        float32_bytes(file)  # raises where the file is damaged: then that is what to say
        raise UserError(
            f"{file.name!r} has no chat template, so it cannot hold a conversation; {GIVE_TEMPLATE}"
        )


def _text_entry(file: Path, name: str) -> str:
    """The string that the file's metadata has for the key `name`, or the empty string.

    The key is searched in the file's bytes, because parsing the whole vocabulary takes seconds.
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
"""The type number of a string in GGUF metadata."""


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def _forget_origin(model: Any) -> None:
    """Removes the signs of quantisation, or `save_pretrained` would mark the weights quantised."""
    for entry in ("quantization_config", "_model_name_or_path"):
        if hasattr(model.config, entry):
            delattr(model.config, entry)
    for mark in ("hf_quantizer", "quantization_method"):
        if hasattr(model, mark):
            delattr(model, mark)
    model.is_quantized = False


def _repair_special_tokens(tokenizer: Any, config: Any) -> None:
    """Sets the special tokens from the file's ids; `transformers` uses defaults for some."""
    for role in ("bos", "eos", "pad", "unk"):
        index = getattr(config, f"{role}_token_id", None)
        if isinstance(index, int):
            setattr(tokenizer, f"{role}_token", tokenizer.convert_ids_to_tokens(index))
        tokenizer.init_kwargs.pop(f"{role}_token_id", None)
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.model_max_length = config.max_position_embeddings


def _repair_byte_level(backend: Any, splitting: str) -> None:
    """Sets what the conversion of a byte-level BPE tokenizer may lose.

    The decoder must map bytes only, and not turn other characters into spaces. The pre-tokenizer
    `smollm` splits digits one by one before words, so that a space before a digit stays alone.
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
