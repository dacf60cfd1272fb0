"""Small random models of several families, each scaling or biasing in its own place."""

from typing import Any

import torch
import transformers

from practicum.engine.decoder.attention import ATTENTION, register_attention
from practicum.engine.models.loading import drop_nothing

SMALL = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 257,
    "eos_token_id": 259,
    "bos_token_id": 256,
}
OWN_KEYS = {"num_key_value_heads": None}
"""Of families in which every head has keys of its own."""

OWN_SETTINGS: dict[str, dict[str, Any]] = {
    "Llama": {"tie_word_embeddings": False},
    "Qwen2": {"tie_word_embeddings": True},
    "Qwen3": {"head_dim": 16},
    "Granite": {"logits_scaling": 3.0, "attention_multiplier": 0.4, "residual_multiplier": 0.7},
    "Cohere": {"logit_scale": 0.3},
    "Gemma2": {
        "head_dim": 8,
        "final_logit_softcapping": 2.0,
        "attn_logit_softcapping": None,
        "sliding_window": 256,
    },
    "Gemma2 capped": {
        "head_dim": 8,
        "final_logit_softcapping": 2.0,
        "attn_logit_softcapping": 1.5,
        "sliding_window": 4,
    },
    "Gemma3Text": {"head_dim": 8, "sliding_window": 4, "sliding_window_pattern": 2},
    "GptOss": {
        "head_dim": 8,
        "sliding_window": 4,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    "Mistral": {"sliding_window": 8},
    "Phi": {},
    "Phi3": {"sliding_window": 6},
    "GPTNeoX": OWN_KEYS,
    "GPT2": {**OWN_KEYS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "OPT": {**OWN_KEYS, "ffn_dim": 48, "word_embed_proj_dim": 32},
}


CAUSAL_LM = {"Gemma3Text": "Gemma3ForCausalLM", "GPT2": "GPT2LMHeadModel"}
"""Classes that are not called as their configs are."""


def build_pair(family: str) -> tuple[Any, Any]:
    """One model with our attention and its double with the stock one."""
    register_attention()
    return _build(family, ATTENTION), _build(family, "eager")


def _build(family: str, attention: str) -> Any:
    name = family.split()[0]
    config = getattr(transformers, f"{name}Config")(**{**SMALL, **OWN_SETTINGS[family]})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, CAUSAL_LM.get(name, f"{name}ForCausalLM"))(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
    model.set_attn_implementation(attention)
    drop_nothing(model)
    return model.eval().requires_grad_(False)
