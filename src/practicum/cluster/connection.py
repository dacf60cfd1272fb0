"""The connection of a run to its cluster, and the room that its actors are given there."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from practicum.core.config.cluster_config import ClusterConfig
from practicum.core.errors import UserError
from practicum.core.trusted_code import NOT_TYPED, VARIABLE, consents_as_variable

NAMESPACE = "practicum"
OURS = "PRACTICUM_"
"""Variables that actors are given as the run has them."""
THREADS = "OMP_NUM_THREADS"

STRATEGIES = {"spread": "SPREAD", "pack": "PACK", "apart": "STRICT_SPREAD"}

_connecting = threading.Lock()


def connect(config: ClusterConfig) -> None:
    """Connect this process; it stays so until it ends, and all runs in it share the connection."""
    with _connecting:
        if ray.is_initialized():
            return
        in_order = threading.current_thread() is threading.main_thread()
        before = signal.getsignal(signal.SIGTERM)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        logging.getLogger("ray").setLevel(logging.ERROR)  # it tells of threads and addresses
        try:
            ray.init(
                address=config.address,
                namespace=NAMESPACE,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
                runtime_env={"env_vars": _variables(os.environ)},
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            said = " ".join(str(error).split())[:200]
            raise UserError(
                f"no cluster answers at cluster.address = {config.address!r} ({said}); start one "
                "with: practicum cluster up"
            ) from None
        finally:
            if in_order:
                signal.signal(signal.SIGTERM, before)  # Ray puts its own in place of ours


def _variables(here: Mapping[str, str]) -> dict[str, str]:
    """What actors find in their environment besides what their node has."""
    found = {name: value for name, value in here.items() if name.startswith(OURS)}
    threads = {THREADS: here[THREADS]} if THREADS in here else {}
    return {**found, **threads, VARIABLE: consents_as_variable(), NOT_TYPED: "1"}


class Room:
    """Room for so many actors, held before any is started, so that none starts without others.

    Args:
        count: How many.
        needs: CPUs and GPUs of each.
        spread: A key of `STRATEGIES`.
        whose: What they are, for sentences.
    """

    def __init__(self, count: int, needs: Mapping[str, float], spread: str, whose: str) -> None:
        self._count, self._needs, self._whose = count, dict(needs), whose
        self._spread = spread
        self._group: PlacementGroup | None = None

    async def hold(self, timeout_s: float) -> None:
        """Wait for it; `UserError` where the cluster has too little."""
        bundles: Sequence[Any] = [self._needs] * self._count
        self._group = placement_group(bundles, strategy=STRATEGIES[self._spread])
        if await asyncio.to_thread(self._group.wait, timeout_s):
            return
        self.give_up()
        has = {name: n for name, n in ray.cluster_resources().items() if name in ("CPU", "GPU")}
        raise UserError(
            f"the cluster had no room for {self._count} {self._whose} of {self._needs} within "
            f"{timeout_s:g} s, and has {has} in all; add nodes (practicum cluster up --join), or "
            "ask for less: cluster.workers, cluster.worker_cpus, sampler.replicas, "
            "cluster.sampler_cpus"
        )

    def options(self, number: int) -> dict[str, Any]:
        """Where the actor with a number goes; those beyond what is held go wherever there is room.

        A place on a node that is lost is made up for by another node.
        """
        needs = {"num_cpus": self._needs.get("CPU", 0), "num_gpus": self._needs.get("GPU", 0)}
        if self._group is None or number >= self._count:
            return {**needs, "scheduling_strategy": "SPREAD"}
        place = PlacementGroupSchedulingStrategy(
            placement_group=self._group, placement_group_bundle_index=number
        )
        return {**needs, "scheduling_strategy": place}

    def give_up(self) -> None:
        """Give it back. Idempotent."""
        group, self._group = self._group, None
        if group is not None and ray.is_initialized():
            remove_placement_group(group)


def node_is_up(node: str) -> bool:
    """Whether a node, by its id, is a part of the cluster."""
    return any(one["NodeID"] == node and one["Alive"] for one in ray.nodes())
