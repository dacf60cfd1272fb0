"""examples/04_openai_agents.py: its score follows from the tools' calls, and a run of it trains."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.clients.serving import call, serving

from practicum.core.task import Task
from practicum.engine.policy import TorchPolicy
from practicum.store.events import read_metrics
from practicum.store.trace_store import SqliteTraceStore

pytest.importorskip("agents", reason="needs openai-agents; pip install openai-agents")
openai = pytest.importorskip("openai", reason="needs openai; pip install openai")

EXAMPLE = Path(__file__).parents[2] / "examples" / "04_openai_agents.py"
TASK = Task(
    id="t",
    env="tasks",
    split="train",
    instruction="Where is order 555?",
    data={"tool": "track", "order": 555},
)
QUICK = (
    "model=tiny",
    "steps=1",
    "rollouts.tasks_per_step=2",
    "rollouts.group_size=4",
    "rollouts.max_tokens=80",  # the tiny model has a token for each byte
    "eval.n=2",
    "hardware.threads=1",
)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


@pytest.mark.parametrize(
    ("said", "score"),
    [
        (call("track", order=555), 1.0),
        (call("track", order=55), 0.5),
        (call("cancel", order=555), 0.2),
        (call("explode", order=555), 0.0),
        (call("track", order="soon"), 0.0),
        ("I have tracked order 555.", 0.0),
    ],
)
async def test_it_pays_for_what_the_tools_were_called_with(
    example: dict[str, Any], policy: TorchPolicy, said: str, score: float
) -> None:
    async with serving(policy, [said]) as served:
        client = openai.AsyncOpenAI(
            base_url=f"{served.endpoint.url}/v1", api_key=served.endpoint.key
        )
        async with client:
            found = await example["rollout"](TASK, client)
        assert sum(found.values()) == pytest.approx(score)
        assert served.check_all_recorded() == len(said.encode()) + 1


def test_orders_of_held_out_tasks_are_not_trained_on(example: dict[str, Any]) -> None:
    rows = list(example["rows"]())
    trained = {row["order"] for row in rows if row["split"] == "train"}
    held_out = {row["order"] for row in rows if row["split"] == "heldout"}
    assert len(held_out) == 20
    assert not trained & held_out
    assert len({row["id"] for row in rows}) == len(rows)


@pytest.mark.slow
def test_a_run_of_it_learns_from_every_episode(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *QUICK, f"runs_dir={tmp_path}", "name=desk"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (step,) = [
        row.values
        for row in read_metrics(tmp_path / "desk" / "metrics.jsonl").rows
        if row.kind == "step"
    ]
    assert step["masked_episodes"] == 0
    assert step["applied"]
    assert step["largest_gap"] < 1e-4  # learned as it was sampled, under the tools' grammar too
    with SqliteTraceStore(tmp_path / "desk" / "traces.sqlite") as store:
        episodes = list(store.episodes(purpose="train"))
    assert len(episodes) >= 8
    for episode in episodes:
        assert len(episode.trace.turns) == 1
        assert episode.score is not None
        assert set(episode.score.components) == {"called", "right_tool", "right_call"}
