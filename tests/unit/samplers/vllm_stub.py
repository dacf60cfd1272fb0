"""vLLM's endpoints that a run uses, computed by `transformers`; checked against recordings of it.

The answers have the shape of vLLM 0.32.0's. Nothing here is our own engine, so what a run learns
from it is checked by the learner against another computation.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from practicum.engine.models.tiny import build_tiny

MOST = 512
"""`--max-model-len`."""


class VllmStub:
    """One server; what a test plants is an attribute."""

    def __init__(self, build: Callable[[], tuple[Any, Any]] = build_tiny) -> None:
        self._model, self._tokenizer = build()
        self._adapted: Any = None
        self._names: dict[str, str] = {}
        self.loaded: list[str] = []
        """Names, in the order in which they were loaded."""
        self.unloaded: list[str] = []
        self.completions = 0
        self.keeps_first = False
        """Planted: later adapters are taken and not used."""
        self.hangs = False
        """Planted: completions are never answered."""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health", lambda request: Response(), methods=["GET"]),
                Route("/v1/models", self._models, methods=["GET"]),
                Route("/v1/load_lora_adapter", self._load, methods=["POST"]),
                Route("/v1/unload_lora_adapter", self._unload, methods=["POST"]),
                Route("/v1/completions", self._complete, methods=["POST"]),
            ]
        )

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._about("base", None)]})

    def _about(self, name: str, parent: str | None) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": "tiny",
            "parent": parent,
            "max_model_len": MOST,
            "permission": [],
        }

    async def _load(self, request: Request) -> Response:
        told = await request.json()
        name, folder = told["lora_name"], told["lora_path"]
        if name in self._names:
            return _refused(
                400,
                "InvalidUserInput",
                f"The lora adapter '{name}' has already been loaded. If you want to load the "
                "adapter in place, set 'load_inplace' to True.",
            )
        if not (Path(folder) / "adapter_config.json").is_file():
            return _refused(
                404, "NotFoundError", f"Loading lora {name} failed: No adapter found for {folder}"
            )
        inner = f"a{len(self.loaded)}"
        if self._adapted is None:
            import peft

            self._adapted = peft.PeftModel.from_pretrained(self._model, folder, inner).eval()
        elif self.keeps_first:
            inner = "a0"
        else:
            self._adapted.load_adapter(folder, inner)
        self._names[name] = inner
        self.loaded.append(name)
        return PlainTextResponse(f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload(self, request: Request) -> Response:
        name = (await request.json())["lora_name"]
        if self._names.pop(name, None) is None:
            return _refused(404, "NotFoundError", f"The lora adapter '{name}' cannot be found.")
        self.unloaded.append(name)
        return PlainTextResponse(f"Success: LoRA adapter '{name}' removed successfully.")

    async def _complete(self, request: Request) -> Response:
        asked = await request.json()
        if asked["model"] not in self._names:
            sentence = f"The model `{asked['model']}` does not exist. Valid aliases: base."
            return _refused(404, "NotFoundError", sentence, "model")
        heat = asked.get("temperature", 1.0)
        if not 0.0 <= heat <= 2.0:
            sentence = f"temperature must be in [0, 2], got {heat}."
            return _refused(400, "BadRequestError", sentence, "temperature")
        while self.hangs:
            await asyncio.sleep(0.01)
        self.completions += 1
        return JSONResponse(self._answer(asked))

    @torch.no_grad()
    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._adapted.set_adapter(self._names[asked["model"]])
        prompt, tokens, told = list(asked["prompt"]), list[int](), _Told(asked)
        reason: str | int | None = None
        generator = torch.Generator().manual_seed(asked.get("seed") or 0)
        while len(tokens) < asked["max_tokens"] and reason is None:
            logits = self._logits([*prompt, *tokens])[-1]
            tokens.append(told.draw(logits, generator))
            reason = self._stop(asked, tokens)
        return told.answer(asked, prompt, tokens, reason, self._texts, self._scores(asked, prompt))

    def _logits(self, tokens: list[int]) -> torch.Tensor:
        return self._adapted(torch.tensor([tokens])).logits[0].float()

    def _stop(self, asked: dict[str, Any], tokens: list[int]) -> str | int | None:
        if tokens[-1] in asked.get("stop_token_ids", []):
            return tokens[-1]
        text = self._tokenizer.decode(tokens)
        return next((stop for stop in asked.get("stop", []) if stop in text), None)

    def _texts(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))

    def _scores(self, asked: dict[str, Any], prompt: list[int]) -> list[Any] | None:
        if asked.get("prompt_logprobs") is None:
            return None
        logprobs = self._logits(prompt).log_softmax(-1)
        found: list[Any] = [None]
        for place, token in enumerate(prompt[1:]):
            row = logprobs[place]
            rank = int((row > row[token]).sum()) + 1
            told = {
                "logprob": float(row[token]),
                "rank": rank,
                "decoded_token": self._tokenizer.decode([token]),
            }
            found.append({str(token): told})
        return found


class _Told:
    """What is reported of each token."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._heat = asked.get("temperature", 1.0)
        self._allowed = asked.get("allowed_token_ids")
        self._count = asked.get("logprobs")
        self._logprobs: list[float] = []
        self._tops: list[dict[str, float]] = []

    def draw(self, logits: torch.Tensor, generator: torch.Generator) -> int:
        if self._allowed is not None:
            kept = torch.full_like(logits, float("-inf"))
            kept[self._allowed] = logits[self._allowed]
            logits = kept
        scaled = (logits / self._heat if self._heat else logits).log_softmax(-1)
        if self._heat:
            token = int(torch.multinomial(scaled.exp(), 1, generator=generator))
        else:
            token = int(scaled.argmax())
        self._logprobs.append(float(scaled[token]))
        likeliest = scaled.topk(self._count or 0).indices.tolist()
        named = dict.fromkeys([token, *likeliest])
        self._tops.append({f"token_id:{one}": float(scaled[one]) for one in named})
        return token

    def answer(
        self,
        asked: dict[str, Any],
        prompt: list[int],
        tokens: list[int],
        reason: str | int | None,
        texts: Any,
        scores: list[Any] | None,
    ) -> dict[str, Any]:
        told, given = self._count is not None, bool(asked.get("return_token_ids"))
        logprobs = {
            "text_offset": [len(texts(tokens[:n])) for n in range(len(tokens))],
            "token_logprobs": self._logprobs,
            "tokens": [f"token_id:{token}" for token in tokens],
            "top_logprobs": self._tops,
        }
        choice = {
            "index": 0,
            "text": texts(tokens),
            "logprobs": logprobs if told else None,
            "finish_reason": "length" if reason is None else "stop",
            "stop_reason": reason,
            "token_ids": tokens if given else None,
            "prompt_logprobs": scores,
            "prompt_token_ids": prompt if given else None,
            "routed_experts": None,
        }
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": int(time.time()),
            "model": asked["model"],
            "choices": [choice],
            "service_tier": None,
            "system_fingerprint": "vllm-0.32.0",
            "usage": {
                "prompt_tokens": len(prompt),
                "total_tokens": len(prompt) + len(tokens),
                "completion_tokens": len(tokens),
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }


def _refused(status: int, kind: str, sentence: str, param: str | None = None) -> Response:
    error = {"message": sentence, "type": kind, "param": param, "code": status}
    return JSONResponse({"error": error}, status)
