"""One actor of a cluster as a run has it: started, asked, told to be lost, started again.

Nothing is asked twice here: an actor that is lost takes what it was asked along, and whoever asked
decides what is asked again. An actor that does not answer is asked for signs of life, which it
gives from a thread of its own. Without any it counts as lost, whether its process hangs, its node
is gone or the network between is.
"""

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from practicum.cluster.connection import Room, node_is_up
from practicum.core.errors import PracticumError, said_of
from practicum.core.task import JSON

HEALTH_S = 20.0
"""Seconds that an actor which works has for a sign of life."""
HEALTH = "health"
MOST_AT_ONCE = 10_000
"""Requests that an actor takes; its pool limits them."""
MIB = 1 << 20


class ActorLost(Exception):
    """An actor is gone.

    Args:
        sentence: Why.
        with_machine: Whether its node is gone too, or that is not known; else its process ended.
    """

    def __init__(self, sentence: str, *, with_machine: bool) -> None:
        super().__init__(sentence)
        self.with_machine = with_machine


class ActorRefused(Exception):
    """What an actor's code raised, by the name of its class."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind, self.sentence = kind, sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What an actor says of its process with every answer."""

    node: str
    host: str
    pid: int
    cpu_s: float
    memory_mib: float
    answers: int


class Answering:
    """What all actors share: verbs are methods `do_VERB`, whose errors come back as data."""

    def __init__(self) -> None:
        self._answers = 0
        self._node = ray.get_runtime_context().get_node_id()
        self._host = socket.gethostname()

    async def ask(self, verb: str, words: tuple[Any, ...]) -> tuple[Vitals, Any, Any]:
        """What a verb gives, or the kind and the sentence of its error."""
        try:
            given = await getattr(self, f"do_{verb}")(*words)
        except PracticumError as error:
            return self._vitals(), None, (type(error).__name__, str(error))
        except Exception as error:  # noqa: BLE001 - told where it was asked for, whatever it is
            return self._vitals(), None, (type(error).__name__, said_of(verb, error))
        return self._vitals(), given, None

    @ray.method(concurrency_group=HEALTH)  # type: ignore[untyped-decorator]
    async def is_alive(self) -> int:
        """A sign of life: its process id."""
        return os.getpid()

    def _vitals(self) -> Vitals:
        import resource  # actors are where there is POSIX; the run itself may be elsewhere

        self._answers += 1
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Vitals(
            node=self._node,
            host=self._host,
            pid=os.getpid(),
            cpu_s=used.ru_utime + used.ru_stime,
            memory_mib=used.ru_maxrss * 1024 / MIB,
            answers=self._answers,
        )


class ActorLink:
    """The way to one actor.

    Args:
        kind: Its class.
        words: What the class is called with.
        room: Where it may be.
        number: Which one of its kind it is.
        patience_s: How long an answer may take before a sign of life is asked for.
    """

    def __init__(
        self,
        kind: type[Answering],
        words: tuple[Any, ...],
        room: Room,
        number: int,
        *,
        patience_s: float,
    ) -> None:
        self._kind, self._words = kind, words
        self._room, self._number = room, number
        self._patience_s = patience_s
        self._actor: Any = None
        self._why_lost = ""
        self.called = f"{kind.__name__.removesuffix('Actor').lower()}-{number}"
        self.vitals: Vitals | None = None
        """What it has said of itself last."""
        self.spent: dict[str, float] = {"cpu_s": 0.0, "answers": 0.0}
        """What earlier processes of it have used."""

    @property
    def name(self) -> str:
        """Which actor it is, and where."""
        at = self.vitals
        return f"the actor {self.called}" + (f" on {at.host} (pid {at.pid})" if at else "")

    @property
    def runs(self) -> bool:
        """Whether it was started and is not known to be lost."""
        return self._actor is not None

    def start(self) -> None:
        """Start it, an earlier one having been ended; it may wait for room."""
        self.stop()
        made = ray.remote(
            name=f"{self.called}-{secrets.token_hex(4)}",
            max_restarts=0,  # what it had is lost with it: whoever uses it starts it again
            max_concurrency=MOST_AT_ONCE,
            concurrency_groups={HEALTH: 1},
            **self._room.options(self._number),
        )(self._kind)
        self._why_lost = ""
        self._actor = made.remote(*self._words)

    async def ask(self, verb: str, *words: Any, is_starting: bool = False) -> Any:
        """What it answers.

        Raises:
            ActorLost: it is gone, or gives no sign of life.
            ActorRefused: its code has raised.
        """
        actor = self._actor
        if actor is None:
            raise ActorLost(self._why_lost or f"{self.name} does not run", with_machine=True)
        asked = actor.ask.remote(verb, words)
        waiting = asyncio.wrap_future(asked.future())
        patience = None if is_starting else self._patience_s
        try:
            while not (await asyncio.wait({waiting}, timeout=patience))[0]:
                if not await self._is_alive(actor):
                    self._drop(actor, f"{self.name} gave no sign of life for {HEALTH_S:g} s")
                    raise ActorLost(self._why_lost, with_machine=True)
            vitals, given, error = waiting.result()
        except asyncio.CancelledError:
            waiting.cancel()
            with suppress(Exception):  # it is gone anyway
                ray.cancel(asked)
            raise
        except ray.exceptions.RayTaskError as error:  # what it gives cannot be sent
            last = str(error).strip().splitlines()[-1]
            raise ActorRefused("RayTaskError", f"{self.name}: {last}") from None
        except ray.exceptions.RayError as error:
            said = " ".join(str(error).split())[:300]
            node = self.vitals.node if self.vitals else ""  # before what is known of it is dropped
            self._drop(actor, why := f"{self.name} is gone ({said})")
            raise ActorLost(why, with_machine=await _node_is_gone(node)) from None
        self.vitals = vitals
        if error is not None:
            raise ActorRefused(*error)
        return given

    async def _is_alive(self, actor: Any) -> bool:
        try:
            async with asyncio.timeout(HEALTH_S):
                await asyncio.wrap_future(actor.is_alive.remote().future())
        except (TimeoutError, ray.exceptions.RayError):
            return False
        return True

    def _drop(self, actor: Any, why: str) -> None:
        """Know it as lost, and end what may be left of it."""
        if self._actor is actor:
            self._why_lost, self._actor = why, None
            self._keep_spent()
        with suppress(Exception):  # it is gone anyway
            ray.kill(actor)

    def _keep_spent(self) -> None:
        if self.vitals is not None:
            self.spent["cpu_s"] += self.vitals.cpu_s
            self.spent["answers"] += self.vitals.answers
            self.vitals = None

    def said(self) -> str:
        """Why it was lost, in brackets."""
        return f" ({self._why_lost})" if self._why_lost else ""

    def stop(self) -> None:
        """End it. Idempotent."""
        if self._actor is not None:
            self._drop(self._actor, f"{self.name} was stopped")

    def metrics(self) -> dict[str, JSON]:
        """What a step's metrics show of it; what it has used is added up over its processes."""
        now = self.vitals
        return {
            f"actor/{self.called}/cpu_s": self.spent["cpu_s"] + (now.cpu_s if now else 0.0),
            f"actor/{self.called}/answers": self.spent["answers"] + (now.answers if now else 0),
            f"actor/{self.called}/memory_mib": now.memory_mib if now else None,
        }


async def _node_is_gone(node: str) -> bool:
    """Whether a node is, or that cannot be found out."""
    if not node:
        return True
    try:
        async with asyncio.timeout(HEALTH_S):
            return not await asyncio.to_thread(node_is_up, node)
    except (TimeoutError, ray.exceptions.RayError):
        return True
