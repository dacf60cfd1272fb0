"""Runs on a Ray cluster of two nodes: the same as in one process, whatever is killed meanwhile."""

import asyncio
import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.integration.clusters import (
    DEADLINE_S,
    SETTINGS,
    Killer,
    TwoNodes,
    actor_pids,
    check_every_sample_once,
    on_cluster,
    practicum,
    steps_of,
    stored,
    two_nodes,
)

from practicum.assemble.clustered import act_in_workers
from practicum.assemble.environments import open_environment
from practicum.config_files import read_config
from practicum.core.errors import MachineFailure
from practicum.core.interfaces import Environment

pytestmark = [
    pytest.mark.rare,
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None,
        reason="needs Ray; type: pip install 'practicum[ray]'",
    ),
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    with two_nodes() as made:
        yield made


def in_workers(cluster: TwoNodes, env: str, *words: str) -> Environment:
    """An environment whose episodes are in two workers."""
    config = read_config(env, ["model=tiny", *on_cluster(cluster, samplers=0), *words])
    environment = open_environment(config.env)
    act_in_workers(config, environment)
    return environment


async def test_an_episode_in_an_actor_is_what_it_is_here(cluster: TwoNodes) -> None:
    here = open_environment(read_config("math", ["model=tiny", "env.level=4"]).env)
    there: Any = in_workers(cluster, "math", "env.level=4")
    try:
        for task in islice(here.tasks("train", 0), 4):
            found = []
            for environment in (here, there):
                async with environment.open(task) as session:
                    told: list[Any] = [session.prompt(), [one.name for one in session.actions()]]
                    told += [await session.act(turn) for turn in here.reference(task)]
                    found.append([*told, await session.outcome()])
            assert found[0] == found[1]
        async with asyncio.timeout(DEADLINE_S):  # episodes begin when the first of them is up
            while there.worker_metrics()["workers"] < 2:
                await asyncio.sleep(0.05)
    finally:
        await there.close()


WAITING = '''
import asyncio, contextlib, itertools, os, pathlib
import practicum as pr

class WaitingEnvironment:
    """Each turn waits for a turn of another episode, as if for a slow machine."""
    name = "waiting"
    all_levels = (1,)

    class Options(pr.ConfigModel):
        place: str = ""

    def __init__(self, options):
        self.place = pathlib.Path(options.place)

    def tasks(self, split, seed):
        for n in range(1000):
            yield pr.Task(id=f"t{n}", env="waiting", split=split, instruction="wait")

    def reference(self, task):
        return ["wait"]

    @contextlib.asynccontextmanager
    async def open(self, task):
        yield Session(self.place)

class Session:
    def __init__(self, place):
        self.place = place

    def prompt(self):
        return [pr.Message(role="user", content="wait")]

    def actions(self):
        return (pr.ActionForm(name="wait"), pr.ActionForm(name="crash"))

    async def act(self, text):
        if text == "crash":
            os._exit(1)
        for number in itertools.count():
            with contextlib.suppress(FileExistsError):
                (self.place / str(number)).open("x").close()
                break
        (self.place / f"{number}.pid").write_text(str(os.getpid()))
        while not (self.place / str(number ^ 1)).exists():
            await asyncio.sleep(0.01)
        return pr.Observation(message=pr.Message(role="user", content=text), terminated=True)

    async def outcome(self):
        return pr.Outcome(success=True, turn_rewards=(1.0,))
'''


def waiting(cluster: TwoNodes, folder: Path) -> Environment:
    (folder / "waits.py").write_text(WAITING)
    (folder / "turns").mkdir()
    name = f"{folder / 'waits.py'}:WaitingEnvironment"
    return in_workers(cluster, name, f"env.place={folder / 'turns'}", "cluster.episodes=1")


async def test_two_workers_take_two_turns_at_once(cluster: TwoNodes, tmp_path: Path) -> None:
    """Each worker has one episode at a time, and each turn ends only beside another one's."""
    there: Any = waiting(cluster, tmp_path)

    async def episode(task: Any) -> None:
        async with there.room_for_episode(), there.open(task) as session:
            await session.act("wait")

    try:
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(*map(episode, islice(there.tasks("train", 0), 12)))
    finally:
        await there.close()
    took = [(tmp_path / "turns" / f"{n}.pid").read_text() for n in range(12)]
    # Turns 0 and 1 ended beside each other, then 2 and 3: 6 rounds, where one worker takes 12.
    assert all(one != other for one, other in zip(took[::2], took[1::2], strict=True))


async def test_an_action_that_ends_its_machine_again_and_again_has_failed(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    there: Any = waiting(cluster, tmp_path)
    [task] = islice(there.tasks("train", 0), 1)
    moved, outcome = 0, None
    try:
        async with asyncio.timeout(DEADLINE_S):
            while outcome is None:
                try:
                    async with there.room_for_episode(), there.open(task) as session:
                        seen = await session.act("crash")
                        assert seen.terminated
                        outcome = await session.outcome()
                except MachineFailure:
                    moved += 1
        metrics = there.worker_metrics()
    finally:
        await there.close()
    assert moved == metrics["moved_episodes"] == 2
    assert outcome.success is False
    assert "ended 3 processes" in outcome.evidence["ended_machine"]
    assert (metrics["worker_losses"], metrics["ended_machines"]) == (3, 1)


async def test_a_worker_that_hangs_is_replaced(cluster: TwoNodes) -> None:
    there: Any = in_workers(cluster, "math", "cluster.patience_s=1", "cluster.workers=1")
    [task] = islice(there.tasks("train", 0), 1)
    try:
        async with asyncio.timeout(DEADLINE_S):
            async with there.open(task) as session:
                assert session.prompt()
            [pid] = actor_pids(("environment",)).values()
            async with there.open(task) as session:
                os.kill(pid, signal.SIGSTOP)
                with pytest.raises(MachineFailure, match="no sign of life"):
                    await session.act("identify_operation")
            async with there.open(task) as session:
                assert session.prompt()
        assert there.worker_metrics()["worker_returns"] == 1
    finally:
        await there.close()


async def test_workers_are_added_while_episodes_wait_and_ended_when_idle(
    cluster: TwoNodes,
) -> None:
    words = ("cluster.workers=1", "cluster.most_workers=2", "cluster.episodes=1")
    there: Any = in_workers(cluster, "math", *words, "cluster.idle_s=0.5")
    done, first, second = asyncio.Event(), *islice(there.tasks("train", 0), 2)

    async def episode(task: Any) -> None:
        async with there.room_for_episode(), there.open(task):
            await done.wait()

    try:
        async with asyncio.timeout(DEADLINE_S):
            both = asyncio.gather(episode(first), episode(second))
            while there.worker_metrics()["workers"] < 2:
                await asyncio.sleep(0.05)
            done.set()
            await both
            while there.worker_metrics()["workers"] > 1:
                await asyncio.sleep(0.05)
    finally:
        await there.close()


def scores_of(run: Path, step: int) -> dict[str, Any]:
    """What each episode of a step did, and what it was worth."""
    return {
        one.trace.id: (
            [node.token_ids for node in one.trace.nodes if node.sampled is not None],
            one.score.value,
        )
        for one in stored(run, step)
    }


def test_a_run_on_a_cluster_is_the_run_in_one_process(cluster: TwoNodes, tmp_path: Path) -> None:
    words = ["train", "math", *SETTINGS, "steps=3", f"runs_dir={tmp_path}"]
    assert practicum(*words, "--name", "here") == 0
    assert practicum(*words, "--name", "there", *on_cluster(cluster)) == 0
    here, there = steps_of(tmp_path / "here"), steps_of(tmp_path / "there")
    check_every_sample_once(tmp_path / "there", 3, 8)
    for step in (1, 2, 3):
        assert scores_of(tmp_path / "here", step) == scores_of(tmp_path / "there", step)
        assert here[step].keys() <= there[step].keys()
        assert there[step]["loss"] == pytest.approx(here[step]["loss"], abs=1e-5)
    for name in ("sampler-0", "environment-0", "environment-1"):
        assert there[3][f"actor/{name}/answers"] > 0
        assert there[3][f"actor/{name}/cpu_s"] > 0.0


def test_a_stale_adapter_on_an_actor_stops_the_run_and_names_it(
    cluster: TwoNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from practicum.cluster.engine_actor import EngineByActor

    first: dict[str, Path] = {}
    loads = EngineByActor.load

    async def load(self: EngineByActor, name: str, folder: Path) -> dict[str, Any]:
        if not first:
            kept = tmp_path / "first"
            kept.mkdir()
            for one in folder.iterdir():
                (kept / one.name).write_bytes(one.read_bytes())
        return await loads(self, name, first.setdefault("folder", tmp_path / "first"))

    monkeypatch.setattr(EngineByActor, "load", load)
    words = ["train", "math", *SETTINGS, "steps=3", f"runs_dir={tmp_path}", "--name", "stale"]
    assert practicum(*words, *on_cluster(cluster)) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "the actor sampler-0 on" in said
    assert "a stale or another adapter is being sampled there" in said
    assert sorted(steps_of(tmp_path / "stale")) in ([], [1])


GENTLE = "algorithm.lr=0.0001"
"""Groups stay apart, and are trained on, in every step of a long run."""


def killed_run(
    cluster: TwoNodes, folder: Path, kills: int, nodes_at: tuple[int, ...], steps: int
) -> None:
    """Train on the cluster while actors and nodes are killed, and look at what was trained on."""
    run = folder / "run"
    killer = Killer(cluster, kills, nodes_at, run, actors=3)
    words = ["train", "math", *SETTINGS, GENTLE, f"steps={steps}", f"runs_dir={folder}"]
    killer.start()
    try:
        assert practicum(*words, "--name", "run", *on_cluster(cluster)) == 0
    finally:
        killer.is_over.set()
        killer.join(DEADLINE_S)
    check_every_sample_once(run, steps, 8)
    print(killer.killed)
    assert len(killer.killed) == kills
    assert set(killer.killed) == {"node", "sampler", "environment"}
    last = steps_of(run)[steps]
    # One that is killed while it starts again was counted already.
    assert last["replica_losses"] >= last["replica_returns"] > 0
    assert last["worker_losses"] >= last["worker_returns"] > 0


def test_no_sample_is_lost_or_trained_on_twice_when_actors_and_a_node_are_killed(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    """Forty are killed."""
    killed_run(cluster, tmp_path, kills=40, nodes_at=(3, 20), steps=450)


LEARNER = """
import os, signal, sys, threading
from pathlib import Path
from tests.integration.clusters import practicum
*words, checkpoint = sys.argv[1:]

def end_when_saved():
    while not Path(checkpoint).exists():
        threading.Event().wait(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

threading.Thread(target=end_when_saved, daemon=True).start()
sys.exit(practicum(*words))
"""


def test_a_learner_that_is_killed_goes_on_and_leaves_no_actor(
    cluster: TwoNodes, tmp_path: Path
) -> None:
    import subprocess

    words = ["train", "math", *SETTINGS, "steps=4", f"runs_dir={tmp_path}", "--name", "run"]
    saved = tmp_path / "run" / "checkpoints" / "step_2"
    line = [sys.executable, "-c", LEARNER, *words, *on_cluster(cluster), str(saved)]
    done = subprocess.run(line, check=False, timeout=DEADLINE_S)
    assert done.returncode == -signal.SIGKILL
    assert practicum("train", "--resume", str(tmp_path / "run")) == 0
    check_every_sample_once(tmp_path / "run", 4, 8)
    assert not actor_pids()
