"""llama.cpp's server in this process, by `xllamacpp`: it puts adapters on a base model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from practicum.core.errors import MissingExtra, UserError


def likeliest_tokens(
    base: Path, adapter: Path, prompts: Sequence[Sequence[int]], top: int, threads: int
) -> list[dict[int, float]]:
    """The likeliest next tokens after each prompt, with their log-probabilities.

    Args:
        base: The .gguf file of the base model.
        adapter: The .gguf file of the adapter on top of it.
        prompts: Tokens.
        top: How many are told.
        threads: Threads.
    """
    try:
        import xllamacpp
    except ImportError:
        raise MissingExtra.for_extra("export", "putting an adapter on a .gguf file") from None
    params = xllamacpp.CommonParams()
    params.model.path = str(base)
    params.n_ctx = max(map(len, prompts)) + 64
    params.n_parallel = 1
    params.cpuparams.n_threads = threads
    params.verbosity = -1
    info = xllamacpp.CommonAdapterLoraInfo()
    info.path, info.scale = str(adapter), 1.0
    params.lora_adapters = [info]
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise UserError(
            f"llama.cpp cannot put {adapter.name!r} on {base.name!r} ({error})"
        ) from error
    return [_next(server, prompt, top) for prompt in prompts]


def _next(server: Any, prompt: Sequence[int], top: int) -> dict[int, float]:
    asked = {"prompt": list(prompt), "n_predict": 1, "temperature": 0, "n_probs": top}
    answer = server.handle_completions({**asked, "cache_prompt": False})
    read = json.loads(answer) if isinstance(answer, str | bytes) else answer
    [first] = read["choices"][0]["logprobs"]["content"]
    return {int(token["id"]): float(token["logprob"]) for token in first["top_logprobs"]}
