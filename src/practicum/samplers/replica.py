"""What a replica promises: one process somewhere that samples, given adapters by name."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from practicum.core.errors import ContextFull, MissingExtra, PracticumError, UserError
from practicum.core.sample import Floats
from practicum.core.sampling import Completion
from practicum.core.sampling_json import SampleOrder

try:
    import httpx
except ImportError:
    raise MissingExtra.for_extra("serve", "a sampler in another process") from None


class ReplicaLost(Exception):
    """A replica cannot be reached, or broke off. What it was asked for, another one can answer."""


class ReplicaBusy(Exception):
    """A replica has as many requests as it takes; worth asking again."""


class ReplicaFailed(PracticumError):
    """A replica does not do what it must: the run stops, and the sentence names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Tokens, and how likely the learner finds each of them; None where nobody compares."""

    token_ids: tuple[int, ...]
    logprobs: Floats  # (T - 1,)
    """Of every token but the first, at temperature 1."""
    limit: float
    """Root mean square distance that rounding explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAdapter:
    """One version of the weights, as replicas are given it."""

    name: str
    """Never used for another version: caches go by it."""
    version: str
    """The fingerprint that every token sampled from it carries."""
    folder: Path
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """What a replica says of itself."""

    context_tokens: int


class Replica(Protocol):
    """One process that samples. Its methods run on the network thread.

    All raise `ReplicaLost` where it cannot be reached, and `ReplicaFailed` where it answers what it
    must not.
    """

    @property
    def name(self) -> str:
        """Its kind and where it is."""

    @property
    def writes_actions(self) -> bool:
        """Whether it takes the names of actions; else it is asked for each choice."""

    @property
    def takes_grammars(self) -> bool:
        """Whether it can hold a turn to a grammar."""

    @property
    def hottest(self) -> float:
        """The highest temperature that it takes."""

    async def facts(self) -> ReplicaFacts:
        """That it is up, and has the model that learns."""

    async def load(self, adapter: PublishedAdapter) -> None:
        """Take an adapter; raises `ReplicaFailed` where its weights turn out to be others."""

    async def check(self, adapter: PublishedAdapter) -> None:
        """Raise `ReplicaFailed` where an adapter that it has is not the one of this version."""

    async def unload(self, adapter: PublishedAdapter) -> None:
        """Give an adapter up."""

    async def draw(self, order: SampleOrder, adapter: PublishedAdapter) -> Completion:
        """One completion from an adapter that it has; raises `ReplicaBusy` where it has no room."""

    async def close(self) -> None:
        """Close connections."""


class RunsReplica(Protocol):
    """What starts a replica, and starts it again when it is lost."""

    @property
    def runs(self) -> bool:
        """Whether it has not ended, as far as is known."""

    def start(self) -> None:
        """Start it; it does not answer yet."""

    async def until(self, answers: Callable[[], Awaitable[bool]]) -> None:
        """Wait until it answers; `ReplicaFailed` where it ends, or takes too long."""

    def said(self) -> str:
        """The last that is known of it, in brackets."""

    def close(self) -> None:
        """End it for good."""


CONNECT_S = 10.0
KEPT_S = 2.0
"""Seconds that an idle connection is kept: less than servers keep theirs before they close them."""
BUSY = (429, 503)
BROKEN = 500
"""From here on a server has failed: vLLM answers so when its engine has ended, and then ends."""


class ReplicaClient:
    """HTTP to one replica, its troubles told apart."""

    def __init__(self, name: str, url: str, key: str = "") -> None:
        self.name, self.url = name, url
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Whole answers have a limit of their own, in the pool; here only who does not answer at all
        # is noticed. Loading certificates takes long, so only where one is verified.
        self._http = httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=64, keepalive_expiry=KEPT_S
            ),
            trust_env=False,
            verify=url.startswith("https:"),
        )

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON object that it answers, or what its refusal means."""
        try:
            answer = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            raise ReplicaLost(f"{self.name} does not answer ({said})") from None
        if answer.status_code in BUSY:
            raise ReplicaBusy(f"{self.name} is busy")
        if answer.status_code >= BROKEN:
            said = " ".join(answer.text.split())[:200]
            raise ReplicaLost(f"{self.name} answers {answer.status_code} ({said})")
        told: Any = None
        with suppress(ValueError):
            told = answer.json()
        if answer.status_code >= 400:
            raise self._refusal(answer.status_code, told, answer.text)
        return told if isinstance(told, dict) else {"text": answer.text}

    def _refusal(self, status: int, told: Any, text: str) -> PracticumError:
        error = told.get("error") if isinstance(told, Mapping) else None
        kind = error.get("kind") if isinstance(error, Mapping) else None
        said = error.get("message") if isinstance(error, Mapping) else None
        sentence = str(said or error or " ".join(text.split())[:300] or status)
        if kind == "ContextFull":
            return ContextFull(sentence)
        if kind == "UserError":
            return UserError(sentence)
        if status == 401:
            return UserError(
                f"{self.name} refuses the key; put the key it was started with into the variable "
                "PRACTICUM_SAMPLER_KEY, or name its file: sampler.key_file=FILE"
            )
        return ReplicaFailed(f"{self.name} answered {status}: {sentence}")

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()


def rms_gap(found: Floats, expected: Floats) -> float:
    """Root mean square distance; infinite where they cannot be compared."""
    if found.shape != expected.shape or not np.isfinite(found).all():
        return float("inf")
    return float(np.sqrt(np.mean(np.square(found.astype(np.float64) - expected))))
