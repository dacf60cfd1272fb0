"""Who judges, by the names that ART's scripts use."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from practicum.core.errors import UserError
from practicum.core.judging import JudgeModel, JudgeReply, WeighingModel
from practicum.core.trace import Message

__all__ = ["HeardJudge", "find_judge"]

PROVIDERS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "hosted_vllm": ("http://localhost:8000/v1", "HOSTED_VLLM_API_KEY"),
    "ollama": ("http://localhost:11434/v1", "OLLAMA_API_KEY"),
    "ollama_chat": ("http://localhost:11434/v1", "OLLAMA_API_KEY"),
}
"""Servers that speak OpenAI's chat completions, by the first word of a judge's name: where they
are, and which environment variable holds their key."""

NEEDS_KEY = frozenset({"openai", "openrouter"})
LOCAL = "local"
TAKEN = ("api_base", "base_url", "key_variable", "temperature", "max_tokens", "timeout")


class HeardJudge:
    """A judge whose answers are kept, to be shown."""

    def __init__(self, judge: JudgeModel) -> None:
        self._judge = judge
        self.said: list[str] = []

    @property
    def name(self) -> str:
        """See `JudgeModel`."""
        return self._judge.name

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """See `JudgeModel`."""
        reply = await self._judge.complete(messages)
        self.said.append(reply.text)
        return reply


def find_judge(
    judge: "str | JudgeModel | WeighingModel", options: Mapping[str, Any] | None
) -> JudgeModel | WeighingModel:
    """The judge that is meant.

    Args:
        judge: `PROVIDER/MODEL` with a known provider; `local/MODEL` for a model in this process;
            any name, where `options` has an address; or an object that can be asked.
        options: `api_base` or `base_url`, `key_variable`, `temperature`, `max_tokens`, `timeout`.
    """
    if not isinstance(judge, str):
        return judge
    given = dict(options or {})
    if "api_key" in given:
        raise UserError(
            "api_key would be the judge's key itself, which is read from the environment only; "
            "write key_variable='NAME_OF_THE_VARIABLE' in its place"
        )
    stray = sorted(set(given) - set(TAKEN))
    if stray:
        raise UserError(f"the judge takes no {stray[0]!r}; it takes {', '.join(TAKEN)}")
    provider, _, model = judge.partition("/")
    address = given.pop("api_base", None) or given.pop("base_url", None)
    given.pop("base_url", None)
    if provider == LOCAL and not address:
        return _local(model, given)
    known, variable = PROVIDERS.get(provider, ("", ""))
    if not address and not known:
        raise UserError(
            f"judge {judge!r} is nowhere: write local/MODEL for a model in this process, "
            f"{', '.join(f'{name}/MODEL' for name in PROVIDERS)} for one on a server, or give its "
            "address as extra_litellm_params={'api_base': 'http://HOST:PORT/v1'}"
        )
    variable = given.pop("key_variable", "") or (
        variable if provider in NEEDS_KEY or os.environ.get(variable) else ""
    )
    return _on_server(address or known, model if known else judge, variable, given)


def _local(model: str, given: dict[str, Any]) -> JudgeModel | WeighingModel:
    from practicum.assemble.judges import local_judge
    from practicum.core.config.reward_components import JudgeComponent

    own = {key: given[key] for key in ("temperature", "max_tokens") if key in given}
    # What is said of how it writes means that it shall write.
    return local_judge(JudgeComponent(model=model, way="compared" if own else "auto", **own))


def _on_server(address: str, model: str, variable: str, given: dict[str, Any]) -> JudgeModel:
    from practicum.rewards.judge import EndpointJudge

    names = {"temperature": "temperature", "max_tokens": "max_tokens", "timeout": "timeout_s"}
    own = {ours: given[theirs] for theirs, ours in names.items() if theirs in given}
    return EndpointJudge(address, model, key_variable=variable, **own)
