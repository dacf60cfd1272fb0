"""Processes that learn together: each holds the whole policy and has a share of every update.

Rank 0 is the run's own process. The others hold replicas and wait for its orders. All that they
exchange goes through `torch.distributed` with gloo: orders from rank 0, what became of them, and
the adapter's gradients as one flat vector. A process that is lost closes its connections, which
ends whatever the others wait for; one that hangs is waited for so long and no longer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import torch
from torch import distributed

from practicum.core.errors import PracticumError, UserError

T = TypeVar("T")

PATIENCE = timedelta(minutes=15)
"""How long the others wait for a process in one exchange."""

IDLE = timedelta(days=365)
"""How long a replica waits for its next order: as long as the run samples."""


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
        self.rank, self.size = rank, size
        self.is_broken = False
        """Whether a process was lost: then nothing more can be said to the others."""
        self._why_lost = why_lost
        self._exchange(
            lambda: distributed.init_process_group(
                "gloo", init_method=meeting, rank=rank, world_size=size, timeout=PATIENCE
            )
        )
        # The replicas wait without bound where rank 0 does not.
        waits = IDLE if rank else PATIENCE
        self._orders: Any = self._exchange(lambda: distributed.new_group(timeout=waits))

    def send(self, orders: Sequence[Any]) -> None:
        """Give each process its order, rank 0 its own as well; None ends the process."""
        mine: list[Any] = [None]
        self._exchange(
            lambda: distributed.scatter_object_list(mine, list(orders), group=self._orders)
        )

    def receive(self) -> Any:
        """Wait for this process's next order from rank 0."""
        mine: list[Any] = [None]
        self._exchange(lambda: distributed.scatter_object_list(mine, None, group=self._orders))
        return mine[0]

    def gathered(self, work: Callable[[], T]) -> list[T]:
        """Do this process's part; what it came to in each, by rank.

        Where a part fails, every process raises: its own error, or else that of the first other.
        """
        own: Exception | None = None
        done: T | Failure
        try:
            done = work()
        except ProcessLost:
            raise  # there is nobody to tell
        except Exception as error:  # noqa: BLE001 - whatever it is, the others wait for this part
            own, done = error, Failure(as_sentence(error), isinstance(error, UserError))
        found: list[Any] = [None] * self.size
        self._exchange(lambda: distributed.all_gather_object(found, done))
        if own is not None:
            raise own
        for rank, one in enumerate(found):
            if isinstance(one, Failure):
                raise one.as_error(rank)
        return found

    @torch.no_grad()
    def sum_gradients(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        """Replace each gradient by the sum over all processes, in one flat vector on the host."""
        mine = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        has = torch.tensor([float(p.grad is not None) for p in parameters])
        flat = torch.cat([grad.flatten().float() for grad in mine]).cpu()
        flat = torch.cat([flat, has])
        self._exchange(lambda: distributed.all_reduce(flat))
        sums = flat.split([*(p.numel() for p in parameters), len(parameters)])
        for parameter, total, count in zip(parameters, sums, sums[-1], strict=False):
            grad = total.view_as(parameter).to(parameter, copy=True) if count else None
            parameter.grad = grad

    def leave(self) -> None:
        """Close the connections of this process."""
        distributed.destroy_process_group()

    def _exchange(self, talk: Callable[[], T]) -> T:
        try:
            return talk()
        except RuntimeError as error:
            self.is_broken = True
            first = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
            why = self._why_lost() or f"they cannot reach each other ({first[:200]})"
            raise ProcessLost(
                f"the {self.size} processes that learn together have lost one: {why}; what is saved "
                "goes on with --resume, in any number of processes"
            ) from error


def as_sentence(error: Exception) -> str:
    """An error as another process tells it."""
    return str(error) if isinstance(error, PracticumError) else f"{type(error).__name__}: {error}"
