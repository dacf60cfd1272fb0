"""Converts a .gguf file to a `transformers` model folder, with tokenizer and chat template.

The weights are dequantised to float32: products of the file's half-precision scales are not exact
in 16 bits, and a CPU can use float32 weights as they are on disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra, UserError
from practicum.engine.chat.given_templates import GIVE_TEMPLATE
from practicum.engine.models.download import no_conversion_bars, no_loading_bars
from practicum.engine.models.gguf_header import read_gguf_header


def convert_gguf(file: Path, folder: Path) -> None:
    """Writes the model in `file` into the existing `folder`, as `save_pretrained` does."""
    try:
        import torch
        from transformers import AutoModelForCausalLM
    except ImportError:
        raise MissingExtra.for_extra("train", "converting a .gguf file") from None

    tokenizer = read_gguf_tokenizer(file)
    with _readable(file), no_conversion_bars():
        model = AutoModelForCausalLM.from_pretrained(
            str(file.parent), dtype=torch.float32, **_of_file_alone(file)
        )
    _forget_origin(model)
    _tie_twins(model)
    with no_loading_bars():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        # save_pretrained makes them readable for their owner only; the cache may be shared.
        weights.chmod((folder / "config.json").stat().st_mode)


def read_gguf_tokenizer(file: Path) -> Any:
    """The tokenizer in a .gguf file, with its chat template; the weights are not read."""
    try:
        from transformers import AutoConfig, AutoTokenizer
    except ImportError:
        raise MissingExtra.for_extra("train", "reading a .gguf file") from None
    metadata = read_gguf_header(file).metadata
    with _readable(file), no_conversion_bars():
        folder, given = str(file.parent), _of_file_alone(file)
        config = AutoConfig.from_pretrained(folder, **given)
        tokenizer = AutoTokenizer.from_pretrained(folder, **given)
    _repair_special_tokens(tokenizer, config)
    if metadata.get("tokenizer.ggml.model") == "gpt2":
        _repair_byte_level(tokenizer.backend_tokenizer, str(metadata.get("tokenizer.ggml.pre")))
    return tokenizer


def _of_file_alone(file: Path) -> dict[str, Any]:
    """What makes `transformers` ask the file, and nothing that lies beside it and may name code."""
    return {"gguf_file": file.name, "trust_remote_code": False}


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Says of whatever `transformers` raises in the block that the file is no model for it."""
    try:
        yield
    except Exception as error:
        raise UserError(
            f"{file.name!r} cannot be read as a model ({_first_line(error)}); give a .gguf file of "
            "an architecture that transformers reads, such as llama or qwen2"
        ) from error


SAME_MATRIX = 0.98
"""Cosine above which two matrices are one that was quantised twice. Of matrices that were learned
apart it is near 0; 4 bits leave 0.99 or more."""


def _tie_twins(model: Any) -> None:
    """Makes the output layer the input embedding again where a file has both in two precisions.

    Files of models with tied embeddings often carry the output layer apart, in more bits. The finer
    one is kept for both, as in the released weights.
    """
    import torch

    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    if head is None or head.weight is embedding.weight:
        return
    one, other = embedding.weight.detach().flatten(), head.weight.detach().flatten()
    if torch.nn.functional.cosine_similarity(one, other, dim=0) < SAME_MATRIX:
        return
    embedding.weight = head.weight
    model.config.tie_word_embeddings = True


def float32_bytes(file: Path) -> int:
    """Bytes of the model in a .gguf file in float32; refuses one whose weights are cut off."""
    try:
        from gguf import GGUFReader
    except ImportError:
        raise MissingExtra.for_extra("train", "reading a .gguf file") from None
    read_gguf_header(file)  # refuses what asks for more than any model has
    try:
        return sum(4 * int(tensor.n_elements) for tensor in GGUFReader(file).tensors)
    except Exception as error:  # a damaged file can make the reader fail in any way
        raise UserError(
            f"{file.name!r} is not a sound .gguf file ({_first_line(error)}); fetch it again"
        ) from error


def require_chat_template(file: Path) -> None:
    """Refuses a file without a chat template, before minutes are spent on converting it."""
    if not read_gguf_header(file).metadata.get("tokenizer.chat_template"):
        raise UserError(
            f"{file.name!r} has no chat template, so it cannot hold a conversation; {GIVE_TEMPLATE}"
        )


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
