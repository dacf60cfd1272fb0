"""A policy whose learner is here and whose sampler is elsewhere: published weights in between.

An adapter is written into a folder and renamed when it is whole, so that a replica never reads half
of one; its name counts on and has a random part, so that it is never used again, not even by a run
that resumes this one. Replicas keep as many versions as rollouts may be old, and two more.
"""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from practicum.core.errors import PolicyMismatch
from practicum.core.interfaces import (
    Learner,
    LivePolicy,
    Measured,
    Need,
    Objective,
    Sampler,
    UpdateReport,
)
from practicum.core.network_thread import NetworkThread
from practicum.core.sample import Batch
from practicum.core.sampling import Actions, Completion
from practicum.samplers.remote_sampler import RemoteSampler
from practicum.samplers.replica import Probe, PublishedAdapter
from practicum.samplers.replica_pool import ReplicaPool

T = TypeVar("T")

KEPT_BESIDES = 2
"""Versions that replicas keep besides those that rollouts may still be sampled from."""


class AdapterPublisher:
    """Gives every replica each version of the weights.

    Args:
        pool: The replicas.
        network: Where the pool lives.
        write: Writes the adapter as it is now into a folder.
        probe: What the learner finds likely now; None where replicas know their weights themselves.
        folder: Where adapters are published; a temporary folder of this machine where empty.
        staleness: Updates that a rollout may be behind.
    """

    def __init__(
        self,
        pool: ReplicaPool,
        network: NetworkThread,
        write: Callable[[Path], None],
        probe: Callable[[], Probe] | None,
        *,
        folder: str,
        staleness: int,
    ) -> None:
        self._pool, self._network = pool, network
        self._write, self._probe = write, probe
        self._keep = staleness + KEPT_BESIDES
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._root = Path(tempfile.mkdtemp(prefix="practicum-adapters-", dir=folder or None))
        if folder:
            self._root.chmod(0o755)  # replicas may be another user's, on another machine
        self._nonce, self._count = secrets.token_hex(4), 0
        self._version = ""

    def publish(self, version: str) -> None:
        """Have every replica that is up sample from the weights as they are now."""
        if version == self._version:
            return
        started = time.monotonic()
        self._count += 1
        name = f"policy@{version}-{self._nonce}{self._count}"
        unfinished, folder = self._root / f".{self._count}", self._root / f"{self._count}"
        unfinished.mkdir()
        self._write(unfinished)
        os.replace(unfinished, folder)
        adapter = PublishedAdapter(
            name=name,
            version=version,
            folder=folder.absolute(),
            probe=None if self._probe is None else self._probe(),
        )
        for old in self._network.run(self._pool.publish(adapter, self._keep)):
            shutil.rmtree(old.folder, ignore_errors=True)
        self._version = version
        self._pool.counts.publish_s += time.monotonic() - started

    def check(self) -> None:
        """Raise `PolicyMismatch` that names the replicas whose weights are not the newest."""
        self._network.run(self._pool.check())

    def require_no_failure(self) -> None:
        """Raise what a replica did that must stop the run, also where an agent has hidden it."""
        if self._pool.failure is not None:
            raise self._pool.failure

    def close(self) -> None:
        """Remove what was published."""
        shutil.rmtree(self._root, ignore_errors=True)


class PublishingLearner:
    """A `Learner` that publishes to replicas whatever its own learner publishes here."""

    def __init__(self, learner: Learner, publisher: AdapterPublisher) -> None:
        self._learner, self._publisher = learner, publisher

    def update(self, batches: Sequence[Batch], objective: Objective) -> UpdateReport:
        """See `Learner`; where the tokens are not the learner's, the replica at fault is named."""
        self._publisher.require_no_failure()
        try:
            report = self._learner.update(batches, objective)
        except PolicyMismatch as error:
            try:
                self._publisher.check()
            except PolicyMismatch as found:
                raise PolicyMismatch(f"{found}; {error}") from error
            raise
        self._publisher.publish(report.fingerprint)
        return report

    def publish(self) -> str:
        """See `Learner`."""
        version = self._learner.publish()
        self._publisher.publish(version)
        return version

    async def beside_loop(self, work: Callable[[], T]) -> T:
        """See `Learner`."""
        return await self._learner.beside_loop(work)

    def measure(self, batches: Sequence[Batch], needs: frozenset[Need]) -> list[Measured]:
        """See `Learner`."""
        return self._learner.measure(batches, needs)

    def retune(self, settings: Any) -> None:
        """See `Learner`."""
        self._learner.retune(settings)

    def scale_rate(self, share: float) -> None:
        """See `Learner`."""
        self._learner.scale_rate(share)

    def fingerprint(self) -> str:
        """See `Learner`."""
        return self._learner.fingerprint()

    def save(self, folder: Path) -> None:
        """See `Learner`."""
        self._learner.save(folder)

    def load(self, folder: Path) -> None:
        """See `Learner`."""
        self._learner.load(folder)
        self.publish()


class PolicyElsewhere:
    """A `LivePolicy` that samples on replicas until it is closed, and here from then on."""

    def __init__(
        self,
        local: LivePolicy,
        sampler: RemoteSampler,
        pool: ReplicaPool,
        publisher: AdapterPublisher,
        network: NetworkThread,
    ) -> None:
        self._local, self._sampler = local, sampler
        self._pool, self._publisher, self._network = pool, publisher, network
        self._learner = PublishingLearner(local.learner, publisher)
        self._is_open = True

    @property
    def name(self) -> str:
        """Of its base model."""
        return self._local.name

    @property
    def sampler(self) -> Sampler:
        """The replicas; once they are given up, the model that has learned."""
        return self._sampler if self._is_open else self._local.sampler

    @property
    def learner(self) -> Learner:
        """The end that is updated."""
        return self._learner if self._is_open else self._local.learner

    @property
    def codec(self) -> Any:
        """The `ChatCodec` of its base model."""
        return self._local.codec

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of its base model."""
        return self._local.tokenizer

    @property
    def max_positions(self) -> int:
        """How many tokens the model can tell the places of."""
        return self._local.max_positions

    @property
    def trainable_share(self) -> tuple[int, int]:
        """Trainable parameters, and the base model's."""
        return self._local.trainable_share

    def spell(self, text: str, actions: Actions) -> Completion:
        """A turn as if it had been sampled."""
        return self._local.spell(text, actions)

    def close(self) -> None:
        """Give the replicas up, and end those that the run has started. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._network.run(self._pool.close())
            self._network.stop()
            self._publisher.close()
