"""`ReplicaPool`: replicas as one `Sampler`.

An episode stays with its cache: a prompt that goes on from an earlier completion is sent where that
was sampled, and prompts that are alike are sent to one replica as long as others have no less to
do. A replica has so many requests at once, and the others wait here. One that is lost is started
again or waited for, and is given the adapters anew before it is asked; what it was asked for goes
to others. A request has one completion, whoever gave it: nothing is lost and nothing comes twice.

Everything here happens on the network thread, which goes on while the learner computes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

from practicum.core.errors import PolicyMismatch, PracticumError
from practicum.core.sampling import Completion
from practicum.core.sampling_json import SampleOrder
from practicum.core.task import JSON
from practicum.samplers.replica import (
    PublishedAdapter,
    Replica,
    ReplicaBusy,
    ReplicaFailed,
    ReplicaLost,
    RunsReplica,
)

T = TypeVar("T")

MOST_REMEMBERED = 65_536
"""Prompts and completions of which it is known who has them in its cache."""

SPILL = 4
"""How many requests more than the idlest a replica may have and still be given a like prompt."""

MOST_TRIES = 8
"""Replicas that one request may be lost with: it may be the request that ends them."""

MOST_STARTS = 4
"""Starts of one replica without a completion between them."""

LOOK_S = 0.5
"""Seconds between two looks at a replica that is lost, or has no room."""

LOOKS = 3
"""How often a replica that broke a connection off is looked at before it counts as lost: another
connection may have been about to end as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How much a replica is asked for, and how long it may take."""

    at_once: int
    timeout_s: float
    return_timeout_s: float
    """For a lost replica to come back, where none is left."""
    most: int = 0
    """Replicas that there are at most where requests wait for room; those there are unless more."""


@dataclass(eq=False, slots=True)
class Member:
    """A replica, and what the pool knows of it."""

    replica: Replica
    process: RunsReplica | None = None
    """Where the run has started it."""
    loaded: set[str] = field(default_factory=set)
    is_up: bool = False
    has_failed: str = ""
    """Why it is not started again."""
    generation: int = 0
    """How often it was lost."""
    in_flight: int = 0
    starts_in_a_row: int = 0
    loading: asyncio.Lock = field(default_factory=asyncio.Lock)
    keeper: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class PoolCounts:
    """What has happened so far."""

    completions: int = 0
    """Whole turns, or choices where a replica is asked for each."""
    publish_s: float = 0.0
    """Seconds until a new version could be sampled from, all of them together."""
    moved: int = 0
    """Requests that were asked again, because their replica was lost."""
    lost: int = 0
    """Times that a replica was lost."""
    returned: int = 0
    """Times that one came back."""
    stayed: int = 0
    """Requests that went where their episode's earlier ones were sampled."""
    strayed: int = 0
    """Those that did not."""
    added: int = 0
    """Replicas that were started because requests waited for room."""


class ReplicaPool:
    """The replicas of a run; all methods but the properties run on the network thread."""

    def __init__(
        self,
        members: Sequence[Member],
        limits: PoolLimits,
        another: Callable[[int], Member] | None = None,
    ) -> None:
        self._members, self._limits = list(members), limits
        self._another, self._fewest = another, len(members)
        """What makes one more, given its number, and how many stay in any case."""
        self._growing: asyncio.Task[None] | None = None
        self._has_waited = False
        """Whether a request has waited for room since the last version."""
        self._adapters: list[PublishedAdapter] = []
        self._owners: OrderedDict[int, Member] = OrderedDict()
        self._changed = asyncio.Event()
        self._failure: PracticumError | None = None
        self.context_tokens = 0
        """Most tokens of prompt and completion together."""
        self.counts = PoolCounts()

    @property
    def failure(self) -> PracticumError | None:
        """Why the run must stop, where a replica did what it must not."""
        return self._failure

    @property
    def replicas(self) -> list[Replica]:
        """All of them, whether they are up or not."""
        return [member.replica for member in self._members]

    async def open(self) -> None:
        """Start what is to be started, and wait until every replica answers."""
        for member in self._members:
            if member.process is not None:
                member.process.start()
                member.starts_in_a_row += 1
        await _all(self._begin(member) for member in self._members)

    async def _begin(self, member: Member) -> None:
        if member.process is not None:
            await member.process.until(lambda: self._answers(member))
        elif not await self._answers(member):
            raise ReplicaFailed(
                f"{member.replica.name} cannot be reached; start it, or take it out of sampler.urls"
            )
        member.is_up = True

    async def _answers(self, member: Member) -> bool:
        try:
            facts = await member.replica.facts()
        except (ReplicaLost, ReplicaBusy):
            return False
        known = self.context_tokens
        self.context_tokens = min(known, facts.context_tokens) if known else facts.context_tokens
        return True

    @property
    def newest(self) -> PublishedAdapter:
        """What completions are drawn from now."""
        return self._adapters[-1]

    async def publish(self, adapter: PublishedAdapter, keep: int) -> list[PublishedAdapter]:
        """Give every replica an adapter, and take from them all but the newest `keep`.

        Returns:
            Those that no replica has any more.
        """
        while True:
            up = [member for member in self._members if member.is_up]
            if any(await _all(self._give_in_time(member, adapter) for member in up)):
                break
            await self._any_up()
        await self._shrink()
        self._adapters.append(adapter)
        old, self._adapters = self._adapters[:-keep], self._adapters[-keep:]
        for one in old:
            for member in self._members:
                if member.is_up and one.name in member.loaded:
                    await self._take(member, one)
        return old

    async def _give_in_time(self, member: Member, adapter: PublishedAdapter) -> bool:
        async with self._bounded("take an adapter", member):
            return await self._give(member, adapter)

    async def _give(self, member: Member, adapter: PublishedAdapter) -> bool:
        """Whether the replica has the adapter now."""
        async with member.loading:
            if adapter.name in member.loaded:
                return True
            generation = member.generation
            try:
                await _once_there_is_room(lambda: member.replica.load(adapter))
            except ReplicaLost as lost:
                await self._look_after(member, generation, str(lost))
                return False
            except PracticumError as error:
                raise self._fail(error) from None
            member.loaded.add(adapter.name)
            return True

    async def _take(self, member: Member, adapter: PublishedAdapter) -> None:
        member.loaded.discard(adapter.name)
        with suppress(ReplicaLost, ReplicaBusy):
            await member.replica.unload(adapter)

    async def check(self) -> None:
        """Raise `PolicyMismatch` with the replicas whose newest adapter is not what it must be."""
        if not self._adapters:
            return
        newest, wrong = self._adapters[-1], list[str]()
        for member in self._members:
            if member.is_up and newest.name in member.loaded:
                try:
                    async with asyncio.timeout(self._limits.timeout_s):
                        await member.replica.check(newest)
                except PolicyMismatch as error:
                    wrong.append(str(error))
                except (ReplicaLost, ReplicaBusy, TimeoutError):
                    continue
        if wrong:
            raise PolicyMismatch("; ".join(wrong))

    async def draw(self, order: SampleOrder, adapter: PublishedAdapter) -> Completion:
        """One completion from an adapter, by whichever replica."""
        trail, why = _trail(order.request.prompt_ids), ""
        for _ in range(MOST_TRIES):
            member, is_mine = await self._place(trail)
            generation = member.generation
            try:
                completion = await self._ask(member, order, adapter)
            except ReplicaLost as lost:
                completion, why = None, str(lost)
                await self._look_after(member, generation, why)
            finally:
                member.in_flight -= 1
                self._changed.set()
            if completion is not None:
                self._note(member, completion, trail, is_mine)
                return completion
            self.counts.moved += 1
        raise self._fail(
            ReplicaFailed(
                f"one completion was asked for {MOST_TRIES} times and never answered; at last "
                f"{why or member.replica.name}; see what ends the replicas, or lower "
                "sampler.at_once"
            )
        )

    async def _ask(
        self, member: Member, order: SampleOrder, adapter: PublishedAdapter
    ) -> Completion | None:
        """A completion; None where the replica could not be given the adapter."""
        async with self._bounded("answer", member):
            if not await self._give(member, adapter):
                return None
            try:
                return await _once_there_is_room(lambda: member.replica.draw(order, adapter))
            except (PolicyMismatch, ReplicaFailed) as error:
                raise self._fail(error) from None

    def _note(
        self,
        member: Member,
        completion: Completion,
        trail: Sequence[int],
        is_mine: bool | None,
    ) -> None:
        member.starts_in_a_row = 0
        self.counts.completions += 1
        if is_mine is not None:
            self.counts.stayed += is_mine
            self.counts.strayed += not is_mine
        whole = trail[-1] if trail else 0
        self._own(whole, member)
        for token in completion.token_ids:
            whole = hash((whole, token))
        self._own(whole, member)

    def _own(self, place: int, member: Member) -> None:
        self._owners[place] = member
        self._owners.move_to_end(place)
        if len(self._owners) > MOST_REMEMBERED:
            self._owners.popitem(last=False)

    async def _place(self, trail: Sequence[int]) -> tuple[Member, bool | None]:
        """A replica with room, and whether it has the episode's earlier turns; None for a first."""
        while True:
            if self._failure is not None:
                raise self._failure
            owner, goes_on = self._owner(trail)
            free = [m for m in self._members if m.is_up and m.in_flight < self._limits.at_once]
            chosen = _choose(free, owner, goes_on)
            if chosen is not None:
                chosen.in_flight += 1
                return chosen, (chosen is owner) if goes_on else None
            self._changed.clear()
            self._grow()
            if any(member.is_up for member in self._members):
                await self._changed.wait()
            else:
                await self._any_up()

    def _grow(self) -> None:
        """Requests wait: have one replica more, as long as there may be."""
        self._has_waited = True
        there = len(self._members)
        if self._growing is None and self._another is not None and there < self._limits.most:
            self._growing = asyncio.create_task(self._add(self._another(there)))

    async def _add(self, member: Member) -> None:
        assert member.process is not None
        try:
            member.process.start()
            await self._begin(member)
        except PracticumError:  # there is no room for more: those that are there go on
            await asyncio.to_thread(member.process.close)
            self._limits = replace(self._limits, most=len(self._members))
        else:
            self._members.append(member)
            self.counts.added += 1
        self._growing = None
        self._changed.set()

    async def _shrink(self) -> None:
        """End the last replica that was added, where nobody has waited since the last version."""
        idle, self._has_waited = not self._has_waited, False
        last = self._members[-1]
        if idle and len(self._members) > self._fewest and last.in_flight == 0:
            self._members.pop()
            last.is_up = False
            await self._end(last)

    async def _end(self, member: Member) -> None:
        if member.keeper is not None:
            member.keeper.cancel()
        await member.replica.close()
        if member.process is not None:
            await asyncio.to_thread(member.process.close)

    def _owner(self, trail: Sequence[int]) -> tuple[Member | None, bool]:
        """Who has the longest beginning of a prompt, and whether an episode goes on from there."""
        for back, place in enumerate(reversed(trail)):
            owner = self._owners.get(place)
            if owner is not None:
                return owner, back > 0
        return None, False

    @asynccontextmanager
    async def _bounded(self, what: str, member: Member) -> AsyncIterator[None]:
        """Raise a sentence with the replica's name where the block takes longer than it may."""
        limit = self._limits.timeout_s
        try:
            async with asyncio.timeout(limit) as clock:
                yield
        except TimeoutError:
            if not clock.expired():
                raise
            raise self._fail(
                ReplicaFailed(
                    f"{member.replica.name} did not {what} within {limit:g} s, and the run has "
                    "stopped; see what holds it up, or raise sampler.timeout_s, and go on with "
                    "--resume"
                )
            ) from None

    def _fail(self, error: PracticumError) -> PracticumError:
        """Note why the run must stop, so that whoever waits stops too."""
        self._failure = self._failure or error
        self._changed.set()
        return error

    async def _look_after(self, member: Member, generation: int, why: str) -> None:
        """After a connection broke off: whether the replica is lost, and that it comes back.

        What it had may be gone, so it is given every adapter anew.
        """
        if not member.is_up or member.generation != generation:
            return  # somebody else has noticed
        member.loaded.clear()
        for _ in range(LOOKS):
            if await self._answers(member):
                return
            if not member.is_up or member.generation != generation:
                return
            if member.process is not None and not member.process.runs:
                break
            await asyncio.sleep(LOOK_S / LOOKS)
        if not member.is_up or member.generation != generation:
            return
        member.is_up = False
        member.generation += 1
        self.counts.lost += 1
        member.keeper = asyncio.create_task(self._bring_back(member, why))

    async def _bring_back(self, member: Member, why: str) -> None:
        """Start a replica again, or wait until it answers."""
        try:
            if member.process is None:
                while not await self._answers(member):
                    await asyncio.sleep(LOOK_S)
            else:
                await self._start_again(member, member.process)
        except PracticumError as error:
            member.has_failed = f"{why}; {error}"
        else:
            member.is_up = True
            self.counts.returned += 1
        self._changed.set()

    async def _start_again(self, member: Member, process: RunsReplica) -> None:
        """Until it answers; one that ends while it starts, as with its node, is started anew."""
        while member.starts_in_a_row < MOST_STARTS:
            member.starts_in_a_row += 1
            await asyncio.to_thread(process.start)
            try:
                return await process.until(lambda: self._answers(member))
            except ReplicaFailed:
                if process.runs:
                    raise
        raise ReplicaFailed(
            f"{member.replica.name} ended {member.starts_in_a_row} times in a row{process.said()}"
        )

    async def _any_up(self) -> None:
        """Wait for a lost replica; raise where none comes back."""
        limit = self._limits.return_timeout_s
        try:
            async with asyncio.timeout(limit):
                while not any(member.is_up for member in self._members):
                    if all(member.has_failed for member in self._members):
                        raise self._fail(
                            ReplicaFailed("; ".join(m.has_failed for m in self._members))
                        )
                    await asyncio.sleep(LOOK_S / 5)
        except TimeoutError:
            names = " and ".join(member.replica.name for member in self._members)
            raise self._fail(
                ReplicaFailed(
                    f"{names} did not come back within {limit:g} s, and the run has stopped; start "
                    "it again and go on with --resume"
                )
            ) from None

    def metrics(self) -> dict[str, JSON]:
        """What a step's metrics show, all of it added up."""
        counts = self.counts
        return {
            "replicas": sum(member.is_up for member in self._members),
            "replica_completions": counts.completions,
            "replica_losses": counts.lost,
            "replica_returns": counts.returned,
            "replicas_added": counts.added,
            "moved_requests": counts.moved,
            "stayed_requests": counts.stayed,
            "strayed_requests": counts.strayed,
            "publish_s": counts.publish_s,
        }

    def forget(self) -> None:
        """Which replica has which prompt."""
        self._owners.clear()

    async def close(self) -> None:
        """Give up all adapters, close connections, and end what was started."""
        if self._growing is not None:
            self._growing.cancel()
        for member in self._members:
            if member.process is None and member.is_up:
                for adapter in self._adapters:
                    if adapter.name in member.loaded:
                        await self._take(member, adapter)
        await asyncio.gather(*(self._end(member) for member in self._members))


def _choose(free: Sequence[Member], owner: Member | None, goes_on: bool) -> Member | None:
    """The replica for a prompt; None where it waits for room."""
    if owner is not None and owner.is_up and goes_on:
        return owner if owner in free else None
    if not free:
        return None
    idlest = min(free, key=lambda member: member.in_flight)
    if owner is not None and owner in free and owner.in_flight < idlest.in_flight + SPILL:
        return owner
    return idlest


def _trail(tokens: Sequence[int]) -> list[int]:
    """A number for every beginning of the tokens, the same for the same beginning."""
    found, place = [], 0
    for token in tokens:
        place = hash((place, token))
        found.append(place)
    return found


async def _all(work: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all; the first error comes after all are done, so that none goes on alone."""
    results = await asyncio.gather(*work, return_exceptions=True)
    found: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        found.append(result)
    return found


async def _once_there_is_room(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until a replica has room."""
    while True:
        try:
            return await ask()
        except ReplicaBusy:
            await asyncio.sleep(LOOK_S)
