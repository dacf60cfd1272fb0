"""Rollouts that programs can reach: each has an id, a key of its own, and limits."""

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from practicum.core.conversing import RolloutLimits
from practicum.core.trace import Message
from practicum.gateway.capture import CapturedConversation
from practicum.gateway.requests import Refused

__all__ = ["Admission", "OpenRollouts", "Rollout", "RolloutUse", "closed"]

KEY = re.compile(r"rk_([0-9a-f]{12})_([0-9a-f]{32})")
"""A rollout's key: which rollout, and 128 bits that nobody guesses."""

MOST_CLOSED = 10_000
"""Closed rollouts that are remembered, so that their keys are told why they no longer work."""

MOST_ANSWERS = 256
"""Answers of a rollout that a later request can name instead of sending the conversation."""


@dataclass(slots=True)
class RolloutUse:
    """What a rollout has used so far, and what it is using."""

    turns: int = 0
    tokens: int = 0
    reserved: int = 0
    """Tokens that requests under way may still sample."""
    under_way: int = 0
    """Requests under way."""
    opened: float = field(default_factory=time.monotonic)
    is_closed: bool = False
    answers: OrderedDict[str, tuple[Message, ...]] = field(default_factory=OrderedDict)
    """Conversations by the id of the answer that ended them."""
    tasks: "set[asyncio.Task[Any]]" = field(default_factory=set)
    """Requests under way, as tasks: closing the rollout ends them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A rollout as whoever opened it holds it."""

    id: str
    key: str
    """Empty in what the registry keeps: it knows only the key's digest."""
    conversation: CapturedConversation
    limits: RolloutLimits
    use: RolloutUse = field(default_factory=RolloutUse)

    @property
    def time_left_s(self) -> float | None:
        """Until its deadline; None where it has none."""
        if not self.limits.deadline_s:
            return None
        return self.use.opened + self.limits.deadline_s - time.monotonic()

    def keep_answer(self, answer_id: str, messages: tuple[Message, ...]) -> None:
        """Keep a conversation for requests that name its last answer."""
        self.use.answers[answer_id] = messages
        while len(self.use.answers) > MOST_ANSWERS:
            self.use.answers.popitem(last=False)


@dataclass(slots=True)
class Admission:
    """A request that was let in."""

    max_tokens: int
    """What each of its turns may sample: what was asked for, or what is left of the limit."""
    sampled: int = 0
    """Filled in when it is over."""
    turns: int = 0


class OpenRollouts:
    """Every rollout that can be reached. Keys are kept as digests only.

    >>> registry = OpenRollouts()
    >>> len(registry)
    0
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[bytes, Rollout]] = {}
        self._closed: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def open(
        self, conversation: CapturedConversation, limits: RolloutLimits | None = None
    ) -> Rollout:
        """Give a conversation an id and a key. The key is in what is returned, and nowhere else."""
        rollout_id = secrets.token_hex(6)
        key = f"rk_{rollout_id}_{secrets.token_hex(16)}"
        rollout = Rollout(
            id=rollout_id, key=key, conversation=conversation, limits=limits or RolloutLimits()
        )
        self._open[rollout_id] = (_digest(key), replace(rollout, key=""))
        return rollout

    def find(self, rollout_id: str | None, key: str) -> Rollout:
        """The rollout a key belongs to; `Refused` where it has none or belongs to another.

        `rollout_id` is the one in the address, None where the address names none.
        """
        named = KEY.fullmatch(key)
        if named is None:
            raise Refused(401, NO_KEY, "authentication_error")
        own = named[1]
        digest, rollout = self._open.get(own, (self._closed.get(own, bytes(32)), None))
        if not hmac.compare_digest(digest, _digest(key)):
            raise Refused(401, NO_KEY, "authentication_error")
        if rollout_id is not None and rollout_id != own:
            raise Refused(
                403,
                f"this key belongs to the rollout {own}; use it at /rollouts/{own}/v1",
                "permission_error",
            )
        if rollout is None:
            raise closed(own)
        return rollout

    def get(self, rollout_id: str) -> Rollout | None:
        """An open rollout by its id, for whoever controls them."""
        return self._open.get(rollout_id, (b"", None))[1]

    def all(self) -> list[Rollout]:
        """Every open rollout, oldest first."""
        return [rollout for _, rollout in self._open.values()]

    def close(self, rollout_id: str) -> None:
        """From now on its key is refused, and what is under way ends. May be called twice."""
        digest, rollout = self._open.pop(rollout_id, (b"", None))
        if rollout is None:
            return
        rollout.use.is_closed = True
        for task in rollout.use.tasks:
            task.cancel()
        self._closed[rollout_id] = digest
        while len(self._closed) > MOST_CLOSED:
            self._closed.popitem(last=False)

    @contextmanager
    def admit(self, rollout: Rollout, *, turns: int, max_tokens: int) -> Iterator[Admission]:
        """Let a request in that samples `turns` turns, or refuse it by the rollout's limits."""
        use, limits = rollout.use, rollout.limits
        _check(rollout, turns)
        if limits.max_tokens:
            left = limits.max_tokens - use.tokens - use.reserved
            if left < turns:
                raise Refused(
                    429,
                    f"the rollout may sample {limits.max_tokens} tokens and has used them; "
                    "close it, or open one with a larger limit",
                    "token_limit",
                )
            max_tokens = min(max_tokens, left // turns)
        admission = Admission(max_tokens=max_tokens)
        use.under_way += 1
        use.turns += turns
        use.reserved += turns * max_tokens
        try:
            yield admission
        finally:
            use.under_way -= 1
            use.turns -= turns - admission.turns
            use.reserved -= turns * max_tokens
            use.tokens += admission.sampled


NO_KEY = (
    "the key is missing or wrong; send the rollout's own as `Authorization: Bearer KEY` or as "
    "`x-api-key: KEY`"
)


def closed(rollout_id: str) -> Refused:
    """The refusal of a rollout that is over."""
    return Refused(
        409,
        f"the rollout {rollout_id} is closed; its episode is over, so open another",
        "conflict_error",
    )


def _check(rollout: Rollout, turns: int) -> None:
    use, limits = rollout.use, rollout.limits
    if use.is_closed:
        raise closed(rollout.id)
    left_s = rollout.time_left_s
    if left_s is not None and left_s <= 0:
        raise Refused(
            429, f"the rollout's {limits.deadline_s:g} s are over; open another", "deadline"
        )
    if limits.max_turns and use.turns + turns > limits.max_turns:
        raise Refused(
            429,
            f"the rollout may take {limits.max_turns} turns and has taken {use.turns}; "
            "close it, or open one with a larger limit",
            "turn_limit",
        )
    if limits.concurrency and use.under_way >= limits.concurrency:
        raise Refused(
            429,
            f"{use.under_way} requests of this rollout are under way, which is its limit; "
            "send this one when one of them is answered",
            "rate_limit_error",
        )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
