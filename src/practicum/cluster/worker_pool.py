"""`WorkerPool`: the actors in which a run's episodes take place.

An episode is on one worker from its first turn to its outcome. What is lost with a worker is the
episodes that were on it: each of these begins anew on another one (`MachineFailure`), with its own
seed, so that it is what it would have been. The worker itself is started again, wherever there is
room. Everything here happens on the network thread, which goes on while the learner computes.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from practicum.cluster.actor_link import ActorLink, ActorLost, ActorRefused
from practicum.cluster.connection import Room
from practicum.cluster.environment_actor import Shown
from practicum.core.errors import EnvironmentFailure, MachineFailure, UserError
from practicum.core.interfaces import Observation
from practicum.core.task import JSON, Outcome, Task
from practicum.core.trace import Message, ToolCall

MOST_STARTS = 5
"""Starts of one worker without an episode that ended between them."""

ENOUGH = 3
"""Times that one and the same turn ends the process it is taken in, until it is the policy's doing
and no accident."""

CLOSING_S = 30.0
"""Seconds that a worker has for closing one session; one that takes longer is held up for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """How many workers there are, and how long is waited for them."""

    fewest: int
    most: int
    episodes: int
    """That one has at once."""
    idle_s: float
    """After which one more than the fewest is ended."""
    startup_timeout_s: float


@dataclass(eq=False, slots=True)
class Turn:
    """A turn that is being taken."""

    has_company: bool
    """Whether another one was taken on its worker meanwhile, which may be what ended that."""


@dataclass(eq=False, slots=True)
class Worker:
    """One actor, and what the pool knows of it."""

    link: ActorLink
    is_up: bool = False
    has_failed: str = ""
    """Why it is not started again."""
    generation: int = 0
    """How often it was lost."""
    in_use: int = 0
    """Episodes on it."""
    turns: "list[Turn]" = field(default_factory=list)
    """Those that are being taken on it right now."""
    starts_in_a_row: int = 0
    keeper: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class WorkerCounts:
    """What has happened so far."""

    episodes: int = 0
    """Sessions that were opened."""
    moved: int = 0
    """Episodes that were lost with their worker, to begin anew on another."""
    lost: int = 0
    returned: int = 0
    waited: int = 0
    """Episodes that waited for room."""
    blamed: int = 0
    """Turns that ended every process they were taken in."""


@dataclass(eq=False, slots=True)
class RemoteEpisode:
    """One episode on a worker."""

    id: str
    task: Task
    worker: Worker
    generation: int
    shown: Shown | None = None
    blamed: str = ""
    """Why it has failed, where a turn of its policy ends the processes that it is taken in."""
    is_counted: bool = field(default=False)


class WorkerPool:
    """The workers of a run.

    Args:
        make: The link to a worker, given its number.
        room: What is held for the fewest.
        connect: Connects to the cluster; may block.
        limits: How many, and how long.
    """

    def __init__(
        self,
        make: Callable[[int], ActorLink],
        room: Room,
        connect: Callable[[], None],
        limits: WorkerLimits,
    ) -> None:
        self._make, self._room, self._connect, self._limits = make, room, connect, limits
        self._workers: list[Worker] = []
        self._changed = asyncio.Event()
        self._opening = asyncio.Lock()
        self._places = 0
        """Episodes that have a place."""
        self._ended: Counter[tuple[str, str]] = Counter()
        self._sandbox_kind = ""
        self.counts = WorkerCounts()

    async def open(self) -> None:
        """Connect, and start the fewest; done when one answers. Does nothing where they run."""
        async with self._opening:
            if self._workers:
                return
            await asyncio.to_thread(self._connect)
            await self._room.hold(self._limits.startup_timeout_s)
            for _ in range(self._limits.fewest):
                self._add()
            await self._until_up()

    def _add(self) -> None:
        worker = Worker(link=self._make(len(self._workers)))
        self._workers.append(worker)
        worker.keeper = asyncio.create_task(self._bring_up(worker))

    async def _bring_up(self, worker: Worker) -> None:
        """Start a worker until it answers, or has failed for good."""
        worker.starts_in_a_row += 1
        if worker.starts_in_a_row > MOST_STARTS:
            worker.has_failed = (
                f"{worker.link.name} ended {MOST_STARTS} times in a row{worker.link.said()}"
            )
        else:
            worker.link.start()
            try:
                async with asyncio.timeout(self._limits.startup_timeout_s):
                    about = await worker.link.ask("about", is_starting=True)
            except TimeoutError:
                limit = self._limits.startup_timeout_s
                worker.has_failed = (
                    f"{worker.link.name} did not start within {limit:g} s; see whether the "
                    "cluster has room for it (practicum cluster status), or raise "
                    "cluster.startup_timeout_s"
                )
            except ActorRefused as refused:
                worker.has_failed = (
                    f"{worker.link.name} cannot make the environment: {refused.sentence}"
                )
            except ActorLost:
                await self._bring_up(worker)
                return
            else:
                self._sandbox_kind = about["sandbox_kind"]
                worker.is_up = True
                self.counts.returned += worker.generation > 0
        self._changed.set()

    async def _until_up(self) -> None:
        """Wait for any worker; raise where none is left."""
        while not any(worker.is_up for worker in self._workers):
            if all(worker.has_failed for worker in self._workers):
                raise UserError("; ".join(worker.has_failed for worker in self._workers))
            self._changed.clear()
            await self._changed.wait()

    async def sandbox_kind(self) -> str:
        """What commands of episodes are kept in, on the worker that answered last."""
        await self.open()
        return self._sandbox_kind

    async def take_place(self) -> None:
        """Wait until there is room for one episode more."""
        await self.open()
        has_waited = False
        while True:
            up = [worker for worker in self._workers if worker.is_up]
            if self._places < len(up) * self._limits.episodes:
                self._places += 1
                self.counts.waited += has_waited
                return
            has_waited = True
            self._changed.clear()
            if not up:
                await self._until_up()
                continue
            if all(w.is_up for w in self._workers) and len(self._workers) < self._limits.most:
                self._add()
            await self._changed.wait()

    def give_place(self) -> None:
        """Let another episode have the place."""
        self._places -= 1
        self._changed.set()

    async def begin(self, task: Task) -> RemoteEpisode:
        """Open a session on the worker that has the fewest."""
        await self.open()
        await self._until_up()
        worker = min((w for w in self._workers if w.is_up), key=lambda one: one.in_use)
        episode = RemoteEpisode(
            id=secrets.token_hex(8), task=task, worker=worker, generation=worker.generation
        )
        worker.in_use += 1
        self.counts.episodes += 1
        try:
            episode.shown = await self._ask(episode, "open", task)
        except BaseException:
            self._leave(episode)
            raise
        return episode

    async def take_turn(
        self, episode: RemoteEpisode, verb: str, given: str | ToolCall
    ) -> Observation:
        """A turn of text or a call; notes what the session shows then."""
        worker, key = episode.worker, (episode.task.id, str(given))
        turn = Turn(has_company=bool(worker.turns))
        for other in worker.turns:
            other.has_company = True
        worker.turns.append(turn)
        try:
            seen, shown = await self._ask(episode, verb, given)
        except MachineFailure as failure:
            lost = failure.__cause__
            if isinstance(lost, ActorLost) and not lost.with_machine and not turn.has_company:
                self._ended[key] += 1
            if self._ended[key] < ENOUGH:
                raise
            return self._blame(episode, str(failure))
        finally:
            worker.turns.remove(turn)
        found: Observation = seen
        if shown is not None:
            before = episode.shown
            assert before is not None
            episode.shown = replace(shown, tools=before.tools, prompt=shown.prompt or before.prompt)
        return found

    def _blame(self, episode: RemoteEpisode, why: str) -> Observation:
        episode.blamed = f"this turn ended {ENOUGH} processes that it was taken in: {why}"
        self.counts.blamed += 1
        self.counts.moved -= 1  # it ends here
        said = "The machine ended at this turn, whenever it was taken."
        return Observation(message=Message(role="user", content=said), terminated=True)

    async def outcome(self, episode: RemoteEpisode) -> Outcome:
        """What the episode has come to."""
        if episode.blamed:
            return Outcome(success=False, evidence={"ended_machine": episode.blamed})
        found: Outcome = await self._ask(episode, "outcome")
        episode.worker.starts_in_a_row = 0
        return found

    async def end(self, episode: RemoteEpisode) -> None:
        """Close the session, where its worker is still there."""
        worker = episode.worker
        try:
            if worker.is_up and worker.generation == episode.generation:
                try:
                    async with asyncio.timeout(CLOSING_S):
                        await worker.link.ask("close", episode.id)
                except ActorLost as lost:
                    self._lose(worker, episode.generation, str(lost))
                except TimeoutError:
                    worker.link.stop()
                    self._lose(worker, episode.generation, f"{worker.link.name} is held up")
                except ActorRefused as refused:
                    raise EnvironmentFailure(refused.sentence) from None
        finally:
            self._leave(episode)

    def _leave(self, episode: RemoteEpisode) -> None:
        worker = episode.worker
        worker.in_use -= 1
        if worker.in_use == 0 and len(self._workers) > self._limits.fewest:
            asyncio.get_running_loop().call_later(self._limits.idle_s, self._end_idle)

    def _end_idle(self) -> None:
        """End the last worker that was added, where it has nothing to do and nobody waits."""
        last = self._workers[-1] if self._workers else None
        if last is None or len(self._workers) <= self._limits.fewest or last.in_use:
            return
        if self._places <= (len(self._workers) - 1) * self._limits.episodes:
            self._workers.pop()
            last.is_up = False
            if last.keeper is not None:
                last.keeper.cancel()
            last.link.stop()

    async def _ask(self, episode: RemoteEpisode, verb: str, *words: Any) -> Any:
        """What the episode's worker answers."""
        worker = episode.worker
        try:
            if worker.generation != episode.generation:
                raise ActorLost(f"{worker.link.called} was lost before", with_machine=True)
            return await worker.link.ask(verb, episode.id, *words)
        except ActorLost as lost:
            self._lose(worker, episode.generation, str(lost))
            if not episode.is_counted:
                episode.is_counted = True
                self.counts.moved += 1
            raise MachineFailure(str(lost)) from lost
        except ActorRefused as refused:
            raise EnvironmentFailure(refused.sentence) from None

    def _lose(self, worker: Worker, generation: int, why: str) -> None:
        """Note a lost worker, once, and start it again."""
        if worker.generation != generation or worker not in self._workers:
            return
        worker.is_up = False
        worker.generation += 1
        self.counts.lost += 1
        worker.keeper = asyncio.create_task(self._bring_up(worker))

    async def close(self) -> None:
        """End all workers and give their room back; the next `open` starts others."""
        workers, self._workers = self._workers, []
        for worker in workers:
            if worker.keeper is not None:
                worker.keeper.cancel()
        await asyncio.gather(*(self._end(worker) for worker in workers))
        self._room.give_up()

    async def _end(self, worker: Worker) -> None:
        """Let the environment close what it holds, and end the worker."""
        if worker.is_up:
            try:
                async with asyncio.timeout(CLOSING_S):
                    await worker.link.ask("end")
            except (TimeoutError, ActorLost, ActorRefused):
                pass  # it ends in any case
        await asyncio.to_thread(worker.link.stop)

    def metrics(self) -> dict[str, JSON]:
        """What a step's metrics show of the workers, all of it added up."""
        found: dict[str, JSON] = {
            "workers": sum(worker.is_up for worker in self._workers),
            "worker_losses": self.counts.lost,
            "worker_returns": self.counts.returned,
            "moved_episodes": self.counts.moved,
            "waited_episodes": self.counts.waited,
            "ended_machines": self.counts.blamed,
        }
        for worker in self._workers:
            found |= worker.link.metrics()
        return found
