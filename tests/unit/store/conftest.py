import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from practicum.core.config.parse_config import build_config
from practicum.core.config.run_config import RunConfig
from practicum.core.sample import Episode
from practicum.core.score import Score
from practicum.core.task import Outcome
from practicum.core.trace import Message, Node, SampledSpan, StopReason, Trace

MakeEpisode = Callable[..., Episode]


@pytest.fixture
def config() -> RunConfig:
    return build_config({"env": {"name": "math", "level": 2}, "algorithm": {"lr": "1e-5"}})


@pytest.fixture
def make_episode() -> MakeEpisode:
    def make(episode_id: str = "e1", *, task_id: str = "t1", value: float = 1.0) -> Episode:
        asked = Node(
            parent=None, messages=(Message(role="user", content="3x = 9"),), token_ids=(1, 2, 3)
        )
        span = SampledSpan(
            logprobs=(-0.1, -1.0 / 3.0),
            loss_mask=(True, False),
            log_kept=(0.0, 0.0),
            choices=((7, 8), (9,)),
            fingerprint="f0",
        )
        said = Node(
            parent=0,
            messages=(Message(role="assistant", content="divide_terms 3"),),
            token_ids=(7, 9),
            sampled=span,
        )
        return Episode(
            trace=Trace(
                id=episode_id,
                task_id=task_id,
                env="math",
                nodes=(asked, said),
                stop=StopReason.MAX_TURNS,
            ),
            outcome=Outcome(success=value > 0, turn_rewards=(value,), evidence={"turns": 1}),
            score=Score(components={"turns": value}, turn_values=(value,)),
        )

    return make


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for one megabyte."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mount)]
    try:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command here, so a full disk cannot be made")
    if made.returncode != 0:
        pytest.skip(f"mounting a small file system needs root here: {made.stderr.strip()}")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)
