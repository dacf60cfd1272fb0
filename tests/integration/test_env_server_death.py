"""A whole run on shell tasks whose server is killed: its episodes are masked, and it goes on."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.integration.machines import why_no_machine
from tests.sandboxes.looking import Seen, pids

from practicum.core.trace import StopReason
from practicum.store.events import read_metrics
from practicum.store.run_dir import RunDir
from practicum.store.trace_store import SqliteTraceStore

STEPS = 3
WORDS = (
    *("remote", "env.serve=shell", "model=tiny", f"steps={STEPS}", "hardware.threads=1"),
    *("rollouts.tasks_per_step=2", "rollouts.group_size=3", "rollouts.max_turns=1"),
    *("rollouts.max_tokens=8", "eval.n=2", "agent.retries=0"),
)
WAIT_S = 90.0


@pytest.fixture(autouse=True)
def _machines() -> None:
    reason = why_no_machine()
    if reason is not None:
        pytest.skip(f"needs a sandbox with a machine in it: {reason}")


def below(top: int) -> Iterator[tuple[int, list[bytes]]]:
    """Processes that descend from one, with their arguments."""
    parents: dict[int, list[int]] = {}
    for pid in pids():
        with suppress(OSError):
            parents.setdefault(Seen(pid).parent.pid, []).append(pid)
    waiting = [top]
    while waiting:
        for pid in parents.get(waiting.pop(), []):
            with suppress(OSError):
                yield pid, (Seen(pid).folder / "cmdline").read_bytes().split(b"\0")
            waiting.append(pid)


class Killer(threading.Thread):
    """Kills the server of this process's run as soon as an episode of a later step has begun."""

    def __init__(self, metrics: Path) -> None:
        super().__init__()
        self._metrics = metrics
        self.killed: list[int] = []
        self.orphans: list[int] = []
        """What the server had running when it was killed."""

    def run(self) -> None:
        until = time.monotonic() + WAIT_S
        while not self._is_first_step_done() and time.monotonic() < until:
            time.sleep(0.005)
        earlier = {pid for server in servers() for pid in machines_of(server)}
        while not self.killed and time.monotonic() < until:
            for server in servers():
                if set(machines_of(server)) - earlier:
                    self.orphans = [pid for pid, _ in below(server)]
                    os.kill(server, signal.SIGKILL)
                    self.killed.append(server)
            time.sleep(0.005)

    def _is_first_step_done(self) -> bool:
        return self._metrics.exists() and '"kind": "step"' in self._metrics.read_text()


def servers() -> list[int]:
    """Servers that this process has started."""
    return [pid for pid, words in below(os.getpid()) if b"serve" in words]


def machines_of(server: int) -> list[int]:
    """Sandboxes that a server has open; each belongs to an episode."""
    return [pid for pid, words in below(server) if words[0].endswith(b"bwrap")]


@pytest.mark.rare
@pytest.mark.slow
def test_a_run_on_shell_tasks_survives_the_death_of_its_server(
    practicum: Callable[..., Any], runs_dir: Path
) -> None:
    killer = Killer(runs_dir / "run" / "metrics.jsonl")
    killer.start()
    answer = practicum("train", *WORDS, f"runs_dir={runs_dir}", "--name", "run")
    killer.join()
    assert answer.code == 0, answer.err
    assert len(killer.killed) == 1
    assert killer.orphans
    run = RunDir(runs_dir / "run")
    steps = [row for row in read_metrics(run.metrics_path).rows if row.kind == "step"]
    assert [row.step for row in steps] == list(range(1, STEPS + 1))
    masked = [row.values["masked_episodes"] for row in steps]
    assert masked[0] == masked[-1] == 0, "it was killed in between, and is back at the end"
    assert 0 < sum(masked) < sum(row.values["episodes"] for row in steps[1:]), masked
    with SqliteTraceStore(run.traces_path, read_only=True) as traces:
        episodes = list(traces.episodes(purpose="train"))
    lost = [episode for episode in episodes if episode.trace.is_masked]
    assert len(lost) == sum(masked)
    assert {episode.trace.stop for episode in lost} == {StopReason.ENVIRONMENT_FAILED}
    assert {episode.score.value for episode in lost} == {None}
    assert all(e.score.value == -0.5 for e in episodes if not e.trace.is_masked)
    assert servers() == []
    assert not [pid for pid in killer.orphans if Seen(pid).is_running()]
