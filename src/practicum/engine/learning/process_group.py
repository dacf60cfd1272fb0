"""Processes that learn together: each holds the whole policy and has a share of every update.

Rank 0 is the run's own process. The others hold replicas and wait for its orders. Orders, and what
became of them, go over a socket from rank 0 to each of the others, so that one that ends is noticed
at once by whoever waits for it; one that hangs is waited for so long and no longer. The adapter's
gradients go as one flat vector through `torch.distributed` with gloo.
"""

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import connection
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import distributed

from practicum.core.errors import PracticumError, UserError

T = TypeVar("T")

PATIENCE_S = 900.0
"""How long the others wait for a process to come, and to do its part."""

SUM_PATIENCE = timedelta(minutes=2)
"""The same of a sum of gradients, which all begin at the same moment."""


class ProcessLost(PracticumError):
    """A process of the group has ended, or does not answer."""


class Peers(Protocol):
    """The processes among which an update is divided, as one of them sees them."""

    @property
    def rank(self) -> int:
        """Which of them this is."""

    def gathered(self, work: Callable[[], T]) -> list[T]:
        """Do this process's part of what all do; what it came to in each, by rank."""

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replace each gradient by the sum over all processes; None where no process has one."""


class Alone:
    """One process that learns by itself."""

    rank = 0

    def gathered(self, work: Callable[[], T]) -> list[T]:
        """See `Peers`."""
        return [work()]

    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Nothing: its gradients are all there are."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a process could not do its part, as it can be sent."""

    told: str
    is_users: bool

    def as_error(self, rank: int) -> PracticumError:
        """The same for those who wait for it."""
        kind = UserError if self.is_users else PracticumError
        return kind(f"learner process {rank}: {self.told}")


class ProcessGroup:
    """This process among those that learn together.

    Args:
        rank: Which one it is; rank 0 gives the orders.
        size: How many they are.
        meeting: Where they meet, as `torch.distributed` takes it: `env://`, `file://PATH`.
        why_lost: What became of the others, asked once one of them is lost; empty if unknown.
    """

    def __init__(
        self, rank: int, size: int, meeting: str, why_lost: Callable[[], str] = str
    ) -> None:
        if distributed.is_initialized():
            raise UserError(
                "this program trains in several processes already; train one after the other, or "
                "start another program"
            )
        self.rank, self.size = rank, size
        self.is_broken = False
        """Whether a process was lost: then nothing more can be said to the others."""
        self._why_lost = why_lost
        self._exchanges = 0
        self._told: Exception | None = None
        """The last error of this process that all others know of."""
        with self._exchange():
            distributed.init_process_group(
                "gloo",
                init_method=meeting,
                rank=rank,
                world_size=size,
                timeout=timedelta(seconds=PATIENCE_S),
            )
            self._sums: Any = distributed.new_group(timeout=SUM_PATIENCE)
            self._lines = _lead_lines(size) if rank == 0 else {0: _line_to_leader(rank)}

    def send(self, orders: Sequence[Any]) -> None:
        """Give each other process its order, by rank; None ends the process."""
        with self._exchange():
            for rank, line in self._lines.items():
                line.send(orders[rank])

    def receive(self) -> Any:
        """Wait for this process's next order from rank 0, as long as the run samples."""
        with self._exchange():
            return self._lines[0].recv()

    def gathered(self, work: Callable[[], T]) -> list[T]:
        """Do this process's part; what it came to in each, by rank.

        Where a part fails, every process raises: its own error, or else that of the first other.
        A part may itself gather; what it raises of its own after that, it raises in all processes
        alike, for otherwise the others would take what is said of it for something else.
        """
        own: Exception | None = None
        done: T | Failure
        begun = self._exchanges
        try:
            done = work()
        except ProcessLost:
            raise  # there is nobody to tell
        except Exception as error:
            is_alike = isinstance(error, PracticumError) or error is self._told
            if self._exchanges > begun and not is_alike:
                self.is_broken = True  # the others see that this process is gone
                raise
            own, done = error, Failure(as_sentence(error), isinstance(error, UserError))
        with self._exchange():
            found = self._tell_all(done)
        if own is not None:
            self._told = own
            raise own
        for rank, one in enumerate(found):
            if isinstance(one, Failure):
                raise one.as_error(rank)
        return found

    def _tell_all(self, done: Any) -> list[Any]:
        """What this process has to say, and what all say, by rank."""
        if self.rank:
            self._lines[0].send(done)
            return list(_heard(self._lines[0]))
        found = [done, *(_heard(self._lines[rank]) for rank in range(1, self.size))]
        for line in self._lines.values():
            line.send(found)
        return found

    @torch.no_grad()
    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replace each gradient by the sum over all processes, as one flat vector on the host.

        They are added in the order of ranks, so that the sum has the bits of one process that
        accumulates the same parts. Each process adds up a part of the vector, so no more is sent
        than by any other all-reduce.
        """
        mine = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        has = torch.tensor([float(p.grad is not None) for p in parameters])
        flat = torch.cat([grad.flatten().float() for grad in mine]).cpu()
        sizes = [*(p.numel() for p in parameters), len(parameters)]
        with self._exchange():
            sums = self._sum(torch.cat([flat, has])).split(sizes)
        for parameter, total, count in zip(parameters, sums, sums[-1], strict=False):
            grad = total.view_as(parameter).to(parameter, copy=True) if count else None
            parameter.grad = grad

    def _sum(self, flat: torch.Tensor) -> torch.Tensor:
        """(N,) to the sum over all processes, in the order of ranks."""
        count = flat.numel()
        padded = torch.nn.functional.pad(flat, (0, -count % self.size)).view(self.size, -1)
        parts = torch.empty_like(padded)  # of each rank, what this one is to add up
        distributed.all_to_all_single(parts, padded, group=self._sums)
        total = parts[0]
        for part in parts[1:]:
            total += part
        sums = torch.empty_like(padded)
        distributed.all_gather([*sums], total, group=self._sums)
        return sums.view(-1)[:count]

    def leave(self) -> None:
        """Close the connections of this process."""
        for line in self._lines.values():
            line.close()
        distributed.destroy_process_group()

    @contextmanager
    def _exchange(self) -> Iterator[None]:
        self._exchanges += 1
        try:
            yield
        except (EOFError, OSError, RuntimeError) as error:
            self.is_broken = True
            said = [*str(error).strip().splitlines(), type(error).__name__][0]
            why = self._why_lost() or f"they cannot reach each other ({said[:200]})"
            raise ProcessLost(
                f"the {self.size} processes that learn together have lost one: {why}; what is "
                "saved goes on with --resume, in any number of processes"
            ) from error


def _lead_lines(size: int) -> "dict[int, connection.Connection[Any, Any]]":
    """Rank 0's ends of a socket to each other process."""
    folder = Path(tempfile.mkdtemp(prefix="practicum-lines-"))  # which nobody else may enter
    try:
        key = secrets.token_bytes(32)
        with connection.Listener(str(folder / "line"), "AF_UNIX", size, key) as listener:
            distributed.broadcast_object_list([listener.address, key], src=0)
            found = [listener.accept() for _ in range(1, size)]
        return dict(sorted((line.recv(), line) for line in found))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _line_to_leader(rank: int) -> "connection.Connection[Any, Any]":
    """This process's end of the socket to rank 0."""
    where: list[Any] = [None, None]
    distributed.broadcast_object_list(where, src=0)
    line = connection.Client(where[0], "AF_UNIX", where[1])
    line.send(rank)
    return line


def _heard(line: "connection.Connection[Any, Any]") -> Any:
    """What comes over a line, if it comes in time."""
    if not line.poll(PATIENCE_S):
        raise TimeoutError(f"one has said nothing for {PATIENCE_S:.0f} seconds")
    return line.recv()


def as_sentence(error: Exception) -> str:
    """An error as another process tells it."""
    return str(error) if isinstance(error, PracticumError) else f"{type(error).__name__}: {error}"
