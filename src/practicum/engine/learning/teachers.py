"""Another model that says how likely it finds what the policy sampled: here or remote."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from practicum.core.errors import ConfigError, PracticumError, UserError
from practicum.core.interfaces import ChatCodec
from practicum.core.sample import Batch, Floats, Sample
from practicum.core.trace import Message
from practicum.engine.compute_thread import computed
from practicum.engine.decoder.decoders import decoder_of
from practicum.engine.decoder.head import Head
from practicum.engine.learning.memory_fit import MemoryFit
from practicum.engine.learning.micro_batches import BatchTensors
from practicum.engine.models.loading import LoadedModel

PROBE = Message(
    role="assistant",
    content="Solve 3x + 7 = 16, then list the files in /srv: `ls -l`. <|im_end|> é 漢",
)
"""A text that two tokenizers read alike only if they are the same."""


class TorchTeacher:
    """Log-probabilities of a model that does not learn.

    Args:
        loaded: The teacher, loaded with our attention.
        pupil: The codec of the policy, whose tokens the teacher is to judge.
        lay_out: Samples to prefix trees that fit through the model.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        pupil: ChatCodec,
        *,
        lay_out: Callable[[Sequence[Sample]], list[Batch]],
    ) -> None:
        if loaded.codec.write(PROBE) != pupil.write(PROBE):
            raise ConfigError(
                f"algorithm.teacher = {loaded.name!r} cannot be used: it does not read text as the "
                "same tokens as the model that learns; choose a larger model of the same family"
            )
        self._decoder = decoder_of(loaded.module)
        self._head = Head(loaded.module)
        self._device = next(loaded.module.parameters()).device
        self._lay_out = lay_out
        self._fit = MemoryFit(checkpointed=True)  # nothing is kept that could be computed again

    @computed
    @torch.no_grad()
    def logprobs(self, samples: Sequence[Sample]) -> list[Floats]:
        """For each sample, the log-probabilities of its loss tokens, in their order."""
        found: dict[str, Floats] = {}
        for batch in self._lay_out(samples):
            terms = self._fit.by_term(batch, self._terms)["logprobs"]
            for number, key in enumerate(batch.sample_ids):
                found[key] = terms[batch.term_sample == number]
        return [found.get(sample.id, np.zeros(0, np.float32)) for sample in samples]

    def _terms(self, batch: Batch) -> dict[str, Floats]:
        tensors = BatchTensors.of(batch, self._device)
        states = self._decoder.learn(
            tensors.token_ids, tensors.position, tensors.end, checkpointed=False
        )
        said = self._head.predict(
            states[tensors.predictor], tensors.target, tensors.temperature, tensors.choice_ids
        )
        return {"logprobs": said.logprobs[tensors.term_decision].float().cpu().numpy()}


KEY_VARIABLE = "PRACTICUM_TEACHER_KEY"
"""Environment variable with the endpoint's key; it is never stored."""

PATIENCE_S = 120.0

PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Before each new try, where the endpoint failed, was busy or could not be reached."""

TOO_MANY = 429


class RemoteTeacher:
    """Asks `POST ADDRESS/completions` to echo the tokens of a sample with their log-probabilities.

    The endpoint must take a prompt as token ids and must serve a model with the policy's own
    tokenizer. It says what its model finds likely at temperature 1 without a constraint, so only
    samples that were drawn so can be judged by it.

    Args:
        address: Of the endpoint's API, such as http://localhost:8001/v1, and after a `#` the name
            of the model where the endpoint serves several.
        client: An `httpx.Client`, for tests.
        pause: Waits so many seconds, for tests.
    """

    def __init__(
        self, address: str, client: Any = None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._address, _, self._model = address.partition("#")
        self._client = client or _client()
        self._pause = pause

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

        try:
            reply = self._post(asked)
            reply.raise_for_status()
            return list(reply.json()["choices"][0]["logprobs"]["token_logprobs"])
        except httpx.HTTPStatusError as error:
            text = " ".join(error.response.text.split())[:200]
            raise PracticumError(
                f"the teacher at {self._address} answered {error.response.status_code}: {text}; "
                "mend that and go on with --resume"
            ) from None
        except httpx.HTTPError as error:
            raise PracticumError(
                f"the teacher at {self._address} cannot be reached ({error}); start it and go on "
                "with --resume"
            ) from None
        except (KeyError, IndexError, TypeError, ValueError):
            raise self._says_nothing() from None

    def _post(self, asked: dict[str, Any]) -> Any:
        """Its answer; asked again, a bounded number of times, where the fault may pass."""
        import httpx

        key = os.environ.get(KEY_VARIABLE)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        address = f"{self._address.rstrip('/')}/completions"
        for pause_s in PAUSES_S:
            with suppress(httpx.TransportError):
                reply = self._client.post(address, json=asked, headers=headers)
                if reply.status_code != TOO_MANY and not reply.is_server_error:
                    return reply
            self._pause(pause_s)
        return self._client.post(address, json=asked, headers=headers)

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
