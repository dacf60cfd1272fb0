"""A teacher behind an endpoint that returns the log-probabilities of a prompt's tokens."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from practicum.core.errors import PracticumError, UserError
from practicum.core.sample import Floats, Sample

__all__ = ["KEY_VARIABLE", "RemoteTeacher"]

KEY_VARIABLE = "PRACTICUM_TEACHER_KEY"
"""Environment variable with the endpoint's key; it is never stored."""

PATIENCE_S = 120.0


class RemoteTeacher:
    """Asks `POST ADDRESS/completions` to echo the tokens of a sample with their log-probabilities.

    The endpoint must take a prompt as token ids and must serve a model with the policy's own
    tokenizer. It says what its model finds likely at temperature 1 without a constraint, so only
    samples that were drawn so can be judged by it.

    Args:
        address: Of the endpoint's API, such as http://localhost:8001/v1, and after a `#` the name
            of the model where the endpoint serves several.
        client: An `httpx.Client`, for tests.
    """

    def __init__(self, address: str, client: Any = None) -> None:
        self._address, _, self._model = address.partition("#")
        self._client = client or _client()

    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """For each sample, the log-probabilities of its loss tokens, in their order."""
        return [self._of(sample) for sample in samples]

    def _of(self, sample: Sample) -> Floats:
        if sample.choices or (sample.temperatures[sample.loss_mask] != 1.0).any():
            raise UserError(
                f"{self._address} cannot judge tokens that were drawn under a constraint or at a "
                "temperature other than 1; set rollouts.temperature=1, and take a local model as "
                "algorithm.teacher for environments of named actions"
            )
        asked = {
            "prompt": sample.token_ids.tolist(),
            "max_tokens": 1,
            "echo": True,
            "logprobs": 0,
            "temperature": 1.0,
            **({"model": self._model} if self._model else {}),
        }
        found = self._ask(asked)
        if len(found) < sample.token_ids.size:
            raise UserError(
                f"{self._address} gave {len(found)} log-probabilities for "
                f"{sample.token_ids.size} tokens; it must take token ids as a prompt and echo them"
            )
        wanted = [found[place] for place in np.flatnonzero(sample.loss_mask).tolist()]
        if not all(isinstance(x, int | float) for x in wanted):
            raise self._says_nothing()
        return np.asarray(wanted, np.float32)

    def _ask(self, asked: dict[str, Any]) -> list[float | None]:
        import httpx

        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            reply = self._client.post(
                f"{self._address.rstrip('/')}/completions", json=asked, headers=headers
            )
            reply.raise_for_status()
            return list(reply.json()["choices"][0]["logprobs"]["token_logprobs"])
        except httpx.HTTPStatusError as error:
            text = " ".join(error.response.text.split())[:200]
            raise PracticumError(
                f"the teacher at {self._address} answered {error.response.status_code}: {text}"
            ) from None
        except httpx.HTTPError as error:
            raise PracticumError(
                f"the teacher at {self._address} cannot be reached ({error}); start it and go on "
                "with --resume"
            ) from None
        except (KeyError, IndexError, TypeError, ValueError):
            raise self._says_nothing() from None

    def _says_nothing(self) -> UserError:
        return UserError(
            f"{self._address} returns no log-probabilities of a prompt; algorithm.teacher needs an "
            "endpoint with `echo` and `logprobs`, or a local model"
        )


def _client() -> Any:
    try:
        import httpx
    except ImportError:
        raise UserError(
            "a teacher behind an endpoint needs httpx; type: pip install 'practicum[serve]'"
        ) from None
    return httpx.Client(timeout=PATIENCE_S)
