"""Ray clusters of two nodes on this machine, and who kills what is in them."""

import os
import random
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from practicum.cli.main import main
from practicum.core.sample import Episode
from practicum.store.events import read_metrics
from practicum.store.trace_store import SqliteTraceStore
from practicum.training.prefix_tree import training_paths

DEADLINE_S = 600.0
STARTS = 5
"""Of a node: on a machine that is busy Ray's own deadlines pass."""
SETTINGS = (
    "model=tiny",
    "lora=light",
    "warm_start=none",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=4",
    "rollouts.max_turns=3",
    "rollouts.replace_flat_groups=0",
    "eval.n=4",
    "algorithm.lr=0.01",
    "checkpoints.every=1",
)


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def node_settings() -> dict[str, Any]:
    """With ports given: otherwise a node waits for files that a busy machine writes too late."""
    ports = ("metrics_agent_port", "runtime_env_agent_port", "dashboard_agent_listen_port")
    found = {name: _free_port() for name in (*ports, "metrics_export_port")}
    return {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 100 << 20, **found}


class TwoNodes:
    """A cluster of a head and another node, which can be lost."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster()
        self._add_node()
        self.address: str = self._cluster.address
        self._other = self._add_node()

    def _add_node(self) -> Any:
        """A node, begun anew where it is not up within Ray's own 30 seconds."""
        # Ray would take SIGTERM, which only the main thread can; nodes are added by others too.
        with mock.patch("ray._private.utils.set_sigterm_handler"):
            for _ in range(STARTS - 1):
                with suppress(Exception):  # Ray raises no other kind
                    return self._cluster.add_node(**node_settings())
            return self._cluster.add_node(**node_settings())

    def lose_node(self) -> None:
        """End the other node at once, and add one in its place."""
        self._cluster.remove_node(self._other, allow_graceful=False)
        self._other = self._add_node()

    def close(self) -> None:
        import ray

        ray.shutdown()
        self._cluster.shutdown()


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """The cluster; actors are as nice as this process, or a busy machine starves them."""
    settings = {
        "RAY_worker_niceness": "0",
        "RAY_raylet_start_wait_time_s": "300",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with mock.patch.dict(os.environ, settings):
        cluster = TwoNodes()
        try:
            yield cluster
        finally:
            cluster.close()


def practicum(*words: str) -> int:
    """The exit code of a command, in this process."""
    with mock.patch.object(sys, "argv", ["practicum", *words]):
        try:
            main()
        except SystemExit as leave:
            return int(leave.code or 0)
    return 0


def on_cluster(cluster: TwoNodes, *, samplers: int = 1) -> list[str]:
    """The words that move a run to a cluster."""
    section = f"cluster={{kind: ray, address: '{cluster.address}', workers: 2, worker_cpus: 0.5}}"
    engine = f"sampler={{kind: practicum, replicas: {samplers}}}"
    return [section, "cluster.sampler_cpus=0.5", engine] if samplers else [section]


def actor_pids(kinds: Sequence[str] = ("sampler", "environment")) -> dict[str, int]:
    """The process of each actor that gives a sign of life."""
    import ray

    found = {}
    for name in [one["name"] for one in ray.util.list_named_actors(all_namespaces=True)]:
        if name.startswith(tuple(kinds)):
            with suppress(ValueError, ray.exceptions.RayError):
                actor = ray.get_actor(name, namespace="practicum")
                found[name] = ray.get(actor.is_alive.remote(), timeout=5.0)
    return found


class Killer(threading.Thread):
    """Kills actors at random, one after the other, and the other node now and then.

    After each it waits until a step has ended and as many actors as before give signs of life, so
    that the run goes on between them, and then for a moment that is drawn.
    """

    def __init__(
        self, cluster: TwoNodes, kills: int, nodes_at: Sequence[int], run: Path, actors: int
    ) -> None:
        super().__init__(daemon=True)
        self._cluster, self._kills, self._nodes_at = cluster, kills, nodes_at
        self._run, self._actors, self._draw = run, actors, random.Random(36)
        self.killed: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        import ray

        while not ray.is_initialized() and not self.is_over.wait(0.2):
            pass
        done = 0
        while len(self.killed) < self._kills and not self.is_over.wait(self._draw.random()):
            there, rows = actor_pids(), self._rows()
            if len(there) < self._actors or rows <= done:
                continue
            done = rows
            if len(self.killed) in self._nodes_at:
                self._cluster.lose_node()
                self.killed.append("node")
                continue
            name = self._draw.choice(sorted(there))
            with suppress(ProcessLookupError):
                os.kill(there[name], signal.SIGKILL)
                self.killed.append(name.partition("-")[0])

    def _rows(self) -> int:
        """Lines that the run has written; one is of a step."""
        with suppress(FileNotFoundError):
            return (self._run / "metrics.jsonl").read_bytes().count(b"\n")
        return 0


def stored(run: Path, step: int) -> list[Episode]:
    """The episodes of a step that a run has kept."""
    with SqliteTraceStore(run / "traces.sqlite") as store:
        return list(store.episodes(step=step, purpose="train"))


def steps_of(run: Path) -> dict[int, dict[str, Any]]:
    """The metrics of each step."""
    rows = read_metrics(run / "metrics.jsonl").rows
    return {row.step: dict(row.values) for row in rows if row.kind == "step"}


def sample_tokens(episode: Episode) -> int:
    """Tokens of all samples that an episode makes."""
    nodes = episode.trace.nodes
    paths = training_paths(episode.trace)
    return sum(len(nodes[i].token_ids) for path in paths for i in path.nodes)


def check_every_sample_once(run: Path, steps: int, episodes: int) -> None:
    """From the store: each step has its episodes, once, whole; each was trained on once."""
    metrics = steps_of(run)
    assert sorted(metrics) == list(range(1, steps + 1))
    for step, row in metrics.items():
        there = stored(run, step)
        ids = [episode.trace.id for episode in there]
        assert len(set(ids)) == len(ids) == episodes, (step, ids)
        assert all(episode.is_usable for episode in there), step
        assert row["masked_episodes"] == row["unscored_episodes"] == 0
        groups: dict[str, list[Episode]] = {}
        for episode in there:
            groups.setdefault(episode.trace.id.rpartition("/")[0], []).append(episode)
        trained = [
            one
            for group in groups.values()
            if len({e.score.value for e in group}) > 1
            for one in group
        ]
        # Rows are counted before prefixes are shared, so that a sample that came twice shows.
        assert row.get("row_tokens", 0) == sum(map(sample_tokens, trained)), step
