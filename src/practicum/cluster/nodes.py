"""The part of a cluster that this machine is: started, looked at, ended.

`ray start` runs under this user as a process that watches the others; what is ended is that one
process and what it has started, never another's Ray.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import ray

from practicum.cluster.connection import connect
from practicum.core.cache_folder import cache_root
from practicum.core.config.cluster_config import ClusterConfig
from practicum.core.errors import UserError

RECORD = "cluster.json"
PORT = 6379
STARTING_S = 300.0
ENDING_S = 30.0
LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class LocalNode:
    """What was started on this machine."""

    pid: int
    address: str
    log: str


def _record() -> Path:
    return cache_root() / RECORD


def local_node() -> LocalNode | None:
    """The node that `start_node` has started here, as long as it runs."""
    try:
        found = LocalNode(**json.loads(_record().read_text(encoding="utf-8")))
        words = Path(f"/proc/{found.pid}/cmdline").read_bytes()
    except (OSError, ValueError, TypeError):
        return None
    return found if b"ray.scripts.scripts" in words else None


def start_node(
    join: str, host: str, port: int, cpus: int | None = None, gpus: int | None = None
) -> LocalNode:
    """Make this machine the head of a cluster, or a node of the one at `join`.

    Args:
        join: HOST:PORT of a head; empty to be one.
        host: The address that other machines reach this one by.
        port: Where the head listens.
        cpus: What the cluster may use here; all there are unless given.
        gpus: The same of GPUs.
    """
    running = local_node()
    if running is not None:
        raise UserError(
            f"this machine is in the cluster {running.address} already (pid {running.pid}); end "
            "that first: practicum cluster down"
        )
    words = ["--address", join] if join else ["--head", "--port", str(port)]
    words += ["--node-ip-address", host, "--block", "--disable-usage-stats"]
    words += ["--include-dashboard=false"] if not join else []
    words += [f"--num-cpus={cpus}"] if cpus is not None else []
    words += [f"--num-gpus={gpus}"] if gpus is not None else []
    log = tempfile.NamedTemporaryFile(prefix="practicum-cluster-", suffix=".log", delete=False)  # noqa: SIM115
    with log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            start_new_session=True,
        )
    node = LocalNode(pid=process.pid, address=join or f"{host}:{port}", log=log.name)
    _until_started(process, Path(log.name))
    _record().parent.mkdir(parents=True, exist_ok=True)
    _record().write_text(json.dumps(asdict(node)), encoding="utf-8")
    return node


STARTED = "Ray runtime started."


def _until_started(process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + STARTING_S
    while STARTED not in (said := log.read_text(encoding="utf-8", errors="replace")):
        if process.poll() is not None or time.monotonic() >= end:
            _end(process.pid)
            last = [line for line in said.splitlines() if line.strip()][-3:]
            raise UserError(
                f"the node did not start ({' '.join(last)[:300]}); {log} has all it said; is there "
                "a head at that address, or another program at that port?"
            )
        time.sleep(LOOK_S)


def end_node() -> LocalNode | None:
    """End what `start_node` has started here; None where nothing runs."""
    node = local_node()
    if node is not None:
        _end(node.pid)
    _record().unlink(missing_ok=True)
    return node


def _end(pid: int) -> None:
    """End a process and its session: in order, and at last in any case."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + ENDING_S
        while time.monotonic() < end and Path(f"/proc/{pid}").exists():
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(LOOK_S)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node of the cluster, as `practicum cluster status` shows it."""

    host: str
    id: str
    is_up: bool
    cpus: float
    gpus: float
    memory_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as it is now."""

    address: str
    nodes: tuple[NodeView, ...]
    free_cpus: float
    free_gpus: float
    actors: tuple[str, ...]
    """Of all runs."""


def look_at_cluster(address: str) -> ClusterView:
    """What the cluster at an address has, and what is in it."""
    connect(ClusterConfig(kind="ray", address=address))
    free = ray.available_resources()
    named = ray.util.list_named_actors(all_namespaces=True)
    return ClusterView(
        address=ray.get_runtime_context().gcs_address,
        nodes=tuple(
            NodeView(
                host=one["NodeManagerHostname"],
                id=one["NodeID"],
                is_up=one["Alive"],
                cpus=one["Resources"].get("CPU", 0.0),
                gpus=one["Resources"].get("GPU", 0.0),
                memory_gib=one["Resources"].get("memory", 0.0) / (1 << 30),
            )
            for one in ray.nodes()
        ),
        free_cpus=free.get("CPU", 0.0),
        free_gpus=free.get("GPU", 0.0),
        actors=tuple(sorted(one["name"] for one in named)),
    )
