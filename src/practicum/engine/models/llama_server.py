"""llama.cpp's server in this process, by `xllamacpp`: adapters on a base, templates, speed."""

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from practicum.core.errors import MissingExtra, UserError

TIMED = 48
"""Tokens that are sampled to measure speed."""


class Speed(NamedTuple):
    """Tokens a second."""

    prompt: float
    sampled: float


class LlamaServer:
    """A .gguf file in llama.cpp's server, with an adapter on top of it if one is given."""

    def __init__(
        self, file: Path, *, context: int, threads: int, adapter: Path | None = None
    ) -> None:
        try:
            import xllamacpp
        except ImportError:
            raise MissingExtra.for_extra("export", "running llama.cpp's server") from None
        params = xllamacpp.CommonParams()
        params.model.path = str(file)
        params.n_ctx = context
        params.n_parallel = 1
        params.cpuparams.n_threads = threads
        params.verbosity = -1
        if adapter is not None:
            info = xllamacpp.CommonAdapterLoraInfo()
            info.path, info.scale = str(adapter), 1.0
            params.lora_adapters = [info]
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            what = f"put {adapter.name!r} on {file.name!r}" if adapter else f"serve {file.name!r}"
            raise UserError(f"llama.cpp cannot {what} ({error})") from error

    def likeliest(self, prompt: Sequence[int], top: int) -> dict[int, float]:
        """The likeliest next tokens, with their log-probabilities."""
        told = self._complete(prompt, n_predict=1, n_probs=top)
        [first] = told["choices"][0]["logprobs"]["content"]
        return {int(token["id"]): float(token["logprob"]) for token in first["top_logprobs"]}

    def speed(self, prompt: Sequence[int]) -> Speed:
        """Of reading this prompt, and of sampling behind it."""
        told = self._complete(prompt, n_predict=TIMED, ignore_eos=True)["timings"]
        return Speed(float(told["prompt_per_second"]), float(told["predicted_per_second"]))

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """A conversation as the file's own template writes it."""
        request = urllib.request.Request(
            f"{self._server.listening_address}/apply-template",
            data=json.dumps({"messages": list(messages)}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return str(json.loads(answer.read())["prompt"])

    def _complete(self, prompt: Sequence[int], **asked: Any) -> dict[str, Any]:
        # With what is cached, log-probabilities differ by the shape of the batch.
        wanted = {"prompt": list(prompt), "temperature": 0, "cache_prompt": False, **asked}
        answer = self._server.handle_completions(wanted)
        read: dict[str, Any] = json.loads(answer) if isinstance(answer, str | bytes) else answer
        return read
