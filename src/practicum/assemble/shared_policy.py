"""A policy behind one endpoint that a program uses, and that learns when the program says so."""

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from practicum.assemble.build_policy import build_policy, learner_settings
from practicum.assemble.policies import sampling_params
from practicum.assemble.updates import lesson_of
from practicum.core.checkpoint import Checkpoint, other_policy
from practicum.core.config.run_config import RunConfig
from practicum.core.conversation import Endpoint, RolloutLimits
from practicum.core.errors import CheckpointError, MissingExtra
from practicum.core.interfaces import LivePolicy, UpdateReport
from practicum.core.sample import Group
from practicum.gateway.capture import turn_seed
from practicum.gateway.rollouts import OpenRollouts
from practicum.gateway.shared_conversation import SharedConversation
from practicum.store.checkpoints import CheckpointStore
from practicum.store.run_dir import hold_lock
from practicum.training.algorithms.build_algorithms import build_algorithm

if TYPE_CHECKING:
    from practicum.engine.learning.learner import LearnerSettings

SETTINGS = "settings.json"
KEEP_ALL = 1_000_000_000
"""Checkpoints that are kept: the program says itself which to remove."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedStep:
    """What one step of learning came to."""

    report: UpdateReport | None
    """None when there was nothing to learn from."""
    groups: int
    trained_groups: int
    seconds: float


class SharedPolicy:
    """A model with an adapter, its folder, and the server that answers for it.

    Only one process may have a folder open.
    """

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self._held = ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        self._held.enter_context(hold_lock(folder / ".lock"))
        try:
            self._open(config, folder)
        except BaseException:
            self._held.close()
            raise

    def _open(self, config: RunConfig, folder: Path) -> None:
        self.checkpoints = CheckpointStore(folder)
        self.checkpoints.recover()
        self._seed = config.seed
        self.policy: LivePolicy = build_policy(config)
        self._settings: LearnerSettings = learner_settings(config, config.all_stages[0])
        params = sampling_params(config.rollouts, config.rollouts.temperature)
        self.step = self._resume()
        # Other draws after a resume than before it.
        seed = turn_seed(config.seed, self.step)
        self.turns = SharedConversation(self.policy.sampler, self.policy.codec, params, seed)
        self._serving: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def _resume(self) -> int:
        """Go on from the newest sound checkpoint; its step, 0 without any."""
        found = self.checkpoints.load_latest().checkpoint
        if found is None:
            return 0
        learner = self.policy.learner
        # The optimizer is read back into one with the rate it was saved with.
        saved = json.loads((found.path / SETTINGS).read_text())
        self._settings = replace(self._settings, lr=saved["lr"])
        learner.retune(self._settings)
        learner.load(found.path)
        if why := other_policy(found.fingerprint, learner.fingerprint()):
            raise CheckpointError(
                f"{found.path} was saved with weights {found.fingerprint} but gives "
                f"{learner.fingerprint()}: {why}; use that one, or another name"
            )
        return found.step

    async def serve(self, name: str) -> Endpoint:
        """Answer requests, in this event loop, until `close`."""
        ready: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
        self._serving = asyncio.create_task(self._serve(name, ready))
        either: set[asyncio.Future[Any]] = {self._serving, ready}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._serving  # says why it could not
        return ready.result()

    async def _serve(self, name: str, ready: "asyncio.Future[Endpoint]") -> None:
        from practicum.engine.sampling.json_grammar import JsonGrammars

        try:
            from practicum.gateway.server.gateway_server import Gateway
            from practicum.gateway.server.gateway_settings import GatewaySettings
        except ImportError as error:
            if (error.name or "").startswith("practicum"):
                raise
            raise MissingExtra.for_extra("gateway", "serving a model") from None

        rollouts = OpenRollouts()
        rollout = rollouts.open(self.turns, RolloutLimits(concurrency=0))
        grammars = JsonGrammars(self.policy.tokenizer)
        gateway = Gateway(rollouts, GatewaySettings(), (name,), grammars=grammars)
        async with gateway.serving():
            ready.set_result(gateway.endpoint(rollout))
            await self._stop.wait()

    async def learn(
        self, link: Callable[[SharedConversation, int], Sequence[Group]], config: RunConfig
    ) -> LearnedStep:
        """One step from groups of captured episodes; nothing is sampled meanwhile.

        The step counts, and is saved, also when there was nothing to learn from.

        Args:
            link: Gives the groups, told what was captured and which step this is.
            config: The algorithm and its options.
        """
        started, step = time.monotonic(), self.step + 1
        async with self.turns.learning():
            groups = link(self.turns, step)
            stage = config.all_stages[0]
            algorithm = build_algorithm(stage.algorithm, config.rollouts)
            trained = [group for group in groups if algorithm.is_informative(group)]
            report = None
            if trained:
                settings = learner_settings(config, stage)
                if settings != self._settings:
                    self.policy.learner.retune(settings)
                    self._settings = settings
                report = self._update(trained, config)
            self.step = step
            self._save()
        return LearnedStep(
            report=report,
            groups=len(groups),
            trained_groups=len(trained),
            seconds=time.monotonic() - started,
        )

    def _update(self, groups: Sequence[Group], config: RunConfig) -> UpdateReport | None:
        learner = self.policy.learner
        seed = (self._seed, self.step + 1)
        batches, algorithm = lesson_of(groups, config, learner, seed=seed)
        if not batches:
            return None
        report = learner.update(batches, algorithm)
        if report.applied:
            self.turns.forget()
        return report

    def _save(self) -> Checkpoint:
        learner = self.policy.learner

        def write(folder: Path) -> None:
            learner.save(folder)
            (folder / SETTINGS).write_text(json.dumps({"lr": self._settings.lr}))

        return self.checkpoints.save(
            self.step, write, fingerprint=learner.fingerprint(), keep=KEEP_ALL
        )

    def stop(self) -> None:
        """Let go of the folder, and stop answering as soon as the event loop goes on."""
        self._stop.set()
        self._held.close()

    async def close(self) -> None:
        """Stop answering and let go of the folder. May be called twice."""
        self._stop.set()
        if self._serving is not None:
            await self._serving
            self._serving = None
        self._held.close()
