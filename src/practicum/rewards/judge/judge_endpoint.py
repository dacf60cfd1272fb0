"""`EndpointJudge`: a judge behind an OpenAI-compatible chat completions endpoint."""

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from practicum.core.errors import MissingExtra, UserError
from practicum.core.score import JudgeReply, JudgeUnavailable
from practicum.core.trace import Message

REFUSED = {401: "the key is refused", 403: "the key is refused", 404: "there is no such model"}
"""HTTP statuses that retrying does not change."""


class EndpointJudge:
    """Asks `POST endpoint/chat/completions`; implements `JudgeModel`.

    Example:
        `EndpointJudge("http://localhost:8000/v1", "qwen2.5-7b-instruct")`
    """

    def __init__(
        self,
        endpoint: str,
        model: str,
        *,
        key_variable: str = "",
        temperature: float = 0.0,
        max_tokens: int = 2000,
        timeout_s: float = 120.0,
        at_once: int = 4,
    ) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtra.for_extra("serve", "a judge on a server") from None
        if key_variable and not os.environ.get(key_variable):
            raise UserError(
                f"the judge's key is looked for in the environment variable {key_variable!r}, "
                f"which is not set; type: export {key_variable}=..."
            )
        self._url = endpoint.rstrip("/") + "/chat/completions"
        self._model = model
        self._key_variable = key_variable
        self._body = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        self._timeout_s = timeout_s
        self._at_once = asyncio.Semaphore(at_once)
        self._httpx = httpx

    @property
    def name(self) -> str:
        """See `JudgeModel`."""
        return f"{self._model} at {self._url} (temperature {self._body['temperature']:g})"

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """See `JudgeModel`."""
        chat = [{"role": message.role, "content": message.content} for message in messages]
        key = os.environ.get(self._key_variable, "") if self._key_variable else ""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            async with (
                self._at_once,
                self._httpx.AsyncClient(timeout=self._timeout_s) as client,
            ):
                answer = await client.post(
                    self._url, json={**self._body, "messages": chat}, headers=headers
                )
        except self._httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise JudgeUnavailable(f"{self._url} does not answer: {reason}") from None
        if answer.status_code in REFUSED:
            raise UserError(
                f"{self._url} answers {answer.status_code} to the judge {self._model!r}: "
                f"{REFUSED[answer.status_code]}; set the component's endpoint, model and "
                "key_variable"
            )
        if answer.status_code != 200:
            raise JudgeUnavailable(f"{self._url} answers {answer.status_code}: {answer.text[:200]}")
        return _reply(answer)


def _reply(answer: Any) -> JudgeReply:
    try:
        body = answer.json()
        text = body["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise JudgeUnavailable(f"the answer {answer.text[:200]!r} is no completion") from None
    usage = body.get("usage") or {}
    counts = [usage.get(key) for key in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (count if isinstance(count, int) else 0 for count in counts)
    return JudgeReply(
        text=text if isinstance(text, str) else "",
        prompt_tokens=prompt,
        completion_tokens=completion,
    )
