"""Open rollouts: each has an id, its own key, and limits on turns, tokens, time and concurrency.

`OpenRollouts` finds a rollout by its key and enforces its limits; `RolloutController` opens,
rewards and closes rollouts for programs outside, and stores them.
"""

import asyncio
import hashlib
import hmac
import math
import re
import secrets
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from practicum.core.conversation import RolloutLimits
from practicum.core.errors import PracticumError
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.trace import Message, Trace
from practicum.gateway.capture import CapturedConversation, turn_seed
from practicum.gateway.requests import Refused

KEY = re.compile(r"rk_([0-9a-f]{12})_([0-9a-f]{32})")
"""A rollout's key: the rollout's id and 128 random bits."""

MOST_CLOSED = 10_000
"""Closed rollouts whose keys are remembered, to answer 409 and not 401."""

MOST_WAITING = 1_000
"""Requests of a rollout that wait until fewer are in progress; one more is refused."""

MOST_WAITING_BYTES = 64 * 1024 * 1024
"""Bytes of the requests that wait so."""

MOST_ANSWERS = 256
"""Most answers of a rollout that later requests can continue by `previous_response_id`."""


@dataclass(slots=True)
class RolloutUse:
    """What a rollout has used of its limits, and its requests in progress."""

    turns: int = 0
    tokens: int = 0
    reserved: int = 0
    """Tokens that requests in progress may still sample."""
    under_way: int = 0
    """Requests in progress."""
    opened: float = field(default_factory=time.monotonic)
    is_closed: bool = False
    answers: OrderedDict[str, tuple[Message, ...]] = field(default_factory=OrderedDict)
    """Conversations by the id of their last answer."""
    tasks: "set[asyncio.Task[Any]]" = field(default_factory=set)
    """Tasks of the requests in progress, which closing the rollout cancels."""
    waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque)
    """Requests that wait until fewer are in progress, oldest first."""
    waiting_bytes: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    """Parameters of requests that were ignored, where the gateway is told to."""

    def wake(self, count: int) -> None:
        """Let so many of the waiting requests look again."""
        while count and self.waiting:
            freed = self.waiting.popleft()
            if not freed.done():  # its client may just have gone away
                freed.set_result(None)
                count -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """An open rollout."""

    id: str
    key: str
    """Only in the object that `open` returns; the registry has only its digest."""
    conversation: CapturedConversation
    limits: RolloutLimits
    use: RolloutUse = field(default_factory=RolloutUse)

    @property
    def time_left_s(self) -> float | None:
        """Seconds until its deadline; None if it has none."""
        if not self.limits.deadline_s:
            return None
        return self.use.opened + self.limits.deadline_s - time.monotonic()

    def keep_answer(self, answer_id: str, messages: tuple[Message, ...]) -> None:
        """Stores a conversation under its last answer's id, and drops the oldest."""
        self.use.answers[answer_id] = messages
        while len(self.use.answers) > MOST_ANSWERS:
            self.use.answers.popitem(last=False)


@dataclass(slots=True)
class Admission:
    """A request that was admitted."""

    use: RolloutUse
    max_tokens: int
    """Most tokens of each of its turns: as requested, or what is left of the rollout's limit."""
    reserved: int
    """Tokens that it may still sample."""
    turns: int = 0
    """Turns that were taken; set by the caller."""

    def charge(self, tokens: int) -> None:
        """Counts what was sampled, when it was: it stays counted however the request ends."""
        self.use.tokens += tokens
        self.release(min(tokens, self.reserved))

    def release(self, tokens: int) -> None:
        """Gives back reserved tokens."""
        self.reserved -= tokens
        self.use.reserved -= tokens


class OpenRollouts:
    """The registry of open rollouts. It stores only digests of their keys.

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
        """Gives a conversation an id and a key. Only the returned object has the key."""
        rollout_id = secrets.token_hex(6)
        key = f"rk_{rollout_id}_{secrets.token_hex(16)}"
        rollout = Rollout(
            id=rollout_id, key=key, conversation=conversation, limits=limits or RolloutLimits()
        )
        self._open[rollout_id] = (_digest(key), replace(rollout, key=""))
        return rollout

    def find(self, rollout_id: str | None, key: str) -> Rollout:
        """The rollout of a key; raises `Refused` if the key is wrong or of another rollout.

        `rollout_id` is the id in the URL, or None.
        """
        match = KEY.fullmatch(key)
        if match is None:
            raise Refused(401, KEY_REFUSED, "authentication_error")
        key_id = match[1]
        digest, rollout = self._open.get(key_id, (self._closed.get(key_id, bytes(32)), None))
        # An unknown id is compared with a digest of zeros, in constant time as any other.
        if not hmac.compare_digest(digest, _digest(key)):
            raise Refused(401, KEY_REFUSED, "authentication_error")
        if rollout_id is not None and rollout_id != key_id:
            raise Refused(
                403,
                f"this key belongs to the rollout {key_id}; use it at /rollouts/{key_id}/v1",
                "permission_error",
            )
        if rollout is None:
            raise closed(key_id)
        return rollout

    def get(self, rollout_id: str) -> Rollout | None:
        """An open rollout by its id, without a key: for the controller only."""
        return self._open.get(rollout_id, (b"", None))[1]

    def all(self) -> list[Rollout]:
        """Every open rollout, oldest first."""
        return [rollout for _, rollout in self._open.values()]

    def close(self, rollout_id: str) -> None:
        """Refuses the rollout's key from now on and cancels its requests. May be called twice."""
        digest, rollout = self._open.pop(rollout_id, (b"", None))
        if rollout is None:
            return
        rollout.use.is_closed = True
        rollout.use.wake(MOST_WAITING)
        for task in rollout.use.tasks:
            task.cancel()
        self._closed[rollout_id] = digest
        while len(self._closed) > MOST_CLOSED:
            self._closed.popitem(last=False)

    async def wait_for_place(self, rollout: Rollout, most_s: float, size: int = 0) -> None:
        """Waits while as many of the rollout's requests are in progress as may be at once.

        `size` is how long the request is: too many bytes do not wait, as too many requests.
        """
        use, limit = rollout.use, rollout.limits.concurrency
        is_crowded = use.waiting_bytes + size > MOST_WAITING_BYTES and use.under_way >= limit > 0
        if len(use.waiting) >= MOST_WAITING or is_crowded:
            raise _too_many(use.under_way)
        use.waiting_bytes += size
        try:
            await self._wait(rollout, most_s)
        finally:
            use.waiting_bytes -= size

    async def _wait(self, rollout: Rollout, most_s: float) -> None:
        use, limit = rollout.use, rollout.limits.concurrency
        left_s = rollout.time_left_s
        seconds = most_s if left_s is None else min(most_s, max(left_s, 0.0))
        try:
            async with asyncio.timeout(seconds):
                while limit and use.under_way >= limit and not use.is_closed:
                    freed = asyncio.get_running_loop().create_future()
                    use.waiting.append(freed)
                    try:
                        await freed
                    except asyncio.CancelledError:
                        if freed.done() and not freed.cancelled():
                            use.wake(1)  # its turn is another's
                        elif freed in use.waiting:
                            use.waiting.remove(freed)
                        raise
        except TimeoutError:
            raise _too_many(use.under_way) from None

    @contextmanager
    def admit(self, rollout: Rollout, *, turns: int, max_tokens: int) -> Iterator[Admission]:
        """Admits a request for `turns` turns, or raises `Refused` by the rollout's limits.

        Turns and tokens are reserved during the block, and what was not used is returned after it.
        Tokens that were sampled are used, also where the request is cancelled or fails.
        """
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
        admission = Admission(use=use, max_tokens=max_tokens, reserved=turns * max_tokens)
        use.under_way += 1
        use.turns += turns
        use.reserved += admission.reserved
        try:
            yield admission
        finally:
            use.under_way -= 1
            use.wake(1)
            use.turns -= turns - admission.turns
            admission.release(admission.reserved)


KEY_REFUSED = (
    "the key is missing or wrong; send the rollout's own as `Authorization: Bearer KEY` or as "
    "`x-api-key: KEY`"
)


def closed(rollout_id: str) -> Refused:
    """The refusal for a closed rollout."""
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
        raise _too_many(use.under_way)


def _too_many(under_way: int) -> Refused:
    return Refused(
        429,
        f"{under_way} requests of this rollout are under way, which is its limit; "
        "send this one when one of them is answered",
        "rate_limit_error",
    )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


STORE_RETRY_S = 5
"""When to close a rollout again that could not be stored."""

ENVIRONMENT = "gateway"
"""The environment's name in traces of programs that Practicum does not run."""


@dataclass(slots=True)
class RolloutRecord:
    """The controller's data on a rollout."""

    task_id: str
    started_at: float
    score: Score


class RolloutController:
    """Opens, rewards and closes rollouts for programs that Practicum does not run.

    Args:
        rollouts: The registry.
        converse: Makes a new conversation with the model from a seed.
        keep: Called with the episode of every closed rollout.
        model: The model's name.
        seed: The seed from which the rollouts' seeds are derived, in the order of opening.
    """

    def __init__(
        self,
        rollouts: OpenRollouts,
        converse: Callable[[int], CapturedConversation],
        keep: Callable[[Episode], None],
        *,
        model: str = "",
        seed: int = 0,
    ) -> None:
        self._rollouts = rollouts
        self._converse = converse
        self._keep = keep
        self._model = model
        self._seed = seed
        self._opened = 0
        self._records: dict[str, RolloutRecord] = {}

    def open(self, limits: RolloutLimits, task_id: str = "") -> Rollout:
        """Opens a rollout. Only the returned object has its key."""
        conversation = self._converse(turn_seed(self._seed, self._opened))
        self._opened += 1
        rollout = self._rollouts.open(conversation, limits)
        self._records[rollout.id] = RolloutRecord(
            task_id=task_id or rollout.id,
            started_at=time.time(),
            score=Score.unscored("no reward was given"),
        )
        return rollout

    def open_rollouts(self) -> list[tuple[Rollout, RolloutRecord]]:
        """The open rollouts, oldest first."""
        return [(found, self._records[found.id]) for found in self._rollouts.all()]

    def reward(self, rollout_id: str, components: Mapping[str, float]) -> Score:
        """Sets a rollout's score, replacing an earlier one."""
        record = self._records.get(rollout_id)
        if record is None:
            raise _unknown(rollout_id)
        for name, value in components.items():
            if not math.isfinite(value):
                raise Refused(400, f"the reward {name!r:.60} is {value}; it must be a number")
        record.score = Score(components=dict(components))
        return record.score

    def close(self, rollout_id: str) -> Episode:
        """Stores a rollout's episode and closes it; where it cannot be stored, it stays open.

        Nothing is sampled between the two: both are done in one step of the event loop.
        """
        episode = self._episode(rollout_id)
        try:
            self._keep(episode)
        except (PracticumError, OSError) as error:
            raise Refused(
                503,
                f"the rollout {rollout_id} is not stored and stays open: {error!s:.300}; close it "
                "again when that is mended",
                "overloaded_error",
                retry_after_s=STORE_RETRY_S,
            ) from error
        self._forget(rollout_id)
        return episode

    def _forget(self, rollout_id: str) -> None:
        del self._records[rollout_id]
        self._rollouts.close(rollout_id)

    def _episode(self, rollout_id: str) -> Episode:
        """What an open rollout has come to."""
        rollout, record = self._rollouts.get(rollout_id), self._records.get(rollout_id)
        if rollout is None or record is None:
            raise _unknown(rollout_id)
        trace = Trace(
            id=f"{ENVIRONMENT}/{rollout_id}",
            task_id=record.task_id,
            env=ENVIRONMENT,
            nodes=tuple(rollout.conversation.nodes),
            model=self._model,
            started_at=record.started_at,
            duration_s=time.time() - record.started_at,
            tools=rollout.conversation.tools,
        )
        return Episode(trace=trace, outcome=None, score=record.score)

    def close_all(self, put_aside: Callable[[Episode, str], None] | None = None) -> int:
        """Closes every open rollout; returns how many there were.

        `put_aside` is given those that cannot be stored, and why.
        """
        names = [rollout.id for rollout, _ in self.open_rollouts()]
        for name in names:
            try:
                self.close(name)
            except Refused as refused:
                if put_aside is None:
                    raise
                put_aside(self._episode(name), str(refused.__cause__))
                self._forget(name)
        return len(names)


def _unknown(rollout_id: str) -> Refused:
    return Refused(404, f"there is no open rollout {rollout_id!r:.60}", "not_found_error")
