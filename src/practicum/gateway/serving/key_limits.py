"""API keys, what each may use, and the queue in which requests wait for their turn."""

import asyncio
import hashlib
import hmac
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from practicum.gateway.requests import Refused
from practicum.gateway.rollouts import RolloutUse

MINUTE_S = 60.0

TICK_S = 0.1
"""Amounts that come within so long are one entry: tokens are counted one by one."""

KEY_REFUSED = (
    "the key is missing or wrong; send one of this server's as `Authorization: Bearer KEY` or as "
    "`x-api-key: KEY`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A client's key and its limits; 0 and an empty list are no limit."""

    name: str
    key: str
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    """Of prompts and answers together."""
    models: tuple[str, ...] = ()


@dataclass(slots=True)
class _Minute:
    """Amounts of the last sixty seconds, in the order in which they came."""

    entries: deque[tuple[float, int]] = field(default_factory=deque)
    total: int = 0

    def add(self, amount: int) -> None:
        now = time.monotonic()
        if self.entries and now - self.entries[-1][0] < TICK_S:
            now, before = self.entries.pop()
            amount, self.total = amount + before, self.total - before
        self.entries.append((now, amount))
        self.total += amount

    def used(self) -> int:
        while self.entries and self.entries[0][0] <= time.monotonic() - MINUTE_S:
            self.total -= self.entries.popleft()[1]
        return self.total

    def wait_s(self, limit: int) -> int:
        """Whole seconds until less than the limit is used."""
        left = self.used()
        for at, amount in self.entries:
            left -= amount
            if left < limit:
                return max(1, math.ceil(at + MINUTE_S - time.monotonic()))
        return 1


class Client:
    """Whoever has a key, and what was used of its limits."""

    def __init__(self, key: ApiKey) -> None:
        self.key = key
        self.use = RolloutUse()
        """Its answers, which its later requests may go on from."""
        self._requests = _Minute()
        self._tokens = _Minute()
        self._reserved = 0

    @property
    def name(self) -> str:
        """The key's name, for logs."""
        return self.key.name

    @property
    def known_as(self) -> str:
        """The name under which its traffic is recorded; empty on a server without keys."""
        return self.key.name if self.key.key else ""

    def allowed(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the server's models that it may use."""
        models = self.key.models
        return tuple(name for name in names if not models or name in models)

    @contextmanager
    def admit(self, max_tokens: int) -> Iterator["Spending"]:
        """Counts a request, or refuses it; the block says what it takes, when it takes it.

        While it is under way it counts with the tokens that it may still take at most.
        """
        limit = self.key.tokens_per_minute
        if limit and self._tokens.used() + self._reserved >= limit:
            raise self._refused(f"{limit} tokens", self._tokens, "tokens")
        self.count_request()
        spending = Spending(self, min(max_tokens, limit))
        self._reserved += spending.reserved
        try:
            yield spending
        finally:
            self._reserved -= spending.reserved
            spending.reserved = 0

    def count_request(self) -> None:
        """Counts a request, or refuses it, whatever it is for."""
        limit = self.key.requests_per_minute
        if limit and self._requests.used() >= limit:
            raise self._refused(f"{limit} requests", self._requests, "requests")
        self._requests.add(1)

    def _charge(self, tokens: int, freed: int) -> None:
        self._tokens.add(tokens)
        self._reserved -= freed

    def _refused(self, limit: str, used: _Minute, what: str) -> Refused:
        most = getattr(self.key, f"{what}_per_minute")
        return Refused(
            429,
            f"the key {self.name!r} may use {limit} a minute and has; try again later",
            "rate_limit_error",
            retry_after_s=used.wait_s(most),
        )


class Spending:
    """What a request takes: counted at once, and so also where its client hangs up."""

    def __init__(self, client: Client, reserved: int) -> None:
        self._client = client
        self.reserved = reserved
        """Tokens that it may still sample."""

    def read(self, tokens: int) -> None:
        """A prompt was taken in."""
        self._client._charge(tokens, 0)

    def sampled(self, tokens: int) -> None:
        """Tokens were sampled, which may be told after the request is over."""
        freed = min(tokens, self.reserved)
        self.reserved -= freed
        self._client._charge(tokens, freed)


class KeyRing:
    """The clients of a server, found by their keys; without keys everyone is one client."""

    def __init__(self, keys: Sequence[ApiKey] = ()) -> None:
        self._clients = {_digest(key.key): Client(key) for key in keys}
        self._anyone = None if keys else Client(ApiKey(name="anyone", key=""))

    def replace(self, keys: Sequence[ApiKey]) -> str:
        """Takes other keys and limits from now on; what has changed, in words, or nothing.

        Who keeps a name keeps what was used of its limits. Requests under way go on.
        """
        before = {client.name: client for client in self._clients.values()}
        after = {key.name: before.get(key.name) or Client(key) for key in keys}
        said = {
            "new": after.keys() - before.keys(),
            "gone": before.keys() - after.keys(),
            "changed": {key.name for key in keys if after[key.name].key != key},
        }
        for key in keys:
            after[key.name].key = key
        self._clients = {_digest(key.key): after[key.name] for key in keys}
        return "; ".join(
            f"{what}: {', '.join(sorted(names))}" for what, names in said.items() if names
        )

    def find(self, shown: str) -> Client | None:
        """The client of a key, compared in constant time; None if there is none."""
        if self._anyone is not None:
            return self._anyone
        digest, found = _digest(shown), None
        for known, client in self._clients.items():
            if hmac.compare_digest(known, digest):
                found = client
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


class RequestQueue:
    """Lets so many requests be answered at once; others wait, first come first served.

    Args:
        at_once: Requests that are answered at the same time.
        wait_s: Seconds after which a waiting request is refused.
        most_waiting: Requests beyond which the next is refused at once.
    """

    def __init__(self, at_once: int, wait_s: float, most_waiting: int = 1000) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self._wait_s = wait_s
        self._most_waiting = most_waiting
        self.waiting = 0
        self.under_way = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[float]:
        """The block is one request's turn; gives the seconds it waited."""
        started = time.monotonic()
        if self.waiting >= self._most_waiting:
            raise self._refused()
        self.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._turns.acquire()
        except TimeoutError:
            raise self._refused() from None
        finally:
            self.waiting -= 1
        self.under_way += 1
        try:
            yield time.monotonic() - started
        finally:
            self.under_way -= 1
            self._turns.release()

    def _refused(self) -> Refused:
        return Refused(
            429,
            f"{self.under_way} requests are under way and {self.waiting} wait; this one waited "
            f"{self._wait_s:g} s or found too many before it, so try again",
            "rate_limit_error",
            retry_after_s=max(1, round(self._wait_s / 4)),
        )
