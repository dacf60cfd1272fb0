"""A learner of several processes: rank 0's, which the run knows, and those that follow it.

Every process has the whole policy. Rank 0 divides an update by tokens, each process adds up its
share's gradients, and all take the same steps with their sum. After whatever changes weights, the
fingerprints of all of them are compared. Checkpoints are rank 0's: those of one process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from practicum.core.errors import PracticumError
from practicum.core.interfaces import Measured, Need, Objective, UpdateReport
from practicum.core.sample import Batch
from practicum.engine.compute_thread import beside_loop, computed
from practicum.engine.learning.learner import LearnerSettings, TorchLearner, by_minibatch
from practicum.engine.learning.micro_batches import divide
from practicum.engine.learning.process_group import ProcessGroup, ProcessLost

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Order:
    """What a process is to do with its learner, by the name of the method."""

    verb: str
    arguments: tuple[Any, ...] = ()


class DataParallelLearner:
    """Rank 0's end of a learner of several processes (`Learner`)."""

    def __init__(self, own: TorchLearner, group: ProcessGroup) -> None:
        self._own = own
        self._group = group
        self._check_same("were loaded")

    @computed
    def update(self, batches: Sequence[Batch], objective: Objective) -> UpdateReport:
        """See `TorchLearner.update`; each process has a share of every minibatch."""
        divided = [
            divide(part, self._group.size, whole_samples=objective.by_sequence)
            for part in by_minibatch(batches)
        ]
        shares = [[part[rank] for part in divided] for rank in range(self._group.size)]
        reports = self._all_do("update_share", [(share, objective) for share in shares])
        self._check_alike([report.fingerprint for report in reports], "were updated")
        notices = [report.memory_notice for report in reports if report.memory_notice]
        return replace(
            reports[0],
            tokens=sum(batch.token_ids.size for batch in batches),
            row_tokens=sum(batch.row_tokens for batch in batches),
            out_of_memory=sum(report.out_of_memory for report in reports),
            micro_batch_splits=sum(report.micro_batch_splits for report in reports),
            gradient_checkpointing=any(report.gradient_checkpointing for report in reports),
            memory_notice=notices[0] if notices else "",
        )

    @computed
    def measure(self, batches: Sequence[Batch], needs: frozenset[Need]) -> list[Measured]:
        """See `TorchLearner.measure`; whole batches, so that no bit depends on who measures it."""
        size = self._group.size
        found = self._all_do("measure", [(batches[rank::size], needs) for rank in range(size)])
        return [found[at % size][at // size] for at in range(len(batches))]

    @computed
    def retune(self, settings: LearnerSettings) -> None:
        """See `TorchLearner.retune`."""
        self._everywhere("retune", settings)

    @computed
    def scale_rate(self, share: float) -> None:
        """See `TorchLearner.scale_rate`."""
        self._everywhere("scale_rate", share)

    @computed
    def load(self, folder: Path) -> None:
        """See `TorchLearner.load`; every process reads the folder."""
        self._everywhere("load", folder.absolute())
        self._check_same("were read from a checkpoint")

    def save(self, folder: Path) -> None:
        """See `TorchLearner.save`; rank 0 has all that a checkpoint keeps."""
        self._own.save(folder)

    def publish(self) -> str:
        """See `TorchLearner.publish`; rank 0 has the sampler."""
        return self._own.publish()

    def fingerprint(self) -> str:
        """See `TorchLearner.fingerprint`."""
        return self._own.fingerprint()

    async def beside_loop(self, work: Callable[[], T]) -> T:
        """See `TorchLearner.beside_loop`."""
        return await beside_loop(work)

    def _everywhere(self, verb: str, *arguments: Any) -> list[Any]:
        return self._all_do(verb, [arguments] * self._group.size)

    def _all_do(self, verb: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Order each process to do its part, and do one's own; what it came to, by rank."""
        self._group.send([Order(verb, of_rank) for of_rank in arguments])
        return self._group.gathered(partial(getattr(self._own, verb), *arguments[0]))

    @computed
    def _check_same(self, when: str) -> None:
        self._check_alike(self._everywhere("fingerprint"), when)

    def _check_alike(self, fingerprints: Sequence[str], when: str) -> None:
        others = [rank for rank, one in enumerate(fingerprints) if one != fingerprints[0]]
        if others:
            named = ", ".join(f"process {rank} has {fingerprints[rank]}" for rank in others)
            raise PracticumError(
                "the processes that learn together do not hold the same weights after these "
                f"{when}: process 0 has {fingerprints[0]}, {named}; the run goes on from its last "
                "checkpoint with --resume; where it happens again, leave that device out"
            )


def follow(learner: TorchLearner, group: ProcessGroup) -> None:
    """Do with a replica what rank 0 orders, until it says that the run has ended."""
    while isinstance(order := group.receive(), Order):
        work = partial(getattr(learner, order.verb), *order.arguments)
        try:
            group.gathered(computed(work))
        except ProcessLost:
            raise
        except PracticumError:
            continue  # all have been told of it, and rank 0 decides what becomes of the run
