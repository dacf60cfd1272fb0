"""The model `tiny`: a Llama of 94,528 random weights with a byte-level tokenizer, for tests.

It needs no download. Its weights are the same on every machine, so results differ between machines
only by the order in which floating-point sums are taken.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SEED = 20_240_229
VOCABULARY = 320
CONTEXT_TOKENS = 4096

NAMED_TOKENS = ("<|bos|>", "<|pad|>", "<|im_start|>", "<|im_end|>")
"""Special tokens, with the ids 256 to 259; the ids above them are reserved tokens."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

RESIDUAL_GAIN = 3.0
"""Scales what layers add to the residual stream. The embedding is also the output layer, so with
a small gain the model would only repeat its last token."""


def build_tiny() -> tuple[Any, Any]:
    """The model and its tokenizer."""
    return build_tiny_model(), build_tiny_tokenizer()


def build_tiny_model() -> Any:
    """The model, in float32 on the CPU; the global random state is left as it was."""
    ids = {name: 256 + index for index, name in enumerate(NAMED_TOKENS)}
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT_TOKENS,
        tie_word_embeddings=True,
        bos_token_id=ids["<|bos|>"],
        eos_token_id=ids["<|im_end|>"],
        pad_token_id=ids["<|pad|>"],
    )
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config)
    _fill_weights(model)
    return model.eval()


def _fill_weights(model: Any) -> None:
    # numpy's generator gives the same bits on every CPU; torch.randn does not.
    draw = np.random.default_rng(SEED)
    for name, parameter in sorted(model.named_parameters()):
        if name.endswith("norm.weight"):
            continue
        scale = 0.2 if "embed_tokens" in name else parameter.shape[1] ** -0.5
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            scale *= RESIDUAL_GAIN
        values = draw.standard_normal(tuple(parameter.shape)) * scale
        parameter.data.copy_(torch.from_numpy(values.astype(np.float32)))


def build_tiny_tokenizer() -> Any:
    """One token per byte, whose id is the byte's value, and the special tokens of ChatML."""
    vocabulary = {character: byte for byte, character in enumerate(_byte_characters())}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    reserved = [f"<|reserved_{i}|>" for i in range(VOCABULARY - len(vocabulary) - 4)]
    backend.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in (*NAMED_TOKENS, *reserved)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<|bos|>",
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    )


def _byte_characters() -> list[str]:
    """The printable character that stands for each byte in byte-level vocabularies (as in GPT-2).

    Printable bytes stand for themselves; the others take the characters from 256 upward.
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    above = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(above)) for byte in range(256)]


def save_tiny(folder: Path) -> None:
    """Writes the model and its tokenizer to a folder."""
    model, tokenizer = build_tiny()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
